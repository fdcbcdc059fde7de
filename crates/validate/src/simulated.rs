//! Transfers in virtual time.

use std::io::BufWriter;
use std::sync::atomic::AtomicBool;

use anabranch_lab::capture::{CaptureError, CaptureFile, Settings};
use anabranch_lab::job::{Job, Purpose};
use anabranch_lab::run::{AppReport, Class, FlowResult, Prepared, RunError, topology};
use anabranch_lab::scenario::{PhaseChoice, Phases};
use anabranch_stack::stats::SubflowStats;
use anabranch_units::Duration;

use crate::gap::{Gap, Gaps};
use crate::measure::Measured;
use crate::points::Point;

/// The least and the greatest time between the connection of a program and its first write. Linux and
/// anabranch in real time leave 0.08 to 0.5 ms between the third ACK and the first data, which then do not meet
/// in a short queue.
const REACTION: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(300));
/// The least and the greatest time between the arrival of a request at a program and its first write.
const ANSWER: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(200));

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
    let (reaction, answer) = (REACTION, ANSWER);
    let prepared = Prepared::with_phases(&point.scenario, point.condition, phases)?
        .reacting(reaction.0, reaction.1)
        .answering(answer.0, answer.1);
    let job = Job {
        condition: point.condition,
        contender: point.contender,
        run,
        path: None,
        purpose: Purpose::Compare,
    };
    let owners = prepared.planned(point.contender, run)?.0;
    // The requests of downloads are not the data that is outstanding.
    let gaps = Gaps(vec![Gap::default(); owners.len()]);
    let (result, gaps) = prepared.run_with(&job, cancelled, gaps)?;
    if let Some((settings, file)) = capture {
        let failed = |error: CaptureError| RunError::Capture(error.to_string());
        let out = BufWriter::with_capacity(1 << 18, file.writer().map_err(failed)?);
        let fail = |error| failed(file.failure(error));
        prepared.run_captured(point.contender, run, cancelled, settings, out, &fail)?;
    }
    let topology = topology(point.experiment(), point.scenario.run_seed(run))?;
    let addresses = &topology.pairs[0].client_addresses;
    let gaps = gaps.0.into_iter().zip(&owners).filter(|(_, own)| own.owner.is_some());
    let one = |(result, (gap, _)): (FlowResult, (Gap, _))| {
        let FlowResult { time, group, report: flow, .. } = result;
        let is_upload = flow.sender.subflows.iter().any(|own| addresses.contains(&own.local.ip));
        let done = match (&flow.app, flow.size) {
            (AppReport::Transfer, Some(_)) => flow.fct,
            (AppReport::Transfer, None) => Some(time),
            _ => flow.ended,
        };
        let mut measured = Measured {
            time_s: done.map(|time| time.as_secs_f64()),
            delivered: flow.delivered,
            segments: flow.data_segments,
            retransmitted: flow.retransmitted_segments,
            timeouts: flow.rto_count,
            bytes_by_path: flow.bytes_by_path,
            longest_gap_s: gap.seconds(),
            class: group,
            ..Measured::default()
        };
        measured.note_app(&flow.app);
        note_subflows(&mut measured, point, &flow.sender.subflows, &|own| {
            let client = if is_upload { own.local.ip } else { own.remote.ip };
            addresses.iter().position(|address| *address == client)
        });
        measured
    };
    // The flows of the contender and of classes; flows of `beside` are not measured.
    let flows = result.flows.into_iter().zip(gaps).filter(|(flow, _)| flow.class != Class::Beside);
    Ok(Measured::by_class(flows.map(one).collect(), point.main_class()))
}

/// Returns the phases of a comparison's runs that concern a host: a real one varies by some microseconds too.
/// The delays of the paths and the positions in traces are the same as for links in real time.
fn phases(choice: PhaseChoice) -> Option<Phases> {
    choice.in_comparison().map(|phases| Phases { delay: Duration::ZERO, traces: false, ..phases })
}

