//! Random loss, and the reasons of drops.

use anabranch_units::{Duration, RandomStream, Time};

use crate::Effect;
use crate::error::{self, LinkConfigError};

/// The reason that a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// It was lost.
    Loss(LossCause),
    /// The link was down, or went down while the packet was queued.
    Down,
    /// It exceeded the MTU.
    TooLarge,
    /// The queue management dropped it: RED, CoDel or FQ-CoDel.
    Aqm,
    /// It exceeded the policer.
    Policer,
    /// The receiver rejected it because of an effect of a link. The links delivered it.
    Effect(Effect),
    /// A [middlebox](crate::Middlebox) at an end of the link has no entry for its connection.
    Middlebox,
}

/// The model that has dropped a packet; queues and outages are no losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossCause {
    /// Independent loss, [`Loss::Bernoulli`].
    Random,
    /// The channel of [`Loss::GilbertElliott`].
    GilbertElliott,
    /// The packet is in the drop list.
    Listed,
}

/// The random loss of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Each packet is lost with this probability, independently.
    Bernoulli(f64),
    /// Loss in bursts.
    GilbertElliott(GilbertElliott),
}

/// A channel with a good and a bad state that alternate **in time**, not per packet: packets of two
/// contenders that are offered at the same time meet the same state, however many there are.
///
/// Each stay in a state lasts an exponentially distributed time. The first state is drawn from the stationary
/// distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Mean time in the good state: one over the rate of transitions to the bad state.
    pub mean_good: Duration,
    /// Mean time in the bad state.
    pub mean_bad: Duration,
    /// Probability that a packet is lost in the good state.
    pub loss_good: f64,
    /// Probability that a packet is lost in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Returns the fraction of time that the channel is bad.
    pub fn share_bad(&self) -> f64 {
        let (good, bad) = (self.mean_good.as_secs_f64(), self.mean_bad.as_secs_f64());
        bad / (good + bad)
    }

    /// Returns the long-term probability that a packet is lost.
    pub fn mean_loss(&self) -> f64 {
        let (good, bad) = (self.mean_good.as_secs_f64(), self.mean_bad.as_secs_f64());
        (good * self.loss_good + bad * self.loss_bad) / (good + bad)
    }
}

impl Loss {
    /// Returns independent loss with probability `p`; [`Loss::None`] if that is 0.
    pub fn bernoulli(p: f64) -> Loss {
        if p > 0.0 { Loss::Bernoulli(p) } else { Loss::None }
    }

    /// Returns the long-term probability that a packet is lost.
    pub fn mean_loss(&self) -> f64 {
        match self {
            Loss::None => 0.0,
            Loss::Bernoulli(p) => *p,
            Loss::GilbertElliott(channel) => channel.mean_loss(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        match self {
            Loss::None => Ok(()),
            Loss::Bernoulli(p) => error::check_probability("loss", *p),
            Loss::GilbertElliott(channel) => {
                error::check_probability("loss in the good state", channel.loss_good)?;
                error::check_probability("loss in the bad state", channel.loss_bad)?;
                for (state, value) in [("good", channel.mean_good), ("bad", channel.mean_bad)] {
                    if value < LinkConfigError::MIN_SOJOURN {
                        return Err(LinkConfigError::Sojourn { state, value });
                    }
                }
                Ok(())
            }
        }
    }
}

/// A loss model with its random streams, and the state of the channel.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    /// One draw for each packet offered.
    packets: RandomStream,
    /// The sojourn times of the channel: a separate stream, so that their number does not shift the draws of
    /// packets.
    sojourns: RandomStream,
    model: Loss,
    bad: bool,
    /// The time of the next change of the channel's state.
    until: Time,
}

impl LossProcess {
    /// Returns the loss process of packets with the stream name `name` on the link `link`, from time zero.
    /// The channel belongs to the link, whatever the name.
    pub(crate) fn new(seed: u64, name: &str, link: &str, model: Loss) -> LossProcess {
        let mut process = LossProcess {
            packets: RandomStream::new(seed, &format!("link.{name}.loss")),
            sojourns: RandomStream::new(seed, &format!("link.{link}.loss.state")),
            model: Loss::None,
            bad: false,
            until: Time::NEVER,
        };
        process.change(Time::ZERO, model);
        process
    }

    /// Skips the draws of `n` packets.
    pub(crate) fn skip(&mut self, n: u64) {
        for _ in 0..n {
            self.packets.next_u64();
        }
    }

    /// Replaces the model from `now` on. The draws of packets continue.
    pub(crate) fn change(&mut self, now: Time, model: Loss) {
        // The old channel is followed to its end first, so that the number of sojourns drawn, and with it the
        // state of the new channel, does not depend on when packets were offered.
        if let Loss::GilbertElliott(channel) = self.model {
            self.follow(now, &channel);
        }
        self.model = model;
        if let Loss::GilbertElliott(channel) = model {
            self.bad = self.sojourns.chance(channel.share_bad());
            self.until = now + self.sojourn(&channel);
        }
    }

