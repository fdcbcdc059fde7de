//! The configuration of a link.

use anabranch_units::{Duration, Rate};

use crate::error::{self, LinkConfigError};
use crate::{
    Aqm, Capacity, CrossTraffic, Jitter, Loss, QueueLimit, Redraw, ResolvedLimit, Step, TokenBucket,
};

/// Reordering: some packets are delayed, so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// The probability that a packet is delayed.
    pub probability: f64,
    /// The extra delay. It does not delay the packets after it.
    pub extra: Duration,
}

/// The treatment of queued packets, including the one in service, when the link goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// The packets are dropped.
    #[default]
    Drop,
    /// The packets are kept. When the link comes up, the packet in service continues where it stopped.
    Keep,
}

/// The assignment of random draws to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDraws {
    /// All packets share one sequence: the n-th draw belongs to the n-th packet offered.
    #[default]
    Shared,
    /// Packets with data and packets without have separate sequences: the n-th draw belongs to the n-th
    /// packet with data, whatever else is offered in between. Two senders that differ only in their
    /// acknowledgements, handshakes and options therefore lose the same data packets.
    Separate,
}

/// The configuration of one link, in one direction. [`Link::new`](crate::Link::new) checks it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// The capacity. Default: 10 Mbit/s.
    pub capacity: Capacity,
    /// Propagation delay, one way. Default: 10 ms.
    pub delay: Duration,
    /// The queue limit. Default: 1 BDP, at least 10 packets of 1500 bytes.
    pub queue: QueueLimit,
    /// The threshold of ECN (RFC 3168): packets that are admitted, but would exceed this queue length on
    /// arrival, are marked. Default: `None`, no marks.
    pub ecn_threshold: Option<QueueLimit>,
    /// The management of the queue. Default: drop-tail.
    pub aqm: Aqm,
    /// A token bucket before the queue that drops the packets that exceed it. Default: none.
    pub policer: Option<TokenBucket>,
    /// A token bucket that holds packets in the queue until there are tokens; the capacity is then the rate within a
    /// burst. Default: none.
    pub shaper: Option<TokenBucket>,
    /// Traffic of others that takes a part of the link. Default: none.
    pub cross_traffic: Vec<CrossTraffic>,
    /// The round-trip time without load, from which [`QueueLimit::Bdp`] is computed; `None` is twice the
    /// delay. Default: `None`.
    pub rtt: Option<Duration>,
    /// Random loss. Default: none.
    pub loss: Loss,
    /// Numbers of packets to drop, in any order. The first packet offered is number 1; with [`LossDraws::Separate`],
    /// the first one with data. Default: none.
    pub drop_list: Vec<u64>,
    /// The assignment of random draws to packets. Default: shared.
    pub loss_draws: LossDraws,
    /// The time after which a packet that the loss model or the drop list takes is delivered all the same, as in a tunnel over a
    /// reliable stream such as TCP: the time that the tunnel takes to notice the loss and to repeat the packet. Packets after it
    /// wait for it. The repetition is not lost, and takes no capacity. A full queue still drops: it is in front of
    /// the tunnel. Default: `None`, it is lost.
    pub repeat_after: Option<Duration>,
    /// Random delay added to `delay`. Default: none.
    pub jitter: Option<Jitter>,
    /// Packets delayed so that others overtake them. Default: none.
    pub reordering: Option<Reordering>,
    /// The probability that a packet is duplicated; the copy follows it in the queue. The copy takes space
    /// and capacity, takes no random draw, and shares the original's jitter. Default: 0.
    pub duplicate: f64,
    /// The probability that a packet arrives with a damaged bit ([`Effect::Corrupted`](crate::Effect)), which its
    /// receiver's checksum finds. Default: 0.
    pub corrupt: f64,
    /// The treatment of queued packets when the link goes down. Default: dropped.
    pub when_down: WhenDown,
    /// The MTU in bytes, IP header included; applies only to packets that must not be fragmented, such as
    /// TCP's. Default: `None`, unlimited.
    pub mtu: Option<u32>,
    /// True if a router reports packets that exceed the MTU to their sender (ICMP); otherwise they are lost
    /// silently. The caller of the link sends the reports. Default: true.
    pub reports_mtu: bool,
    /// Changes in order of time. Default: none.
    pub timeline: Vec<Step>,
    /// Values drawn again and again, for the whole life of the link. At the same time, they come after the steps of the
    /// timeline. Default: none.
    pub redraws: Vec<Redraw>,
}

