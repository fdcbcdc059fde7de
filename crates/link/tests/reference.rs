//! Compares the link with the simplest possible models: one serves bit by bit, nanosecond by nanosecond, the
//! other steps through every millisecond of a trace.

#[allow(dead_code, reason = "the other tests use the rest")]
mod common;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_link::{Capacity, Change, DropReason, LinkConfig, Step, Trace, WhenDown};
use anabranch_units::{Duration, Rate, Time};
use common::{MS, Offer, Outcome, US};
use proptest::prelude::*;

/// The work that a model does in a tick: billionths of a bit per nanosecond, or whole opportunities.
#[derive(Clone, Debug)]
enum Service {
    Rate(u64),
    Trace { trace: Arc<Trace>, origin: u64, start: u64 },
}

impl Service {
    fn new(capacity: &Capacity, origin: u64) -> Service {
        match capacity {
            Capacity::Rate(rate) => Service::Rate(rate.as_bps()),
            Capacity::Trace { trace, start } => {
                Service::Trace { trace: trace.clone(), origin, start: start.as_nanos() }
            }
        }
    }

    /// Returns the budget of work of the tick that ends at `end` and lasts `tick` nanoseconds.
    fn budget(&self, end: u64, tick: u64) -> u64 {
        match self {
            Service::Rate(rate) => rate * tick,
            Service::Trace { trace, origin, start } => {
                let (position, period) = (end - origin + start, trace.period().as_nanos());
                let offset = position % period;
                // The end of a cycle is the beginning of the next.
                let here = |at: u64| at == offset || offset == 0 && at == period;
                let count = trace.timestamps_ms().iter().filter(|&&ms| here(u64::from(ms) * MS)).count();
                count as u64 * 12_000_000_000_000
            }
        }
    }
}

/// Runs the model: ticks of `tick` nanoseconds, to which all offers, steps and departures must be aligned.
/// With a tick of a nanosecond departures are rounded up, as the link does.
fn model(config: &LinkConfig, offers: &[Offer], tick: u64) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut queue: VecDeque<(u32, u64, u64)> = VecDeque::new();
    let mut service = Service::new(&config.capacity, 0);
    let (mut delay, mut up, mut last_arrival) = (config.delay, true, Time::ZERO);
    let mut arrivals = Vec::new();
    let limit = config.resolved_queue();
    let mut offers = (1..).zip(offers).peekable();
    let mut steps = config.timeline.iter().peekable();
    let mut now = 0;
    while offers.peek().is_some() || steps.peek().is_some() || up && !queue.is_empty() {
        while let Some(step) = steps.next_if(|step| step.at.0 == now) {
            match &step.change {
                Change::Rate(rate) => service = Service::new(&Capacity::Rate(*rate), now),
                Change::Trace { trace, start } => {
                    let capacity = Capacity::Trace { trace: trace.clone(), start: *start };
                    service = Service::new(&capacity, now);
                }
                Change::Delay(new) => delay = *new,
                Change::Down => {
                    if up && config.when_down == WhenDown::Drop {
                        for (packet, _, _) in queue.drain(..) {
                            let reason = DropReason::Down;
                            outcomes.push(Outcome::DroppedLater { packet, at: step.at, reason });
                        }
                    }
                    up = false;
                }
                Change::Up => up = true,
                Change::Loss(_) => unreachable!("not in these tests"),
            }
        }
        while let Some((packet, &(_, bytes))) = offers.next_if(|offer| offer.1.0.0 == now) {
            let bytes = u64::from(bytes);
            let queued: u64 = queue.iter().map(|packet| packet.1).sum();
            if !up {
                outcomes.push(Outcome::Refused { packet, reason: DropReason::Down });
            } else if queue.len() < limit.packets && queued + bytes <= limit.bytes {
                queue.push_back((packet, bytes, bytes * 8_000_000_000));
            } else {
                outcomes.push(Outcome::Refused { packet, reason: DropReason::Queue });
            }
        }
        now += tick;
        let mut budget = service.budget(now, tick);
        while up && budget > 0 {
            let Some((packet, _, work)) = queue.front_mut() else { break };
            let done = budget.min(*work);
            (budget, *work) = (budget - done, *work - done);
            if *work == 0 {
                last_arrival = last_arrival.max(Time(now) + delay);
                arrivals.push(Outcome::Arrived { packet: *packet, at: last_arrival });
                queue.pop_front();
            }
        }
    }
    outcomes.extend(arrivals);
    outcomes
}

