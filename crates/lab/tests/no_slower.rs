//! `anabranch` is no slower than a plain TCP on the better path, in settings where a prediction that is a little wrong makes it slower.

use std::sync::atomic::AtomicBool;

use anabranch_lab::run::{AppReport, Prepared};
use anabranch_lab::scenario::Document;

/// The host remembers its paths.
const KNOWN: &str = "initial = 'best'";

/// Returns the mean time that `anabranch` needs for a byte, or for a burst, in that of the TCP, over four runs. The better path is listed first.
fn of_tcp(paths: [&str; 2], traffic: &str, settings: &str) -> f64 {
    let text = format!(
        "schedulers = ['tcp@1', 'anabranch']\nruns = 4\n{settings}\n[traffic]\n{traffic}\n[[path]]\n{}\n[[path]]\n{}\n",
        paths[0], paths[1]
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let prepared = Prepared::for_comparison(&scenario, 0).unwrap();
    let time = |contender| -> f64 {
        (0..4)
            .map(|run| {
                let result = prepared.run(contender, run, &AtomicBool::new(false)).unwrap();
                let report = &result.flows[0].report;
                match &report.app {
                    AppReport::OnOff(bursts) => {
                        bursts.iter().map(|burst| burst.delay.unwrap().as_secs_f64()).sum()
                    }
                    _ => report.fct.map_or(1.0 / report.delivered as f64, |fct| fct.as_secs_f64()),
                }
            })
            .sum()
    };
    time(1) / time(0)
}

// Acknowledgements of the second path come in bunches. Its rate is not that of a bunch, and its queue not as short.
#[test]
fn jitter_on_the_other_path_does_not_hide_its_rate() {
    let paths = [
        "rate = '150 Mbit/s'\nrtt = '14 ms'\nqueue = '0.6 BDP'",
        "rate = '10 Mbit/s'\nrtt = '88 ms'\nqueue = '1.3 BDP'\njitter = '6 ms'",
    ];
    let ratio = of_tcp(paths, "size = 'bulk'\nduration = '3 s'\ndirection = 'upload'", KNOWN);
    assert!(ratio < 1.02, "{ratio}");
}

// The second path has the shorter round trip, and segments that are sent to it at once wait for each other.
#[test]
fn a_small_receive_buffer_does_not_wait_for_a_burst_on_the_near_path() {
    let paths = [
        "rate = '32 Mbit/s'\nrtt = '31 ms'\nqueue = '0.6 BDP'",
        "rate = '8.5 Mbit/s'\nrtt = '22 ms'\nqueue = '5 BDP'",
    ];
    let ratio = of_tcp(paths, "size = '2 MB'", &format!("{KNOWN}\nconnection.receive-buffer = '110 KB'"));
    assert!(ratio < 1.0, "{ratio}");
}

// Until the acknowledgements of a window of slow start arrive, which is late in the round trip, a long path delivers nothing further.
#[test]
fn the_last_data_does_not_wait_for_a_window_that_opens_late() {
    let paths = [
        "rate = '113 Mbit/s'\nrtt = '225 ms'\nqueue = '1.7 BDP'",
        "rate = '22.6 Mbit/s'\nrtt = '218 ms'\nqueue = '2 BDP'",
    ];
    let ratio = of_tcp(paths, "size = '800 KB'\ndirection = 'upload'", KNOWN);
    assert!(ratio < 1.02, "{ratio}");
}

// While a segment takes to arrive on the far path, the near one delivers more than the send buffer has at first, and the buffer grows only with the
// window of the far path.
#[test]
fn a_long_fat_path_beside_a_near_one_is_used() {
    let far = "rate = '66.5 Mbit/s'\nrtt = '214 ms'";
    let near = "rate = '33.8 Mbit/s'\nrtt = '20 ms'";
    for settings in [KNOWN, "initial = 'race'"] {
        for direction in ["download", "upload"] {
            let traffic = format!("size = '14 MB'\ndirection = '{direction}'");
            let ratio = of_tcp([near, far], &traffic, settings);
            assert!(ratio < 0.8, "{settings} {direction}: {ratio}");
        }
    }
}

// Segments of the second path wait in the queue of the first one's, so that the end of the flow arrives later there than it seems.
#[test]
fn the_end_of_a_flow_does_not_wait_in_the_queue_of_a_common_link() {
    let paths = ["rate = '100 Mbit/s'\nrtt = '30 ms'", "rate = '100 Mbit/s'\nrtt = '60 ms'"];
    let link = "[topology]\nkind = 'shared'\nrate = '20 Mbit/s'\nrtt = '5 ms'";
    let ratio = of_tcp(paths, "size = '200 KB'", &format!("{KNOWN}\n{link}"));
    assert!(ratio < 1.02, "{ratio}");
}

// A short end of the data waits for the write that completes it, as it would in a TCP, and does not go to the second path.
#[test]
fn a_stream_does_not_end_each_write_on_the_slower_path() {
    let paths = ["rate = '4 Mbit/s'\nrtt = '47 ms'", "rate = '4.7 Mbit/s'\nrtt = '137 ms'"];
    let stream = "kind = 'on-off'\non = '200 ms'\noff = '100 ms'\nrate = '2 Mbit/s'\nduration = '6 s'";
    let ratio = of_tcp(paths, stream, KNOWN);
    assert!(ratio < 1.05, "{ratio}");
}

// A stream of a third of the rate: acknowledgements that are delayed for the next segment of the sender show no queue.
#[test]
fn a_slow_sender_is_not_taken_for_a_slow_path() {
    let paths = ["rate = '10.06 Mbit/s'\nrtt = '9.1 ms'", "rate = '10.24 Mbit/s'\nrtt = '25.7 ms'"];
    let stream = "kind = 'on-off'\non = '400 ms'\noff = '100 ms'\nrate = '3.017 Mbit/s'\nduration = '6 s'";
    let ratio = of_tcp(paths, stream, KNOWN);
    assert!(ratio < 1.3, "{ratio}");
}