impl Default for LinkConfig {
    fn default() -> LinkConfig {
        LinkConfig {
            capacity: Capacity::Rate(Rate::from_mbps(10)),
            delay: Duration::from_millis(10),
            queue: QueueLimit::Bdp(1.0),
            ecn_threshold: None,
            aqm: Aqm::DropTail,
            policer: None,
            shaper: None,
            cross_traffic: Vec::new(),
            rtt: None,
            loss: Loss::None,
            drop_list: Vec::new(),
            repeat_after: None,
            loss_draws: LossDraws::Shared,
            jitter: None,
            reordering: None,
            duplicate: 0.0,
            corrupt: 0.0,
            when_down: WhenDown::Drop,
            mtu: None,
            reports_mtu: true,
            timeline: Vec::new(),
            redraws: Vec::new(),
        }
    }
}

impl LinkConfig {
    /// Returns the queue limit in packets or bytes.
    pub fn resolved_queue(&self) -> ResolvedLimit {
        self.queue.resolve(self.capacity.mean_rate(), self.rtt.unwrap_or(self.delay * 2))
    }

    /// Returns the marking threshold in packets or bytes; unlimited if packets are never marked.
    pub fn resolved_ecn_threshold(&self) -> ResolvedLimit {
        let threshold = self.ecn_threshold.unwrap_or(QueueLimit::Unlimited);
        threshold.resolve(self.capacity.mean_rate(), self.rtt.unwrap_or(self.delay * 2))
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// The first problem, as a [`LinkConfigError`]; its text includes a valid value.
    pub fn check(&self) -> Result<(), LinkConfigError> {
        self.capacity.check()?;
        error::check_span("delay", self.delay)?;
        error::check_span("round trip", self.rtt.unwrap_or_default())?;
        self.queue.check()?;
        if let Some(QueueLimit::Bdp(n)) = self.ecn_threshold {
            QueueLimit::Bdp(n).check()?;
        }
        self.aqm.check()?;
        for (of, bucket) in [("policer", &self.policer), ("shaper", &self.shaper)] {
            if let Some(bucket) = bucket {
                bucket.check(of)?;
            }
        }
        self.cross_traffic.iter().try_for_each(CrossTraffic::check)?;
        self.redraws.iter().try_for_each(Redraw::check)?;
        self.loss.check()?;
        error::check_span("time of repetition", self.repeat_after.unwrap_or_default())?;
        if self.drop_list.contains(&0) {
            return Err(LinkConfigError::DropListZero);
        }
        if let Some(jitter) = &self.jitter {
            jitter.check()?;
        }
        if let Some(reordering) = &self.reordering {
            error::check_probability("reordering", reordering.probability)?;
            error::check_span("extra delay of reordering", reordering.extra)?;
        }
        error::check_probability("duplication", self.duplicate)?;
        error::check_probability("corruption", self.corrupt)?;
        crate::timeline::check(&self.timeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GilbertElliott;

    #[test]
    fn the_default_is_right() {
        let config = LinkConfig::default();
        assert_eq!(config.check(), Ok(()));
        // 10 Mbit/s times 20 ms.
        assert_eq!(config.resolved_queue().bytes, 25_000);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let wrong = |change: fn(&mut LinkConfig), word: &str| {
            let mut config = LinkConfig::default();
            change(&mut config);
            let text = config.check().unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        wrong(|c| c.capacity = Rate(0).into(), "rate is 0");
        wrong(|c| c.capacity = Rate(u64::MAX).into(), "too high");
        wrong(|c| c.delay = Duration::MAX, "delay");
        wrong(|c| c.rtt = Some(Duration::MAX), "round trip");
        wrong(|c| c.queue = QueueLimit::Packets(0), "at least 1 packet");
        wrong(|c| c.queue = QueueLimit::Bytes(0), "at least 1 packet");
        wrong(|c| c.queue = QueueLimit::Bdp(f64::NAN), "BDP");
        wrong(|c| c.ecn_threshold = Some(QueueLimit::Bdp(-1.0)), "BDP");
        wrong(|c| c.loss = Loss::Bernoulli(1.5), "loss is 1.5");
        wrong(|c| c.loss = Loss::Bernoulli(f64::NAN), "loss is NaN");
        wrong(|c| c.drop_list = vec![3, 0], "packet 0");
        wrong(|c| c.duplicate = -0.1, "duplication");
        wrong(|c| c.corrupt = 1.1, "corruption");
        wrong(
            |c| c.reordering = Some(Reordering { probability: 2.0, extra: Duration::ZERO }),
            "reordering is 2",
        );
        wrong(
            |c| {
                c.loss = Loss::GilbertElliott(GilbertElliott {
                    mean_good: Duration::from_secs(1),
                    mean_bad: Duration::ZERO,
                    loss_good: 0.0,
                    loss_bad: 1.0,
                });
            },
            "bad state",
        );
    }
}
