//! The built-in scenarios.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// Its name on the command line.
    pub name: &'static str,
    /// The TOML of the scenario.
    pub text: &'static str,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(Embedded { name: $name, text: include_str!(concat!("../scenarios/", $name, ".toml")) }),*]
    };
}

/// All of them; the first is the default of `anabranch compare`.
pub const ALL: &[Embedded] = embedded![
    "phone",
    "dmptcp-eight-paths",
    "figure8",
    "two-paths",
    "wifi-lte",
    "lte-trace",
    "path-failure",
    "interface-down",
    "shared-bottleneck",
    "beside-tcp",
    "fair-disjoint",
    "fair-shared",
    "every-scheduler",
    "two-bottlenecks",
    "fat-tree",
    "packet-scatter",
    "home",
];

/// The scenarios of the claims of papers, `PAPER/NAME`. They are found by name like the others.
pub const PAPERS: &[Embedded] = embedded![
    "dmptcp/example",
    "dmptcp/four",
    "dmptcp/headline",
    "dmptcp/lisa",
    "dmptcp/long",
    "dmptcp/mix",
    "dmptcp/model",
    "dmptcp/one",
    "dmptcp/pair",
    "dmptcp/shared-long",
    "dmptcp/shared",
    "dmptcp/table5",
    "dmptcp/testbed",
    "dmptcp/two",
    "dmptcp/web-slow",
    "dmptcp/web",
    "cp/delay",
    "cp/equal",
    "cp/guard",
    "cp/need",
    "cp/rate",
    "cp/space",
    "cp/unequal",
    "cp/wireless",
    "stms/host",
    "stms/latency",
    "stms/network",
    "stms/send",
    "stms/step",
    "stms/varying",
    "coupled/disjoint",
    "coupled/others",
    "coupled/shared",
    "coupled/three",
];

/// The traces that the scenarios above name.
const TRACES: &[(&str, &str)] = &[
    ("traces/synthetic-lte.down", include_str!("../scenarios/traces/synthetic-lte.down")),
    ("traces/synthetic-lte.up", include_str!("../scenarios/traces/synthetic-lte.up")),
];

/// The name of the default of `anabranch compare`.
pub const DEFAULT: &str = "phone";

/// Returns the scenario with that name.
pub fn find(name: &str) -> Option<&'static Embedded> {
    ALL.iter().chain(PAPERS).find(|scenario| scenario.name == name)
}

/// Returns the text of a built-in trace.
pub(super) fn trace(name: &str) -> Option<&'static str> {
    TRACES.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}
