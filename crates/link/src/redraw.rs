//! Values of a link that are drawn again after each period.

use anabranch_units::{Duration, RandomStream, Rate, Time};

use crate::error::{self, LinkConfigError};
use crate::jitter::Truncated;
use crate::{Change, Step};

/// A value that is drawn at a time and again after each period, from a separate random stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Redraw {
    /// The time of the first draw.
    pub from: Time,
    /// Nothing is drawn at or after this time; [`Time::NEVER`] if it never ends.
    pub until: Time,
    /// The time from one draw to the next.
    pub every: Duration,
    /// The distribution of the value.
    pub value: Redrawn,
    /// The name of the random stream, with which all links of the same name draw the same values.
    pub stream: String,
}

/// The distribution of a [`Redraw`].
#[derive(Clone, Debug, PartialEq)]
pub enum Redrawn {
    /// One of these rates, each with the same probability.
    Rate(Vec<Rate>),
    /// A propagation delay: normal, truncated at 0 and at twice the mean, which preserves the mean.
    Delay {
        /// The mean propagation delay.
        mean: Duration,
        /// The standard deviation before truncation.
        std_dev: Duration,
    },
}

impl Redraw {
    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        if self.every < LinkConfigError::MIN_PERIOD {
            return Err(LinkConfigError::Period(self.every));
        }
        match &self.value {
            Redrawn::Rate(rates) if rates.is_empty() => Err(LinkConfigError::NoRates),
            Redrawn::Rate(rates) => rates.iter().try_for_each(|rate| Change::Rate(*rate).check()),
            Redrawn::Delay { mean, std_dev } => {
                error::check_span("mean delay", *mean)?;
                error::check_span("deviation of the delay", *std_dev)
            }
        }
    }
}

/// A redraw with its random stream.
#[derive(Clone, Debug)]
pub(crate) struct RedrawProcess {
    pub(crate) next: Time,
    until: Time,
    every: Duration,
    draws: Draws,
    stream: RandomStream,
}

#[derive(Clone, Debug)]
enum Draws {
    Rate(Vec<Rate>),
    Delay(Truncated),
}

impl RedrawProcess {
    pub(crate) fn new(redraw: &Redraw, seed: u64) -> RedrawProcess {
        let draws = match &redraw.value {
            Redrawn::Rate(rates) => Draws::Rate(rates.clone()),
            Redrawn::Delay { mean, std_dev } => Draws::Delay(Truncated::new(*mean, *std_dev)),
        };
        let stream = RandomStream::new(seed, &format!("redraw.{}", redraw.stream));
        let next = if redraw.from < redraw.until { redraw.from } else { Time::NEVER };
        RedrawProcess { next, until: redraw.until, every: redraw.every, draws, stream }
    }

    /// Returns the next draw, and goes on to the one after it.
    pub(crate) fn pop(&mut self) -> Step {
        let at = self.next;
        let next = Time(at.0.saturating_add(self.every.0));
        self.next = if next < self.until { next } else { Time::NEVER };
        let change = match &self.draws {
            Draws::Rate(rates) => Change::Rate(rates[self.stream.below(rates.len() as u64) as usize]),
            Draws::Delay(normal) => Change::Delay(normal.at(self.stream.next_f64())),
        };
        Step { at, change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redraw(value: Redrawn) -> RedrawProcess {
        let stream = "path.wifi".to_owned();
        {
            let (from, until, every) = (Time::from_secs(5), Time::NEVER, Duration::from_secs(10));
            RedrawProcess::new(&Redraw { from, until, every, value, stream }, 1)
        }
    }

    #[test]
    fn each_rate_is_drawn_equally_often_and_at_its_time() {
        let rates = [5, 10, 20, 30].map(Rate::from_mbps);
        let mut process = redraw(Redrawn::Rate(rates.to_vec()));
        let mut counts = [0; 4];
        for n in 0..10_000 {
            let step = process.pop();
            assert_eq!(step.at, Time::from_secs(5 + 10 * n));
            let Change::Rate(rate) = step.change else { panic!("{step:?}") };
            counts[rates.iter().position(|other| *other == rate).unwrap()] += 1;
        }
        assert!(counts.iter().all(|n| (2_300..2_700).contains(n)), "{counts:?}");
    }

    /// 40 % of the mean, truncated at 2.5 deviations: the deviation that remains is 0.954 of it.
    #[test]
    fn delays_have_their_mean_and_their_deviation() {
        let mean = Duration::from_millis(50);
        let mut process = redraw(Redrawn::Delay { mean, std_dev: Duration::from_millis(20) });
        let delays: Vec<f64> = (0..50_000)
            .map(|_| match process.pop().change {
                Change::Delay(delay) => delay.as_millis_f64(),
                other => panic!("{other:?}"),
            })
            .collect();
        let n = delays.len() as f64;
        let mean = delays.iter().sum::<f64>() / n;
        let deviation = (delays.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / n).sqrt();
        assert!((mean - 50.0).abs() < 0.3 && (deviation - 19.1).abs() < 0.2, "{mean} {deviation}");
        assert!(delays.iter().all(|delay| (0.0..=100.0).contains(delay)));
    }

    #[test]
    fn the_same_name_and_seed_give_the_same_draws() {
        let rates = || Redrawn::Rate([1, 2, 3, 4, 5].map(Rate::from_mbps).to_vec());
        let (mut one, mut other) = (redraw(rates()), redraw(rates()));
        assert!((0..100).all(|_| one.pop() == other.pop()));
    }
}
