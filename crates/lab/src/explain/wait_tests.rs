//! Simulated waits of schedulers: short segments, and copies on other subflows.

use super::cause::Cause;
use super::tests::{milliseconds, run_of};

/// Blocks end with short segments. The scheduler does not assign one that would wait for the acknowledgement of another one.
#[test]
fn a_short_end_that_is_not_assigned_waits_for_nagles_algorithm() {
    let account = |nagle: bool| {
        let text = format!(
            "initial = 'best'
             path = [{{ rate = '4.7 Mbit/s', rtt = '136.8 ms' }}, {{ rate = '3.99 Mbit/s', rtt = '46.7 ms' }}]
             schedulers = ['anabranch']
             connection = {{ nagle = {nagle} }}
             traffic = [{{ name = 'b', kind = 'on-off', on = '60 ms', off = '300 ms', rate = '1 Mbit/s', duration = '3 s' }}]"
        );
        let (_, accounts) = run_of(&text, 0, super::pieces);
        accounts.into_iter().next().flatten().unwrap()
    };
    let (with, without) = (account(true), account(false));
    let parts = with.parts();
    assert!(parts[Cause::CongestionWindow] < 5_000_000, "{:?}", milliseconds(&parts));
    let waited = (parts[Cause::Pacing] - without.parts()[Cause::Pacing]) as f64;
    let more = with.total.0 as f64 - without.total.0 as f64;
    assert!(
        more > 0.0 && (waited / more - 1.0).abs() < 0.2,
        "{waited} of {more}: {:?}",
        milliseconds(&parts)
    );
    let bytes = milliseconds(&with.bytes);
    assert_eq!(with.bytes[Cause::CongestionWindow], 0, "{bytes:?}");
    assert!(with.bytes[Cause::Pacing] > 0, "{bytes:?}");
}

/// Each path carries all data, and one of them first. Nothing is lost, so that nothing waits for a retransmission.
#[test]
fn a_copy_of_data_that_is_not_lost_is_no_retransmission() {
    let paths = "path = [{ rate = '3.1 Mbit/s', rtt = '82 ms', queue = '500 packets' },
                         { rate = '3.4 Mbit/s', rtt = '21 ms', queue = '500 packets' }]";
    let bursts = "kind = 'on-off', on = '200 ms', off = '100 ms', rate = '1 Mbit/s', duration = '3 s', direction = 'upload'";
    for initial in ["1", "2"] {
        for traffic in
            [bursts, "kind = 'requests', size = '30 KB', think = '50 ms', requests = 20", "size = '300 KB'"]
        {
            for scheduler in ["redundant", "daps", "anabranch"] {
                let text = format!(
                    "{paths}\nschedulers = ['{scheduler}']\ninitial = {initial}\ntraffic = [{{ name = 'a', {traffic} }}]"
                );
                let (result, accounts) = run_of(&text, 0, super::pieces);
                let dropped: u64 = result.links.iter().map(|link| link.counters.dropped().packets).sum();
                assert_eq!(dropped, 0);
                let account = accounts[0].as_ref().unwrap();
                let parts = milliseconds(&account.parts());
                assert_eq!(
                    account.parts()[Cause::Retransmission],
                    0,
                    "{initial}, {scheduler}, {traffic}: {parts:?}"
                );
                let bytes = milliseconds(&account.bytes);
                assert_eq!(
                    account.bytes[Cause::Retransmission],
                    0,
                    "{initial}, {scheduler}, {traffic}: {bytes:?}"
                );
            }
        }
    }
}
