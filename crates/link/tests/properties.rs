//! Properties of every link, whatever its configuration and load.

#[allow(dead_code, reason = "the other tests use the rest")]
mod common;

use anabranch_link::{Capacity, DropReason, Link, LinkConfig, QueueLimit, Trace};
use anabranch_units::{Duration, Time};
use common::{MS, Offer, Outcome, US};
use proptest::prelude::*;

/// An arbitrary call: its time and kind.
#[derive(Clone, Copy, Debug)]
enum Look {
    Poll,
    Advance,
    QueueBytes,
}

fn looks() -> impl Strategy<Value = Vec<(u64, Look)>> {
    let look = prop_oneof![Just(Look::Poll), Just(Look::Advance), Just(Look::QueueBytes)];
    prop::collection::vec((0..40 * MS, look), 0..60).prop_map(|mut looks| {
        looks.sort_by_key(|look| look.0);
        looks
    })
}

/// Runs the link with calls only at `looks`, whatever is due, and at the very end.
fn run_carelessly(config: &LinkConfig, offers: &[Offer], looks: &[(u64, Look)]) -> (Vec<Outcome>, Link<u32>) {
    let mut link = Link::new("test", 1, config.clone()).expect("a right configuration");
    let mut outcomes = Vec::new();
    let mut looks = looks.iter().peekable();
    for (packet, &(now, bytes)) in (1..).zip(offers) {
        while let Some((at, look)) = looks.next_if(|look| look.0 <= now.0) {
            match look {
                Look::Poll => {
                    outcomes.extend(std::iter::from_fn(|| link.poll(Time(*at))).map(common::outcome));
                }
                Look::Advance => link.advance(Time(*at)),
                Look::QueueBytes => assert!(link.queue_bytes(Time(*at)) <= link.queue_limit().bytes),
            }
        }
        common::push(&mut link, now, packet, bytes, &mut outcomes);
    }
    let end = Time(u64::MAX - 1);
    outcomes.extend(std::iter::from_fn(|| link.poll(end)).map(common::outcome));
    // Cross traffic is counted once it has been processed.
    link.advance(end);
    (outcomes, link)
}

