//! Transfers in virtual time.

use std::io::BufWriter;
use std::sync::atomic::AtomicBool;

use anabranch_lab::capture::{CaptureError, CaptureFile, Settings};
use anabranch_lab::run::{FlowResult, Prepared, RunError};
use anabranch_lab::scenario::{PhaseChoice, Phases};
use anabranch_stack::stats::SubflowStats;
use anabranch_units::Duration;

use crate::measure::Measured;
use crate::points::Point;

/// The least and the greatest time between the connection of a program and its first write. Linux and
/// anabranch in real time leave 0.08 to 0.5 ms between the third ACK and the first data, which then do not meet
/// in a short queue.
const REACTION: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(300));

/// Simulates run number `run` of `point`, and captures its packets if a file is given.
///
/// # Errors
/// If it cannot be simulated or captured, or was cancelled.
pub(crate) fn run(
    point: &Point,
    run: u32,
    cancelled: &AtomicBool,
    capture: Option<(Settings, &CaptureFile)>,
) -> Result<Measured, RunError> {
    let phases = phases(point.experiment().phases);
    let (least, most) = REACTION;
    let prepared = Prepared::with_phases(&point.scenario, point.condition, phases)?.reacting(least, most);
    let result = match capture {
        None => prepared.run(point.contender, run, cancelled)?,
        Some((settings, file)) => {
            let failed = |error: CaptureError| RunError::Capture(error.to_string());
            let out = BufWriter::with_capacity(1 << 18, file.writer().map_err(failed)?);
            let fail = |error| failed(file.failure(error));
            prepared.run_captured(point.contender, run, cancelled, settings, out, &fail)?
        }
    };
    let one = |flow: FlowResult| {
        let flow = flow.report;
        let time = match flow.size {
            Some(_) => flow.fct,
            None => Some(point.duration()),
        };
        let mut measured = Measured {
            time_s: time.map(|time| time.as_secs_f64()),
            delivered: flow.delivered,
            segments: flow.data_segments,
            retransmitted: flow.retransmitted_segments,
            timeouts: flow.rto_count,
            bytes_by_path: flow.bytes_by_path,
            ..Measured::default()
        };
        note_subflows(&mut measured, point, &flow.sender.subflows);
        measured
    };
    Ok(Measured::together(result.flows.into_iter().map(one).collect()))
}

/// Returns the phases of a comparison's runs that concern a host: a real one varies by some microseconds too.
/// The delays of the paths and the positions in traces are those of the links in real time.
fn phases(choice: PhaseChoice) -> Option<Phases> {
    choice.in_comparison().map(|phases| Phases { delay: Duration::ZERO, traces: false, ..phases })
}

/// Records the sender's RTTs and segment sizes of its subflows.
pub(crate) fn note_subflows(measured: &mut Measured, point: &Point, subflows: &[SubflowStats]) {
    let paths = point.experiment().paths().len();
    measured.srtt_s = vec![None; paths];
    measured.mss = vec![0; paths];
    for subflow in subflows {
        let path = usize::from(subflow.path.0);
        if let (Some(srtt), Some(mss)) = (measured.srtt_s.get_mut(path), measured.mss.get_mut(path)) {
            *srtt = subflow.srtt.map(|srtt| srtt.as_secs_f64());
            *mss = subflow.mss;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    #[test]
    fn a_program_reacts_in_validation_and_not_in_a_comparison() {
        let mut document = Document::bare();
        document.set_paths(&["8Mbit/s,10ms".to_owned()]).unwrap();
        document.set_schedulers("--schedulers", &["tcp".to_owned()]);
        for set in ["traffic.size=10KB", "traffic.direction=upload"] {
            document.set(set).unwrap();
        }
        let point = Point::of(document.scenario().unwrap()).unwrap().remove(0);
        let never = AtomicBool::new(false);
        for number in 0..20 {
            let prepared =
                Prepared::with_phases(&point.scenario, 0, phases(point.experiment().phases)).unwrap();
            let compared =
                prepared.run(0, number, &never).unwrap().flows[0].report.fct.unwrap().as_secs_f64();
            let validated = run(&point, number, &never, None).unwrap().time_s.unwrap();
            // Without a reaction time the first data waits for the third ACK to be sent, for 52 us.
            assert!((0.00001..0.00036).contains(&(validated - compared)), "{number}: {compared} {validated}");
        }
    }
}