    /// Draws for the next packet, offered at `now`: the cause of its loss, if it is lost.
    #[inline]
    pub(crate) fn draw(&mut self, now: Time) -> Option<LossCause> {
        let draw = self.packets.next_f64();
        match self.model {
            Loss::None => None,
            Loss::Bernoulli(p) => (draw < p).then_some(LossCause::Random),
            Loss::GilbertElliott(channel) => {
                self.follow(now, &channel);
                let p = if self.bad { channel.loss_bad } else { channel.loss_good };
                (draw < p).then_some(LossCause::GilbertElliott)
            }
        }
    }

    fn follow(&mut self, now: Time, channel: &GilbertElliott) {
        while self.until <= now {
            self.bad = !self.bad;
            let stay = self.sojourn(channel);
            self.until += stay;
        }
    }

    fn sojourn(&mut self, channel: &GilbertElliott) -> Duration {
        let mean = if self.bad { channel.mean_bad } else { channel.mean_good };
        // 1 - u lies in (0, 1], so the logarithm is finite. A stay must not have zero length.
        let factor = -libm::log(1.0 - self.sojourns.next_f64());
        mean.mul_f64(factor).max(Duration(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: GilbertElliott = GilbertElliott {
        mean_good: Duration::from_millis(80),
        mean_bad: Duration::from_millis(20),
        loss_good: 0.01,
        loss_bad: 0.4,
    };

    fn lost(process: &mut LossProcess, times: impl Iterator<Item = Time>) -> Vec<Time> {
        times.filter(|&now| process.draw(now).is_some()).collect()
    }

    #[test]
    fn bernoulli_loses_its_share() {
        let mut process = LossProcess::new(1, "a", "a", Loss::Bernoulli(0.05));
        let n = lost(&mut process, (0..200_000).map(Time)).len();
        assert!((9_600..10_400).contains(&n), "{n}");
    }

    #[test]
    fn gilbert_elliott_loses_what_the_formula_says() {
        assert!((CHANNEL.mean_loss() - (0.8 * 0.01 + 0.2 * 0.4)).abs() < 1e-12);
        let mut process = LossProcess::new(1, "a", "a", Loss::GilbertElliott(CHANNEL));
        let n = 2_000_000;
        let lost = lost(&mut process, (0..n).map(Time::from_millis)).len();
        let mean = lost as f64 / n as f64;
        assert!((mean / CHANNEL.mean_loss() - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts() {
        let mut process = LossProcess::new(1, "a", "a", Loss::GilbertElliott(CHANNEL));
        let lost: Vec<bool> = (0..200_000).map(|i| process.draw(Time::from_millis(i)).is_some()).collect();
        let after_loss: Vec<bool> = lost.windows(2).filter(|w| w[0]).map(|w| w[1]).collect();
        let again = after_loss.iter().filter(|&&l| l).count() as f64 / after_loss.len() as f64;
        assert!(again > 3.0 * CHANNEL.mean_loss(), "{again}");
    }

    #[test]
    fn the_channel_moves_in_time_whoever_looks() {
        let mut often = LossProcess::new(3, "a", "a", Loss::GilbertElliott(CHANNEL));
        let mut seldom = often.clone();
        for i in 0..100_000_u64 {
            let now = Time::from_millis(i);
            often.draw(now);
            if i % 997 == 0 {
                seldom.draw(now);
                assert_eq!((often.bad, often.until), (seldom.bad, seldom.until));
            }
        }
    }

    #[test]
    fn a_second_channel_is_the_same_however_often_the_first_was_polled() {
        let mut looked = LossProcess::new(3, "a", "a", Loss::GilbertElliott(CHANNEL));
        let mut unseen = looked.clone();
        let other = GilbertElliott { mean_bad: Duration::from_millis(30), ..CHANNEL };
        for i in 0..1000 {
            looked.draw(Time::from_millis(i));
        }
        for process in [&mut looked, &mut unseen] {
            process.change(Time::from_secs(1), Loss::GilbertElliott(other));
        }
        assert_eq!((looked.bad, looked.until), (unseen.bad, unseen.until));
    }

    #[test]
    fn a_change_of_model_does_not_shift_the_draws() {
        let mut constant = LossProcess::new(3, "a", "a", Loss::Bernoulli(0.1));
        let mut changed = LossProcess::new(3, "a", "a", Loss::GilbertElliott(CHANNEL));
        for i in 0..1000 {
            let now = Time::from_millis(i);
            if i == 500 {
                changed.change(now, Loss::Bernoulli(0.1));
            }
            let (a, b) = (constant.draw(now), changed.draw(now));
            assert!(i < 500 || a == b);
        }
    }
}