/// Records the sender's RTTs and segment sizes of its subflows by path, which `path` returns: the client's address
/// determines it, as a server has one address for all paths. Of several subflows on a path the last one counts.
pub(crate) fn note_subflows(
    measured: &mut Measured,
    point: &Point,
    subflows: &[SubflowStats],
    path: &dyn Fn(&SubflowStats) -> Option<usize>,
) {
    let paths = point.experiment().paths().len();
    measured.srtt_s = vec![None; paths];
    measured.mss = vec![0; paths];
    for subflow in subflows {
        let Some(path) = path(subflow) else { continue };
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

    fn point(paths: &[&str], sets: &[&str]) -> Point {
        let mut document = Document::bare();
        document.set_paths(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>()).unwrap();
        for set in sets {
            document.set(set).unwrap();
        }
        Point::of(document.scenario().unwrap()).unwrap().remove(0)
    }

    /// A server has one address, so its subflows differ by the client's.
    #[test]
    fn the_rtt_of_a_download_belongs_to_the_path_that_carries_it() {
        let paths = ["20Mbit/s,20ms,queue=1bdp", "20Mbit/s,120ms,queue=1bdp"];
        for direction in ["upload", "download"] {
            let set = format!("traffic.direction={direction}");
            let sets = ["schedulers=[\"linux\"]", "traffic.size=\"4 MB\"", set.as_str()];
            let point = point(&paths, &sets);
            let measured = run(&point, 0, &AtomicBool::new(false), None).unwrap();
            let [Some(fast), Some(slow)] = measured.srtt_s[..] else { panic!("{direction}: {measured:?}") };
            assert!((0.02..0.06).contains(&fast) && (0.12..0.3).contains(&slow), "{direction}: {measured:?}");
            assert!(measured.mss.iter().all(|mss| *mss == 1420), "{direction}: {measured:?}");
            let inflation = crate::Metric::RttInflation.of(&point, &measured).unwrap();
            assert!((1.0..2.6).contains(&inflation), "{direction}: {inflation}");
        }
    }

    #[test]
    fn an_outage_of_the_only_path_is_the_longest_gap() {
        let sets = [
            "schedulers=[\"tcp\"]",
            "traffic.size=\"2 MB\"",
            "traffic.direction=upload",
            "path.change=[{at='0.5 s',down=true},{at='1.5 s',up=true}]",
        ];
        let point = point(&["10Mbit/s,20ms"], &sets);
        let measured = run(&point, 0, &AtomicBool::new(false), None).unwrap();
        let (gap, time) = (measured.longest_gap_s.unwrap(), measured.time_s.unwrap());
        assert!(gap > 1.0 && gap < time - 0.4, "{gap} of {time}");
    }

    #[test]
    fn classes_are_simulated_with_a_measure_each() {
        let traffic = "traffic=[{name='a',kind='on-off',on='100 ms',off='100 ms',rate='2 Mbit/s',duration='1 s',\
                       direction='upload'},{name='b',kind='requests',size='20 KB',think='100 ms',requests=3},\
                       {name='c',kind='udp',rate='200 kbit/s',duration='1 s',path='2'},\
                       {name='d',size='100 KB',via='tcp',path='1'}]";
        let point = point(&["10Mbit/s,20ms", "5Mbit/s,30ms"], &["schedulers=[\"linux\"]", traffic]);
        assert!(!point.is_plain());
        let names: Vec<_> = point.classes().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names[1..], [" [b]", " [c]", " [d]"].map(str::to_owned));
        let all = run(&point, 0, &AtomicBool::new(false), None).unwrap();
        // The kernel's bursts are 40 to 50 ms late: an idle window decays, and the end of a burst waits for the second path.
        assert!(all.lateness_s.is_some_and(|time| (0.01..0.06).contains(&time)), "{all:?}");
        let of = |class| all.of_class(class).unwrap();
        assert!(of(1).response_s.is_some_and(|time| time > 0.02), "{all:?}");
        assert!(of(2).datagram_delay_s.is_some_and(|time| time > 0.015), "{all:?}");
        assert!(of(3).time_s.is_some_and(|time| time > 0.08) && of(3).delivered == 100_000, "{all:?}");
    }

    /// Without a delay of the server's program the tenth segment of its window was dropped from the shortest queue.
    #[test]
    fn a_server_answers_later_than_at_once() {
        let sets = ["schedulers=[\"tcp\"]", "traffic.size=\"10 KB\""];
        let point = point(&["8Mbit/s,10ms"], &sets);
        let never = AtomicBool::new(false);
        let phases = phases(point.experiment().phases);
        let (least, most) = REACTION;
        for number in 0..10 {
            let prepared = Prepared::with_phases(&point.scenario, 0, phases).unwrap().reacting(least, most);
            let at_once = prepared.run(0, number, &never).unwrap().flows[0].report.fct.unwrap().as_secs_f64();
            let validated = run(&point, number, &never, None).unwrap().time_s.unwrap();
            // At once, the first data waits for the acknowledgement of the request to be sent.
            assert!((0.00004..0.00021).contains(&(validated - at_once)), "{number}: {at_once} {validated}");
        }
    }

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
