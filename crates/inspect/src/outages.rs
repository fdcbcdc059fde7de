//! Outages of paths: which of the noted silences are no accident, and when the path went down and came back.
//!
//! At the sender, a silence is an outage if random losses would hardly make it: with `n` packets in vain and the random loss `p`
//! of the path (the upper end of its range), one of all packets begins such a silence with the probability `packets * p^n`, which must
//! be below 0.001, and `n` must be 4. The path went down between the last answer, which then was on its way
//! for half a round trip, and the time at which the next one was due: a round trip, as long as the last one, after the oldest packet in flight was
//! sent. As many packets as random losses take one after the other in 1 of 40 cases may have been lost before. It came back between the
//! last packet in vain (or, with many random losses, the one before it) and the one that was answered.
//!
//! At the receiver, a pause may be the application's. It is an outage if the first data after it had arrived before, so that the
//! sender has not got its acknowledgement; or, in a connection with one path, if that data was one full packet, and
//! the next one came more than half a round trip later: a sender that had paused would have sent a burst. The packets
//! in vain are not in the capture. Timeouts double, so the last one was after a third of the pause or later (RFC 6298).

use anabranch_units::{Duration, Time};

use crate::cause::Cause;
use crate::result::{PartReport, StreamReport, SubflowReport};
use crate::track::{Pause, Subflow, Unanswered};

/// The probability of an outage that did not happen.
const CHANCE: f64 = 0.001;
/// The least packets in vain.
const LEAST: u64 = 4;
/// The probability with which random losses may take packets before an outage, or after it.
const LOST_BEFORE: f64 = 0.025;
/// The longest time for which a receiver delays the acknowledgement of a single packet.
const DELAYED_ACK: Duration = Duration::from_millis(40);

/// A time with its range: value, lower end, upper end.
pub(crate) type Range = (Time, Time, Time);

/// An outage of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outage {
    pub down: Range,
    pub up: Option<Range>,
    /// Packets that were sent in vain; none at the receiver.
    pub in_vain: Option<u64>,
    /// The first time at which packets were missing, and the first time after it at which they were not.
    pub silent: (Time, Time),
}

/// The path as far as it is known without its outages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub at_sender: bool,
    /// True if no other subflow carries data in this direction.
    pub is_only: bool,
    pub rtt: Duration,
    /// The time that a full packet takes at the bottleneck.
    pub packet: Duration,
    /// Data packets, and the upper end of the range of random losses.
    pub packets: u64,
    pub loss: f64,
}

/// Returns the times that may be outages.
pub(crate) fn candidates(subflow: &Subflow, half: usize, known: &Known) -> Vec<Outage> {
    let own = &subflow.halves[half & 1];
    match known.at_sender {
        true => own.tries.found.iter().filter_map(|silence| at_sender(silence, known)).collect(),
        false => own.arrivals.found.iter().filter_map(|pause| at_receiver(pause, known)).collect(),
    }
}

/// True if random losses would hardly make the outage.
pub(crate) fn is_likely(outage: &Outage, known: &Known) -> bool {
    let Some(in_vain) = outage.in_vain else { return true };
    let exponent = i32::try_from(in_vain).unwrap_or(i32::MAX);
    in_vain >= LEAST && known.packets as f64 * known.loss.clamp(1e-6, 1.0).powi(exponent) < CHANCE
}

/// Returns the number of packets in a row of which random losses take all with a probability below [`LOST_BEFORE`].
fn certain(loss: f64) -> usize {
    let powers = std::iter::successors(Some(loss), |power| Some(power * loss));
    1 + powers.take(32).take_while(|power| *power >= LOST_BEFORE).count()
}

