//! Two single claims: Figure 27 of the DMPTCP paper, and the queue of LL/BM.

use anabranch_link::QueueLimit;
use anabranch_stack::config::{ConnectionConfig, SimOnly};
use anabranch_stack::congestion::CongestionKind;
use anabranch_stack::parameter::Value;
use anabranch_stack::scheduler::SchedulerKind;
use anabranch_units::Duration;

use crate::watch::{Ran, link, run, scheduler, set, with};

/// Runs 256 KB over 8 Mbit/s with 20 and 100 ms, with the settings of Linux.
fn short_flow(kind: SchedulerKind, simultaneous: bool) -> Ran {
    let paths = [link(8000, 20, QueueLimit::Bdp(1.0)), link(8000, 100, QueueLimit::Bdp(1.0))];
    let config = with(kind).simulated(SimOnly { simultaneous, ..SimOnly::default() });
    let ran = run(&paths, &config, Some(256_000), 0, 60);
    println!(
        "{}, simultaneous {simultaneous}: delivered {:.1} ms, acknowledged {:.1} ms, {} segments on the slow path",
        config.scheduler.name(),
        ran.fct_ms(),
        acked_ms(&ran),
        slow_segments(&ran)
    );
    ran
}

fn acked_ms(ran: &Ran) -> f64 {
    ran.flow.acked.expect("it is acknowledged").as_secs_f64() * 1e3
}

fn slow_segments(ran: &Ran) -> u64 {
    ran.flow.sender.subflows.get(1).map_or(0, |subflow| subflow.counters.data_segments_sent)
}

/// Figure 27: `min_rtt` assigns ten segments to the slow path as soon as it is established, and is therefore
/// slower than every scheduler that assigns it none.
#[test]
fn a_short_flow_is_done_sooner_by_whoever_keeps_to_the_fast_path() {
    for (simultaneous, delivered_by, acked_by) in [(false, 1.0, 30.0), (true, 100.0, 100.0)] {
        let min_rtt = short_flow(scheduler("min_rtt"), simultaneous);
        assert!(slow_segments(&min_rtt) >= 10);
        let mut keepers = 0;
        for kind in SchedulerKind::ALL {
            let ran = short_flow(kind.clone(), simultaneous);
            if slow_segments(&ran) > 0 {
                continue;
            }
            keepers += 1;
            let (delivered, acked) = (min_rtt.fct_ms() - ran.fct_ms(), acked_ms(&min_rtt) - acked_ms(&ran));
            assert!(delivered > delivered_by && acked > acked_by, "{}: {delivered} {acked}", kind.name());
        }
        // Among them daps, otias, freeze and backup.
        assert!(keepers >= 4, "{keepers}");
        for name in ["daps", "otias", "freeze", "backup"] {
            assert_eq!(slow_segments(&short_flow(scheduler(name), simultaneous)), 0, "{name}");
        }
        // If both handshakes start together the slow path is established when the queue of the fast one is full and
        // selective acknowledgements measure twice its round trip: then dmptcp assigns a window to the slow path, early
        // enough to be no later than min_rtt by far.
        let dmptcp = short_flow(scheduler("dmptcp"), simultaneous);
        assert_eq!(slow_segments(&dmptcp), if simultaneous { 10 } else { 0 });
        assert!(min_rtt.fct_ms() - dmptcp.fct_ms() > delivered_by);
    }
}

/// Returns a single path of 5 Mbit/s and 40 ms with a second of queue.
fn bufferbloat(lambda: f64, ssthresh: Option<u32>) -> Ran {
    let kind = set("ll_bm", "lambda", Value::Number(lambda));
    let congestion = CongestionKind::NewReno;
    let config = ConnectionConfig { congestion, initial_ssthresh: ssthresh, ..with(kind) };
    let queue = QueueLimit::Time(Duration::from_secs(1));
    let ran = run(&[link(5000, 40, queue)], &config, None, 40, 80);
    println!(
        "lambda {lambda}, threshold {ssthresh:?}: {:.1} ms, {:.2} Mbit/s, window {} B",
        1e3 * ran.watch.srtt[0].get(),
        ran.mbps,
        ran.flow.sender.subflows[0].cwnd_bytes
    );
    ran
}

/// The window grows until its round-trip time is `lambda` times the minimum, and stays: the queue has the
/// corresponding length, and the path is full. In slow start the window has doubled before that is measured,
/// so that the queue of a window of `W` settles at `sqrt(W / B lambda RTT)`.
#[test]
fn ll_bm_keeps_the_queue_of_a_single_path_short() {
    let least = 0.0402;
    let free = bufferbloat(1000.0, Some(16));
    assert!(free.watch.srtt[0].get() > 12.0 * least);
    for lambda in [1.5, 2.0, 3.0, 5.0] {
        let capped = bufferbloat(lambda, Some(16));
        let srtt = capped.watch.srtt[0].get();
        assert!((srtt / (lambda * least) - 1.0).abs() < 0.06, "lambda {lambda}: {srtt}");
        assert!(capped.mbps > 0.999 * free.mbps);
        let after_slow_start = bufferbloat(lambda, None);
        let window = after_slow_start.flow.sender.subflows[0].cwnd_bytes as f64;
        let expected = (window * 8.0 / (after_slow_start.mbps * 1e6) * lambda * least).sqrt();
        let srtt = after_slow_start.watch.srtt[0].get();
        assert!((srtt / expected - 1.0).abs() < 0.06, "lambda {lambda}: {srtt} and {expected}");
        assert!(srtt < 0.6 * bufferbloat(1000.0, None).watch.srtt[0].get());
    }
}