/// Separates drops from arrivals, since late polls see arrivals after drops.
fn apart(outcomes: &[Outcome]) -> (Vec<Outcome>, Vec<Outcome>) {
    outcomes.iter().partition(|outcome| matches!(outcome, Outcome::Refused { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn results_do_not_depend_on_when_the_link_is_polled(
        config in prop_oneof![common::any_link(), common::managed_link()],
        offers in common::offers(60, MS, 3000),
        looks in looks(),
    ) {
        let careful = common::run(&config, 1, &offers);
        let (careless, link) = run_carelessly(&config, &offers, &looks);
        prop_assert_eq!(apart(&careful), apart(&careless));
        let (other, other_link) = run_carelessly(&config, &offers, &[]);
        prop_assert_eq!(apart(&careful), apart(&other));
        prop_assert_eq!(link.counters(), other_link.counters());
        let end = Time(u64::MAX - 1);
        prop_assert_eq!(link.clone().busy_time(end), other_link.clone().busy_time(end));
    }

    #[test]
    fn fast_paths_change_nothing(
        config in prop_oneof![common::any_link(), common::simple_link(), common::managed_link()],
        offers in common::offers(60, MS, 3000),
        looks in looks(),
    ) {
        let mut links = [true, false].map(|on| {
            let mut link = Link::new("test", 1, config.clone()).unwrap();
            link.set_fast_paths(on);
            link
        });
        let mut looks = looks.into_iter().peekable();
        for (packet, (now, bytes)) in (1..).zip(offers) {
            while let Some((at, look)) = looks.next_if(|look| look.0 <= now.0) {
                let [fast, slow] = links.each_mut().map(|link| match look {
                    Look::Poll => {
                        let polled = std::iter::from_fn(|| link.poll(Time(at)));
                        (polled.map(common::outcome).collect(), link.next_event(), 0)
                    }
                    Look::Advance => {
                        link.advance(Time(at));
                        (Vec::new(), link.next_event(), link.inside() as u64)
                    }
                    Look::QueueBytes => (Vec::new(), link.next_event(), link.queue_bytes(Time(at))),
                });
                prop_assert_eq!(fast, slow);
            }
            let [fast, slow] = links.each_mut().map(|link| {
                let mut outcomes = Vec::new();
                common::push(link, now, packet, bytes, &mut outcomes);
                (outcomes, link.next_event())
            });
            prop_assert_eq!(fast, slow);
        }
        let end = Time(u64::MAX - 1);
        let [fast, slow] = links.map(|mut link| {
            let outcomes: Vec<_> = std::iter::from_fn(|| link.poll(end)).map(common::outcome).collect();
            (outcomes, link.counters(), link.busy_time(end))
        });
        prop_assert_eq!(fast, slow);
    }

    #[test]
    fn every_packet_is_delivered_dropped_or_still_inside(
        config in prop_oneof![common::any_link(), common::managed_link()],
        offers in common::offers(60, MS, 3000),
        until in 0..40 * MS,
    ) {
        let mut link = Link::new("test", 1, config).unwrap();
        let mut outcomes = Vec::new();
        let mut offered = 0;
        for (packet, &(now, bytes)) in (1..).zip(&offers) {
            if now.0 > until {
                break;
            }
            common::poll_due(&mut link, now, &mut outcomes);
            common::push(&mut link, now, packet, bytes, &mut outcomes);
            offered += 1;
        }
        common::poll_due(&mut link, Time(until), &mut outcomes);
        let counters = link.counters();
        prop_assert_eq!(counters.offered.packets, offered);
        prop_assert_eq!(
            counters.offered.packets + counters.duplicated.packets,
            counters.delivered.packets + counters.dropped().packets + link.inside() as u64
        );
        prop_assert_eq!(counters.delivered.packets, common::arrivals(&outcomes).len() as u64);
        prop_assert_eq!(outcomes.len() as u64, counters.delivered.packets + counters.dropped().packets);
    }

    #[test]
    fn packets_arrive_in_the_order_in_which_they_were_offered(
        mut config in common::any_link(),
        offers in common::offers(60, MS, 3000),
    ) {
        config.reordering = None;
        if let Some(jitter) = &mut config.jitter {
            jitter.reorder = false;
        }
        let arrivals = common::arrivals(&common::run(&config, 1, &offers));
        prop_assert!(arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn arrivals_come_out_in_order_of_time_and_never_before_the_delay(
        mut config in common::any_link(),
        offers in common::offers(60, MS, 3000),
    ) {
        config.timeline.clear();
        let arrivals = common::arrivals(&common::run(&config, 1, &offers));
        prop_assert!(arrivals.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        for (packet, at) in arrivals {
            prop_assert!(at >= offers[packet as usize - 1].0 + config.delay);
        }
    }

    /// Holds over any longer run of packets too, so that rounding does not accumulate.
    #[test]
    fn a_link_never_sends_faster_than_its_rate_nor_idles_while_anything_waits(
        rate in common::rate(),
        offers in common::offers(40, 200 * US, 1500),
    ) {
        let config = LinkConfig { capacity: rate.into(), queue: QueueLimit::Unlimited, ..LinkConfig::default() };
        let departures: Vec<Time> =
            common::arrivals(&common::run(&config, 1, &offers)).iter().map(|a| a.1 - config.delay).collect();
        for first in 0..offers.len() {
            let (mut bits, mut waited) = (0, true);
            for last in first + 1..offers.len() {
                bits += u128::from(offers[last].1) * 8;
                waited &= offers[last].0 < departures[last - 1];
                // The time between two departures is a whole number of nanoseconds, each rounded up by less
                // than one.
                let span = u128::from((departures[last] - departures[first]).0);
                prop_assert!((span + 1) * u128::from(rate.as_bps()) > bits * 1_000_000_000);
                if waited {
                    prop_assert!(span.saturating_sub(1) * u128::from(rate.as_bps()) < bits * 1_000_000_000);
                }
            }
        }
    }

    #[test]
    fn a_trace_never_delivers_more_than_its_opportunities(
        trace in common::trace(20),
        start in 0..50 * MS,
        offers in common::offers(60, 2 * MS, 4000),
    ) {
        let config = LinkConfig {
            capacity: Capacity::Trace { trace: trace.clone(), start: Duration(start) },
            queue: QueueLimit::Unlimited,
            ..LinkConfig::default()
        };
        let departures: Vec<(Time, u64)> = common::arrivals(&common::run(&config, 1, &offers))
            .iter()
            .map(|&(packet, at)| (at - config.delay, u64::from(offers[packet as usize - 1].1)))
            .collect();
        for first in 0..departures.len() {
            let mut bytes = 0;
            // The bytes of the first packet may have been sent before the span, those of the following ones
            // not.
            for (at, size) in &departures[first + 1..] {
                bytes += size;
                // Packets that depart with `first` may share its opportunities.
                let from = departures[first].0.0 - 1 + start;
                let span = (Duration(from), Duration(at.0 + start));
                prop_assert!(bytes <= trace.service_between(span.0, span.1));
                prop_assert!(bytes <= trace.max_service(span.1 - span.0));
            }
        }
    }

    #[test]
    fn no_queue_grows_beyond_its_limit(
        config in common::any_link(),
        offers in common::offers(60, MS, 3000),
    ) {
        let (_, link) = run_carelessly(&config, &offers, &[]);
        let (max, limit) = (link.counters().max_queue, link.queue_limit());
        prop_assert!(max.packets as usize <= limit.packets && max.bytes <= limit.bytes);
    }

    #[test]
    fn losses_hit_the_same_packets_whatever_the_rate_the_queue_and_the_delay(
        config in common::any_link(),
        other in common::any_link(),
        offers in common::offers(60, MS, 3000),
        seed in any::<u64>(),
    ) {
        // The same random draws and outages, all else different.
        let mut other = LinkConfig { loss: config.loss, drop_list: config.drop_list.clone(), ..other };
        other.timeline = config.timeline.clone();
        let lost = |config: &LinkConfig| {
            let mut lost: Vec<u32> = Vec::new();
            for outcome in common::run(config, seed, &offers) {
                if let Outcome::Refused { packet, reason: DropReason::Loss(_) } = outcome {
                    lost.push(packet);
                }
            }
            lost
        };
        prop_assert_eq!(lost(&config), lost(&other));
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_a_clone_goes_on_alike(
        config in prop_oneof![common::any_link(), common::managed_link()],
        offers in common::offers(60, MS, 3000),
        seed in any::<u64>(),
        fork in 0..60_usize,
    ) {
        let whole = common::run(&config, seed, &offers);
        prop_assert_eq!(&whole, &common::run(&config, seed, &offers));
        let mut link = Link::new("test", seed, config).unwrap();
        let mut outcomes = Vec::new();
        for (index, &(now, bytes)) in offers.iter().enumerate() {
            if index == fork {
                let original = link;
                link = original.clone();
            }
            common::poll_due(&mut link, now, &mut outcomes);
            common::push(&mut link, now, index as u32 + 1, bytes, &mut outcomes);
        }
        common::poll_due(&mut link, Time(u64::MAX - 1), &mut outcomes);
        prop_assert_eq!(whole, outcomes);
    }

    #[test]
    fn any_text_is_a_trace_or_an_error(text in "([0-9]{0,3}\n|\\PC{0,4}\n){0,6}") {
        match Trace::parse(&text) {
            Ok(trace) => prop_assert_eq!(trace.opportunities(), text.lines().count()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