fn at_sender(silence: &Unanswered, known: &Known) -> Option<Outage> {
    let half = known.rtt.0 / 2;
    let earliest = Time(silence.heard.0.saturating_sub(half));
    let needed = certain(known.loss.min(0.9));
    // The packet that random losses do not explain.
    let in_flight = usize::try_from(silence.in_flight).unwrap_or(usize::MAX);
    let sent = match needed {
        1 => silence.oldest,
        _ if needed <= in_flight => silence.heard,
        _ => silence.first[(needed - in_flight - 1).min(silence.first.len() - 1)],
    };
    let delayed = if in_flight == 1 { DELAYED_ACK } else { Duration::ZERO };
    let latest = silence.heard.max(sent + silence.rtt.max(known.rtt) + delayed);
    let down = match silence.in_flight > 0 {
        true => earliest,
        false => middle(earliest, latest),
    };
    let up = silence.ended.map(|ended| {
        let latest = silence.answered.min(Time(ended.0.saturating_sub(half)));
        let earliest = silence.failed[usize::from(needed > 1)].min(latest);
        (middle(earliest, latest), earliest, latest)
    });
    // The answered packet is not in vain.
    let sent = silence.tries.saturating_sub(u64::from(silence.ended.is_some()));
    Some(Outage {
        down: (down, earliest, latest.max(down)),
        up,
        in_vain: Some(silence.in_flight + sent),
        silent: (silence.heard, silence.ended.unwrap_or(Time(u64::MAX))),
    })
}

fn at_receiver(pause: &Pause, known: &Known) -> Option<Outage> {
    let least = (known.rtt.0 / 2).max(3 * known.packet.0);
    let alone = known.is_only && pause.is_full && pause.next.is_some_and(|next| next.0 > least);
    (pause.repeats || alone).then_some(())?;
    let half = known.rtt.0 / 2;
    let earliest = Time(pause.begun.0.saturating_sub(half));
    let answered = Time(pause.ended.0.saturating_sub(half));
    let failed = Time(pause.begun.0 + pause.ended.since(pause.begun).0 / 3).min(answered);
    Some(Outage {
        // The next packet was due within a round trip.
        down: (earliest, earliest, pause.begun + known.rtt),
        up: Some((middle(failed, answered), failed, answered)),
        in_vain: None,
        silent: (pause.begun, pause.ended),
    })
}

/// Charges the silences that outages have ended to the retransmissions that made the end known: the receiver cannot tell them from
/// pauses of the application when they happen.
pub(crate) fn charge(
    stream: &mut StreamReport,
    silences: &[(Time, Duration)],
    subflows: &[SubflowReport],
    direction: usize,
) {
    let paths = subflows.iter().filter_map(|subflow| subflow.directions[direction & 1].path.as_ref());
    let ended: Vec<Time> = paths.flat_map(|path| &path.outages).filter_map(|outage| outage.ended).collect();
    let charged: f64 =
        silences.iter().filter(|(at, _)| ended.contains(at)).map(|(_, span)| span.as_secs_f64()).sum();
    let all: f64 = stream.parts.iter().map(|part| part.seconds).sum();
    if charged <= 0.0 || all <= 0.0 {
        return;
    }
    let of = |cause: Cause, parts: &[PartReport]| {
        parts.iter().find(|part| part.cause == cause).map_or(0.0, |part| part.seconds)
    };
    let parts = Cause::ALL.map(|cause| {
        let seconds = of(cause, &stream.parts);
        let seconds = match cause {
            Cause::Application => (seconds - charged).max(0.0),
            Cause::Retransmission => seconds + charged,
            _ => seconds,
        };
        PartReport { cause, seconds, share_pct: 100.0 * seconds / all }
    });
    stream.parts = parts.into_iter().filter(|part| part.seconds > 0.0).collect();
    stream.fct_s = stream.fct_s.map(|fct| fct + charged);
}

fn middle(a: Time, b: Time) -> Time {
    Time(a.0 + b.0.saturating_sub(a.0) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_random_losses_may_take_more_packets_in_a_row() {
        assert_eq!([0.0, 0.02, 0.03, 0.2, 0.9].map(certain), [1, 1, 2, 3, 33]);
    }
}
