//! The commands and settings that put advice into effect.

use anabranch_units::Time;

use super::search::{Found, KERNEL, SECOND_JUDGEMENT, Setting};
use super::{Answer, Candidate};
use crate::figures::digits;
use crate::scenario::Path;
use crate::spoken::{counted, spoken};
use crate::usage::PathUsage;

/// Facts of the judgement beside the answer.
pub(super) struct Judged<'a> {
    /// The path of `tcp`.
    pub single_path: Option<&'a str>,
    /// True if flows missed the deadline that have not failed.
    pub late: bool,
    /// The number of runs.
    pub runs: u32,
    /// The data of each path and its cost.
    pub usage: &'a [PathUsage],
}

/// Returns what to do. `kernel` is the best of the candidates that a stock kernel can be and that pay.
pub(super) fn actions(
    setting: &Setting<'_>,
    answer: Answer,
    best: &Candidate,
    kernel: Option<&Candidate>,
    found: &Found,
    judged: &Judged<'_>,
) -> Vec<String> {
    let &Judged { single_path, late, runs, usage } = judged;
    let paths = setting.condition().experiment.paths();
    let of_tcp =
        expense("tcp", paths.iter().find(|path| Some(spoken(&path.name).as_str()) == single_path), usage);
    let single = single_path.unwrap_or("the best path");
    let single_congestion = found.single_congestion.as_deref().map(sysctl);
    match answer {
        Answer::Pays => {}
        Answer::Small | Answer::Equal | Answer::Costs => {
            let route = format!("Use TCP on {single}: route the flow over that interface.");
            return [Some(route), single_congestion, of_tcp].into_iter().flatten().collect();
        }
        Answer::Undecided => {
            // With these runs as the first ones, the second judgement has the multiple of them.
            let more = runs.saturating_mul(SECOND_JUDGEMENT);
            let stay = format!(
                "Stay with TCP on {single}: {runs} runs cannot tell whether there is a gain. Up to {more} may (`--runs {runs}`)."
            );
            return [Some(stay), single_congestion, of_tcp].into_iter().flatten().collect();
        }
        Answer::Incomplete => {
            let experiment = &setting.condition().experiment;
            return match late {
                true if experiment.is_up_after(Time::ZERO + experiment.deadline, None) => {
                    vec!["Raise `deadline`, so that all flows finish.".to_owned()]
                }
                true => vec!["Repair a path: all are down at the deadline, and for good.".to_owned()],
                false => Vec::new(),
            };
        }
    }
    let others = setting.condition().experiment.paths().len() - 1;
    let start = setting.path_name(found.start);
    let mut all = Vec::new();
    if kernel.is_none_or(|kernel| kernel.name != best.name) {
        let congestion = best.congestion.as_ref().map_or(String::new(), |name| format!(" --cc {name}"));
        all.push(format!(
            "For {}: send with `anabranch serve --scheduler {}{congestion} ...`, and let connections start on {start}.",
            best.name, best.scheduler
        ));
        all.extend(expense(&best.name, paths.get(found.start), usage));
    }
    if let Some(kernel) = kernel {
        let lead = match kernel.name == best.name {
            true => String::new(),
            false => format!("Row `{}` needs no more than a stock kernel. ", kernel.name),
        };
        all.push(format!("{lead}On both hosts (Linux 5.19 or newer): `sysctl -w net.mptcp.enabled=1`."));
        all.extend(kernel.congestion.as_deref().map(sysctl));
        all.extend([
            format!("On the client: `ip mptcp limits set subflow {others} add_addr_accepted {others}`."),
            "On the client, for each other path: `ip mptcp endpoint add ADDRESS dev INTERFACE subflow`."
                .to_owned(),
            format!("Route the first subflow over {start}, and run the program with `mptcpize run PROGRAM`."),
        ]);
        all.extend(expense(&kernel.name, paths.get(found.start), usage));
    } else if best.scheduler != KERNEL {
        all.push(format!("A stock kernel does not gain here: for it, stay with TCP on {single}."));
        all.extend(single_congestion);
        all.extend(of_tcp);
    }
    all
}

/// Returns what speaks against a way to send besides its time: that the path on which it starts is a backup, the price of its
/// data, and the quotas that it exceeds.
fn expense(name: &str, start: Option<&Path>, usage: &[PathUsage]) -> Option<String> {
    let own = || usage.iter().filter(|path| path.scheduler == name);
    let mut parts = Vec::new();
    parts.extend(start.filter(|path| path.backup).map(|path| format!("{} is a backup", spoken(&path.name))));
    let cost: f64 = own().map(|path| path.cost).sum();
    if cost > 0.0 {
        parts.push(format!("the data of {name} costs {} per run", digits(cost)));
    }
    let exceeds = |path: &PathUsage| {
        let exceeded = path.over_quota.filter(|runs| *runs > 0)?;
        let of = counted(u64::from(path.runs), "run");
        Some(format!("{name} exceeds the quota of {} in {exceeded} of {of}", spoken(&path.path)))
    };
    parts.extend(own().filter_map(exceeds));
    let text = parts.join("; ");
    let text = match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => text,
    };
    (!text.is_empty()).then(|| format!("{text}."))
}

/// Returns the command that sets the congestion control of new connections.
fn sysctl(congestion: &str) -> String {
    format!("On the sender: `sysctl -w net.ipv4.tcp_congestion_control={congestion}`.")
}
