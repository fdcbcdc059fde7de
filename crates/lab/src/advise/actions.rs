//! What to do: the commands and settings that put advice into effect.

use super::search::Setting;
use super::{Answer, Candidate};

pub(super) fn actions(
    setting: &Setting<'_>,
    answer: Answer,
    best: &Candidate,
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
    let paths = setting.condition().experiment.paths().len();
    let start = setting.path_name(start);
    if best.name == "linux" {
        let more = paths - 1;
        return vec![
            "Linux 5.19 or newer, on both hosts: sysctl -w net.mptcp.enabled=1".to_owned(),
            format!("On the client: ip mptcp limits set subflow {more} add_addr_accepted {more}"),
            "On the client, for each other path: ip mptcp endpoint add ADDRESS dev INTERFACE subflow"
                .to_owned(),
            format!("Route the first subflow over {start}, and run the program with: mptcpize run PROGRAM"),
        ];
    }
    let congestion = best.congestion.as_ref().map_or(String::new(), |name| format!(" --cc {name}"));
    vec![
        format!(
            "Linux has the scheduler `linux` alone; for {} send with anabranch: anabranch serve --scheduler {}{congestion} ...",
            best.scheduler, best.scheduler
        ),
        format!("Let connections start on {start}."),
    ]
}
