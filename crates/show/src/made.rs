//! A small comparison for tests, which give it their values.

use core::sync::atomic::AtomicBool;

use anabranch_lab::compare::{Comparison, compare};
use anabranch_lab::options::Options;
use anabranch_lab::scenario::{Document, Scenario};

pub(crate) const TWO: &str = "
    path = [{ rate = '10 Mbit/s', rtt = '10 ms', name = 'wifi' }, { rate = '5 Mbit/s', rtt = '30 ms', name = 'lte' }]
    traffic = { size = '1 KB' }
    schedulers = ['tcp', 'min_rtt', 'blest']
    runs = 2
";

pub(crate) fn compared(text: &str) -> (Scenario, Comparison) {
    let scenario = Document::parse("test.toml", text, ".").unwrap().scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    let comparison = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap();
    (scenario, comparison)
}
