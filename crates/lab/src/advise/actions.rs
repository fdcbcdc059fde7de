//! The commands and settings that put advice into effect.

use anabranch_units::Time;

use super::search::{Found, KERNEL, Setting};
use super::{Answer, Candidate};

/// Facts of the judgement beside the answer.
pub(super) struct Judged<'a> {
    /// The path of `tcp`.
    pub single_path: Option<&'a str>,
    /// True if flows missed the deadline that have not failed.
    pub late: bool,
    /// The number of runs.
    pub runs: u32,
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
    let &Judged { single_path, late, runs } = judged;
    let single = single_path.unwrap_or("the best path");
    let single_congestion = found.single_congestion.as_deref().map(sysctl);
    match answer {
        Answer::Pays => {}
        Answer::Small | Answer::Equal | Answer::Costs => {
            let route = format!("Use TCP on {single}: route the flow over that interface.");
            return [Some(route), single_congestion].into_iter().flatten().collect();
        }
        Answer::Undecided => {
            let stay = format!(
                "Stay with TCP on {single}: {runs} runs cannot tell whether there is a gain. More may (`--runs {runs}`)."
            );
            return [Some(stay), single_congestion].into_iter().flatten().collect();
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
    } else if best.scheduler != KERNEL {
        all.push(format!("A stock kernel does not gain here: for it, stay with TCP on {single}."));
        all.extend(single_congestion);
    }
    all
}

/// Returns the command that sets the congestion control of new connections.
fn sysctl(congestion: &str) -> String {
    format!("On the sender: `sysctl -w net.ipv4.tcp_congestion_control={congestion}`.")
}
