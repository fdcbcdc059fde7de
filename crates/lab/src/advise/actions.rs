//! What to do: the commands and settings that put advice into effect.

use super::search::Setting;
use super::{Answer, Candidate};

pub(super) fn actions(
    setting: &Setting<'_>,
    answer: Answer,
    best: &Candidate,
    kernel_pays: bool,
    start: usize,
    single_path: Option<&str>,
) -> Vec<String> {
    let single = single_path.unwrap_or("the best path");
    match answer {
        Answer::Pays => {}
        Answer::Equal | Answer::Costs => {
            return vec![format!("Use TCP on {single}: route the flow over that interface.")];
        }
        Answer::Undecided => {
            return vec![format!(
                "Stay with TCP on {single} for now, or raise --runs until the interval excludes 0."
            )];
        }
        Answer::Incomplete => {
            return vec!["Raise `deadline`, so that all flows finish.".to_owned()];
        }
    }
    let others = setting.condition().experiment.paths().len() - 1;
    let start = setting.path_name(start);
    let mut all = Vec::new();
    if best.name != "linux" {
        let congestion = best.congestion.as_ref().map_or(String::new(), |name| format!(" --cc {name}"));
        all.push(format!(
            "For {}: send with `anabranch serve --scheduler {}{congestion} ...`, and let connections start on {start}.",
            best.name, best.scheduler
        ));
    }
    if kernel_pays {
        let lead = if best.name == "linux" { "" } else { "Row `linux` needs no more than a stock kernel. " };
        all.extend([
            format!("{lead}On both hosts (Linux 5.19 or newer): `sysctl -w net.mptcp.enabled=1`."),
            format!("On the client: `ip mptcp limits set subflow {others} add_addr_accepted {others}`."),
            "On the client, for each other path: `ip mptcp endpoint add ADDRESS dev INTERFACE subflow`."
                .to_owned(),
            format!("Route the first subflow over {start}, and run the program with `mptcpize run PROGRAM`."),
        ]);
    }
    all
}
