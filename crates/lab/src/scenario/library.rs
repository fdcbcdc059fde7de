//! The built-in scenarios.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(Embedded { name: $name, text: include_str!(concat!("../../../../scenarios/", $name, ".toml")) }),*]
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
    "shared-bottleneck",
    "beside-tcp",
    "fair-disjoint",
    "fair-shared",
    "every-scheduler",
    "two-bottlenecks",
    "fat-tree",
    "home",
];

/// The traces that the scenarios above name.
const TRACES: &[(&str, &str)] = &[
    ("traces/synthetic-lte.down", include_str!("../../../../scenarios/traces/synthetic-lte.down")),
    ("traces/synthetic-lte.up", include_str!("../../../../scenarios/traces/synthetic-lte.up")),
];

/// The name of the default of `anabranch compare`.
pub const DEFAULT: &str = "phone";

/// Returns the scenario with that name.
pub fn find(name: &str) -> Option<&'static Embedded> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// Returns the text of a built-in trace.
pub(super) fn trace(name: &str) -> Option<&'static str> {
    TRACES.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}
