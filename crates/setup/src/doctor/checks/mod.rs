//! The checks. A check fails if its problem stops `anabranch serve` and `anabranch get`; any other problem is
//! a warning.

mod endpoints;
mod kernel;
mod local;
mod network;
mod option30;

use super::{Check, Facts, Level};

pub(super) fn all(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![local::tun_device(facts), local::capability(facts)];
    checks.extend(local::programs(facts));
    checks.extend(network::interfaces(facts));
    checks.push(local::setup(facts));
    checks.push(local::open_files(facts));
    checks.push(kernel::kernel(facts));
    checks.extend(kernel::mptcp(facts));
    if checks.iter().any(|check| check.id == "mptcp-limits") {
        checks.push(endpoints::endpoints(facts));
    }
    checks.push(kernel::buffers(facts));
    checks.push(kernel::congestion(facts));
    checks.extend(facts.probe.as_ref().map(option30::probe));
    checks
}

fn check(id: &'static str, level: Level, what: impl Into<String>, remedy: Option<&str>) -> Check {
    Check { id, level, what: what.into(), remedy: remedy.map(str::to_owned) }
}

fn ok(id: &'static str, what: impl Into<String>) -> Check {
    check(id, Level::Ok, what, None)
}

fn warn(id: &'static str, what: impl Into<String>, remedy: &str) -> Check {
    check(id, Level::Warn, what, Some(remedy))
}

fn fail(id: &'static str, what: impl Into<String>, remedy: &str) -> Check {
    check(id, Level::Fail, what, Some(remedy))
}
