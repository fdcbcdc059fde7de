//! The share of a common link that the scheduler `anabranch` takes next to plain TCPs: a scheduler sets no congestion
//! window, so it takes no more than another one with the same congestion control.

use std::sync::atomic::AtomicBool;

use anabranch_lab::compare::compare;
use anabranch_lab::options::Options;
use anabranch_lab::scenario::Document;

/// Returns the goodput of `scheduler` with LIA for each goodput of the TCPs next to it, over two paths with a common
/// link.
fn share(scheduler: &str, traffic: &str) -> f64 {
    let text = format!(
        "schedulers = ['{scheduler}']\ncongestion = 'lia'\nruns = 6
         path = [{{ rate = '1 Gbit/s', rtt = '30 ms', jitter = '1 ms' }}, {{ rate = '1 Gbit/s', rtt = '60 ms', jitter = '1 ms' }}]
         topology = {{ kind = 'shared', rate = '40 Mbit/s', rtt = '0 ms', queue = '40 ms' }}
         [traffic]\nsize = 'bulk'\ndirection = 'upload'\n{traffic}"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    let rows = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap().rows;
    let goodput = |row: usize| rows[row].goodput_bps.unwrap();
    assert_eq!((rows.len(), rows[0].scheduler.as_str()), (2, scheduler));
    goodput(0) / goodput(1)
}

#[test]
fn anabranch_takes_no_more_of_a_shared_link_than_min_rtt_with_lia() {
    for traffic in [
        "duration = '20 s'\nbeside = { flows = 1, path = 1, congestion = 'newreno' }",
        "duration = '8 s'\nflows = 30\nbeside = { flows = 30, path = 1, congestion = 'newreno' }",
    ] {
        let [other, own] = ["min_rtt", "anabranch"].map(|scheduler| share(scheduler, traffic));
        // A coupled control takes no more than one TCP (RFC 6356, goal 2).
        assert!(own < 1.1 && own < other * 1.15, "{own} {other}: {traffic}");
    }
}

/// Returns the completion time over two paths with a common link for each of a TCP's over the better one.
fn beside_one_path(scheduler: &str, size: &str) -> f64 {
    let text = format!(
        "schedulers = ['tcp', '{scheduler}']\nreference = 'tcp'\ninitial = 'best'\nruns = 2
         path = [{{ rate = '100 Mbit/s', rtt = '30 ms' }}, {{ rate = '100 Mbit/s', rtt = '60 ms' }}]
         topology = {{ kind = 'shared', rate = '20 Mbit/s', rtt = '5 ms' }}
         [traffic]\nsize = '{size}'"
    );
    let scenario = Document::parse("test", &text, ".").unwrap().scenario().unwrap();
    let cancelled = AtomicBool::new(false);
    let rows = compare(&scenario, &Options::new(1, &cancelled, &|_, _| {})).unwrap().rows;
    rows[1].fct_s.mean.unwrap() / rows[0].fct_s.mean.unwrap()
}

/// Two paths with a common link are no faster than one, and Multipath TCP has the larger header.
#[test]
fn anabranch_loses_no_more_than_the_header_on_a_shared_link() {
    for size in ["300 KB", "1 MB", "3 MB"] {
        let ratio = beside_one_path("anabranch", size);
        assert!((1.0..1.025).contains(&ratio), "{size}: {ratio}");
    }
    // A scheduler that uses every window waits for the longer path.
    assert!(beside_one_path("linux", "300 KB") > 1.2);
}
