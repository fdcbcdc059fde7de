//! Captures of simulated runs, inspected: what the run knows is found in the packets.

#[path = "inspected/applications.rs"]
mod applications;
#[path = "inspected/clocks.rs"]
mod clocks;
#[path = "inspected/joins.rs"]
mod joins;
#[path = "inspected/outages.rs"]
mod outages;

use std::sync::atomic::AtomicBool;

use anabranch_inspect::capture::{Merged, Reader};
use anabranch_inspect::{ConnectionReport, Inspection, Inspector};
use anabranch_lab::capture::{Captures, Settings, Viewpoint};
use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

const ENDS: [Viewpoint; 2] = [Viewpoint::Sender, Viewpoint::Receiver];

/// Returns the capture of the run of a scenario, at `end`.
fn capture(text: &str, viewpoint: Viewpoint) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("case.pcapng");
    let mut document = Document::built_in("a test", text.to_owned()).unwrap();
    document.set("runs=1").unwrap();
    document.set("other-starts=false").unwrap();
    let scenario = document.scenario().unwrap();
    let settings = Settings { viewpoint, snap_len: Some(120) };
    let captures = Captures::create(&path, &scenario, settings).unwrap();
    let cancelled = AtomicBool::new(false);
    let options = Options { captures: Some(&captures), ..Options::new(1, &cancelled, &|_, _| {}) };
    compare(&scenario, &options).unwrap();
    captures.commit().unwrap();
    std::fs::read(&path).unwrap()
}

fn reader(name: &str, bytes: Vec<u8>) -> Reader {
    Reader::new(name, Box::new(std::io::Cursor::new(bytes))).unwrap()
}

fn inspect(readers: Vec<Reader>) -> Inspection {
    Inspector::inspect(&mut Merged::new(readers), |_| true).unwrap()
}

/// Returns the connection of the run of a scenario, captured at `end`.
fn connection(text: &str, end: Viewpoint) -> ConnectionReport {
    let inspection = inspect(vec![reader("case.pcapng", capture(text, end))]);
    assert_eq!(inspection.connections.len(), 1);
    inspection.connections.into_iter().next().unwrap()
}