/// Sorts by packet, since the model and the link report in different orders.
fn sorted(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    outcomes.sort_by_key(|outcome| match *outcome {
        Outcome::Arrived { packet, .. }
        | Outcome::Refused { packet, .. }
        | Outcome::DroppedLater { packet, .. } => packet,
    });
    outcomes
}

fn round(time: Time, tick: u64) -> Time {
    Time(time.0 / tick * tick)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Rates of about a bit per nanosecond, packets of a few bytes, and up to eight steps among them.
    #[test]
    fn a_rate_that_changes_serves_every_bit_in_its_nanosecond(
        mut config in common::any_certain_link(),
        rate in 100_000_000..9_999_999_999_u64,
        offers in common::offers(40, 60, 20),
    ) {
        config.capacity = Capacity::Rate(Rate(rate));
        config.delay = Duration(config.delay.0 % 200);
        for (index, step) in config.timeline.iter_mut().enumerate() {
            step.at = Time(step.at.0 / 20_000);
            match &mut step.change {
                Change::Rate(rate) => rate.0 = rate.0 * 257 % 9_999_999_999 + 100_000_000,
                Change::Delay(delay) => delay.0 %= 200,
                change @ Change::Trace { .. } => *change = Change::Rate(Rate(1 + index as u64 * 1_234_567_890)),
                _ => {}
            }
        }
        // So that the model does not run for a whole second.
        let end = Step { at: Time(2000), change: Change::Rate(Rate::from_mbps(10_000)) };
        config.timeline.push(end);
        prop_assert_eq!(sorted(common::run(&config, 1, &offers)), sorted(model(&config, &offers, 1)));
    }

    /// All on whole microseconds: a rate of one byte per microsecond, and traces.
    #[test]
    fn rates_and_traces_that_take_turns_serve_every_byte_in_its_microsecond(
        mut config in common::any_certain_link(),
        offers in common::offers(30, 2 * MS, 3000),
    ) {
        let whole = |rate: &mut Rate| *rate = Rate::from_mbps(8);
        if let Capacity::Rate(rate) = &mut config.capacity {
            whole(rate);
        }
        let round_start = |start: &mut Duration| *start = Duration(start.0 / US * US);
        if let Capacity::Trace { start, .. } = &mut config.capacity {
            round_start(start);
        }
        for step in &mut config.timeline {
            step.at = round(step.at, US);
            match &mut step.change {
                Change::Rate(rate) => whole(rate),
                Change::Trace { start, .. } => round_start(start),
                _ => {}
            }
        }
        let offers: Vec<Offer> = offers.iter().map(|&(now, bytes)| (round(now, US), bytes)).collect();
        prop_assert_eq!(sorted(common::run(&config, 1, &offers)), sorted(model(&config, &offers, US)));
    }

    #[test]
    fn a_trace_serves_as_mahimahi_does(
        trace in common::trace(20),
        offers in common::offers(60, 3 * MS, 4000),
        queue in common::queue(),
    ) {
        let offers: Vec<Offer> = offers.iter().map(|&(now, bytes)| (round(now, MS), bytes)).collect();
        let config = LinkConfig { capacity: trace.into(), queue, ..LinkConfig::default() };
        prop_assert_eq!(sorted(common::run(&config, 1, &offers)), sorted(model(&config, &offers, MS)));
    }
}
