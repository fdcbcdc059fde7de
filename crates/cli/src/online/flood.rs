//! Logs when SYN cookies begin to be used, and when they are no longer used.

use std::convert::Infallible;
use std::time::Duration;

use anabranch_net::Host;
use anabranch_stack::stats::EndpointCounters;

use super::log::Log;

/// The interval at which the counters are checked.
const EVERY: Duration = Duration::from_secs(1);
/// The number of checks without a cookie after which the flood is over.
const QUIET_LOOKS: u32 = 10;

/// Watches the counters of `host`.
pub(crate) async fn follow(host: Host, log: Log) -> Infallible {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(EVERY).await;
        if let Some(text) = watch.look(&host.endpoint_counters()) {
            log.general(&text);
        }
    }
}

/// The counters at the last check and before the flood.
#[derive(Default)]
struct Watch {
    last: EndpointCounters,
    before: Option<EndpointCounters>,
    quiet: u32,
}

impl Watch {
    /// Returns the line to log, if there is one.
    fn look(&mut self, now: &EndpointCounters) -> Option<String> {
        let last = std::mem::replace(&mut self.last, *now);
        let more = now.cookies_sent > last.cookies_sent;
        self.quiet = if more { 0 } else { self.quiet + 1 };
        let Some(before) = self.before else {
            self.before = more.then_some(last);
            return more
                .then(|| "too many SYNs, as in a flood: they are answered with SYN cookies".to_owned());
        };
        if self.quiet < QUIET_LOOKS {
            return None;
        }
        self.before = None;
        let sent = now.cookies_sent - before.cookies_sent;
        let accepted = now.cookies_accepted - before.cookies_accepted;
        let dropped = now.strays_dropped - before.strays_dropped;
        let without =
            if dropped > 0 { format!("; {dropped} segments were not answered") } else { String::new() };
        Some(format!(
            "no more SYN cookies: {sent} SYNs were answered with one, which led to {accepted} \
             connections{without}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(cookies_sent: u64, cookies_accepted: u64) -> EndpointCounters {
        EndpointCounters { cookies_sent, cookies_accepted, ..EndpointCounters::default() }
    }

    #[test]
    fn a_flood_is_one_line_at_its_beginning_and_one_at_its_end() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(&counters(0, 0)), None);
        for round in 1..3 {
            let begun = watch.look(&counters(round * 1000 - 900, 0));
            assert!(begun.is_some_and(|text| text.contains("flood")));
            assert_eq!(watch.look(&counters(round * 1000, round * 7)), None);
            for _ in 1..QUIET_LOOKS {
                assert_eq!(watch.look(&counters(round * 1000, round * 7)), None);
            }
            let ended = watch.look(&counters(round * 1000, round * 7)).unwrap_or_default();
            assert!(ended.contains(": 1000 SYNs") && ended.contains("led to 7 connections"), "{ended}");
            assert_eq!(watch.look(&counters(round * 1000, round * 7)), None);
        }
    }
}
