//! Sizes and start times of flows.
//!
//! The draws of a generator depend only on the seed and its name, so all contenders of a comparison have the
//! same sizes at the same times. Sizes and times have separate streams: changing the distribution of one does
//! not change the other.

use core::fmt;

use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

use crate::distribution::Distribution;
use crate::flow::FlowSpec;

/// The distribution of flow sizes.
#[derive(Clone, PartialEq, Debug)]
pub enum Sizes {
    /// A fixed size.
    Fixed(Bytes),
    /// Pareto: P(size > x) = (scale / x)^shape for x >= scale.
    Pareto {
        /// The shape; the mean is infinite unless it is above 1.
        shape: f64,
        /// The smallest size.
        scale: Bytes,
        /// The largest size: the distribution is truncated here.
        max: Option<Bytes>,
    },
    /// Any distribution of bytes.
    Drawn(Distribution),
    /// Flows send until the end of the run.
    Bulk,
}

impl Sizes {
    /// Web-like sizes: Pareto with shape 1.5 and scale 19 KB. The mean is exactly 57 KB.
    pub const WEB: Sizes = Sizes::Pareto { shape: 1.5, scale: Bytes(19_000), max: None };

    /// Returns the mean in bytes; infinite for bulk, and for a Pareto distribution without a mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Sizes::Fixed(size) => size.0 as f64,
            Sizes::Drawn(ref distribution) => distribution.mean(),
            Sizes::Bulk => f64::INFINITY,
            Sizes::Pareto { shape, scale, max: None } if shape > 1.0 => {
                scale.0 as f64 * shape / (shape - 1.0)
            }
            Sizes::Pareto { max: None, .. } => f64::INFINITY,
            Sizes::Pareto { shape, scale, max: Some(max) } => {
                let (low, high) = (scale.0 as f64, max.0 as f64);
                if high <= low {
                    return low;
                }
                // The integral of x times the density a s^a x^(-a-1), over the mass below the maximum.
                let mass = 1.0 - libm::pow(low / high, shape);
                let integral = if (shape - 1.0).abs() < 1e-9 {
                    low * libm::log(high / low)
                } else {
                    shape / (shape - 1.0) * (low - high * libm::pow(low / high, shape))
                };
                integral / mass
            }
        }
    }

    /// Returns the size of flow number `n`, from 0; none for bulk. Takes one draw for each size of any distribution.
    pub fn draw(&self, n: u64, stream: &mut RandomStream) -> Option<Bytes> {
        let uniform = stream.next_f64();
        match *self {
            Sizes::Fixed(size) => Some(size),
            Sizes::Bulk => None,
            Sizes::Drawn(ref distribution) => Some(distribution.nth_size(n, uniform)),
            Sizes::Pareto { shape, scale, max } => {
                let low = scale.0 as f64;
                let mass = match max {
                    Some(max) if max > scale => 1.0 - libm::pow(low / max.0 as f64, shape),
                    Some(_) => return Some(scale),
                    None => 1.0,
                };
                // The inverse of the distribution function; the uniform draw is below 1.
                let size = low * libm::pow(1.0 - uniform * mass, -1.0 / shape);
                let size = Bytes(libm::round(size) as u64);
                Some(max.map_or(size, |max| size.min(max)))
            }
        }
    }

    fn check(&self) -> Result<(), TrafficError> {
        match *self {
            Sizes::Fixed(Bytes(0)) => Err(TrafficError::ZeroSize),
            Sizes::Drawn(ref distribution) if !distribution.is_valid() => Err(TrafficError::Distribution),
            Sizes::Pareto { scale: Bytes(0), .. } => Err(TrafficError::ZeroSize),
            Sizes::Pareto { shape, .. } if !(shape.is_finite() && shape > 0.0) => {
                Err(TrafficError::Shape(shape))
            }
            Sizes::Pareto { scale, max: Some(max), .. } if max < scale => {
                Err(TrafficError::MaxBelowScale { scale, max })
            }
            _ => Ok(()),
        }
    }
}

/// The start times of flows.
#[derive(Clone, PartialEq, Debug)]
pub enum Starts {
    /// Several at one time.
    Together {
        /// The time.
        at: Time,
        /// The number of flows.
        count: usize,
    },
    /// At given times.
    At(Vec<Time>),
    /// A Poisson process.
    Poisson {
        /// The start of the process; the first flow starts a random gap later.
        from: Time,
        /// The end: no flow starts at or after this time.
        until: Time,
        /// The mean gap between two starts.
        mean_gap: Duration,
        /// The largest number of flows.
        max_count: Option<usize>,
    },
    /// With gaps from a distribution; constant gaps are periodic.
    Gaps {
        /// The start of the first flow.
        from: Time,
        /// The gaps between two starts, in nanoseconds.
        gap: Distribution,
        /// The number of flows.
        count: usize,
    },
}

impl Starts {
    /// Returns a Poisson process from the start of the run. Its flows have a mean size of `mean_size` bytes,
    /// and offer `load` times the capacity (1.0 is full load).
    ///
    /// # Errors
    /// If the load, the capacity or the size is not positive and finite.
    pub fn poisson_at_load(
        load: f64,
        capacity: Rate,
        mean_size: f64,
        until: Time,
    ) -> Result<Starts, TrafficError> {
        let gap = mean_size * 8.0 / (capacity.as_bps_f64() * load);
        if !(gap.is_finite() && gap > 0.0 && load > 0.0) {
            return Err(TrafficError::Load(load));
        }
        Ok(Starts::Poisson {
            from: Time::ZERO,
            until,
            mean_gap: Duration::from_secs_f64(gap),
            max_count: None,
        })
    }
}

/// A random process that starts flows of random sizes during a run.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSource {
    /// Its name, from which its random streams are derived.
    pub name: String,
    /// The sizes of its flows.
    pub sizes: Sizes,
    /// Their start times.
    pub starts: Starts,
}

/// A flow that a [`FlowSource`] has drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// The time at which the client begins to connect.
    pub start: Time,
    /// Its size; none for bulk.
    pub size: Option<Bytes>,
}

impl FlowSource {
    /// The largest number of flows of one source.
    pub const MAX_FLOWS: usize = 10_000_000;

    /// Returns its flows in a run with `seed`, in order of their starts ([`Starts::At`]: in the order given).
    ///
    /// # Errors
    /// If sizes or starts are invalid, or there would be more than [`FlowSource::MAX_FLOWS`].
    pub fn draw(&self, seed: u64) -> Result<Vec<Drawn>, TrafficError> {
        self.sizes.check()?;
        let mut sizes = RandomStream::new(seed, &format!("traffic.{}.sizes", self.name));
        let mut times = RandomStream::new(seed, &format!("traffic.{}.times", self.name));
        let mut number = 0;
        let mut drawn = |start| {
            number += 1;
            Drawn { start, size: self.sizes.draw(number - 1, &mut sizes) }
        };
        match &self.starts {
            Starts::Together { count, .. } if *count > FlowSource::MAX_FLOWS => {
                Err(TrafficError::TooManyFlows)
            }
            Starts::Together { at, count } => Ok((0..*count).map(|_| drawn(*at)).collect()),
            Starts::Gaps { count, .. } if *count > FlowSource::MAX_FLOWS => Err(TrafficError::TooManyFlows),
            Starts::Gaps { gap, .. } if !gap.is_valid() => Err(TrafficError::Distribution),
            Starts::Gaps { from, gap, count } => {
                let mut at = *from;
                let mut next = |n: usize| {
                    let start = at;
                    at += gap.draw_time(n as u64, &mut times);
                    start
                };
                Ok((0..*count).map(|n| drawn(next(n))).collect())
            }
            Starts::At(times) => Ok(times.iter().map(|at| drawn(*at)).collect()),
            Starts::Poisson { from, until, mean_gap, max_count } => {
                if mean_gap.is_zero() {
                    return Err(TrafficError::ZeroGap);
                }
                let mut flows = Vec::new();
                let mut at = *from;
                while max_count.is_none_or(|max| flows.len() < max) {
                    let gap = -libm::log(1.0 - times.next_f64()) * mean_gap.0 as f64;
                    at += Duration(libm::round(gap) as u64);
                    if at >= *until {
                        break;
                    }
                    if flows.len() >= FlowSource::MAX_FLOWS {
                        return Err(TrafficError::TooManyFlows);
                    }
                    flows.push(drawn(at));
                }
                Ok(flows)
            }
        }
    }
}

impl FlowSource {
    /// Returns its flows in a run with `seed`, each a copy of `template` except for its start, its size and
    /// its name: the name of the source and a number from 1.
    ///
    /// # Errors
    /// As for [`FlowSource::draw`].
    pub fn flows(&self, seed: u64, template: &FlowSpec) -> Result<Vec<FlowSpec>, TrafficError> {
        let flows = self.draw(seed)?.into_iter().enumerate().map(|(index, drawn)| FlowSpec {
            name: format!("{}{}", self.name, index + 1),
            start: drawn.start,
            size: drawn.size,
            ..template.clone()
        });
        Ok(flows.collect())
    }
}

/// The problem of a source of flows.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum TrafficError {
    /// The size of flows is zero.
    ZeroSize,
    /// The shape is not positive and finite.
    Shape(f64),
    /// The largest size is below the smallest.
    MaxBelowScale {
        /// The smallest size.
        scale: Bytes,
        /// The largest.
        max: Bytes,
    },
    /// The load, the capacity or the mean size does not determine a gap.
    Load(f64),
    /// A parameter of a distribution is not positive and finite.
    Distribution,
    /// An unlimited number of flows at one time.
    ZeroGap,
    /// There are more than [`FlowSource::MAX_FLOWS`].
    TooManyFlows,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficError::ZeroSize => f.write_str("the size is 0; give at least 1 byte"),
            TrafficError::Shape(shape) => write!(f, "the shape is {shape}; give a positive number"),
            TrafficError::MaxBelowScale { scale, max } => {
                write!(f, "the largest size, {max}, is below the least, {scale}; give a larger one")
            }
            TrafficError::Load(load) => {
                write!(f, "the load is {load}; load, capacity and mean size must all be positive and finite")
            }
            TrafficError::Distribution => {
                f.write_str("a parameter of a distribution is not positive and finite; give positive numbers")
            }
            TrafficError::ZeroGap => {
                f.write_str("the mean gap between flows is 0; give at least 1 ns, or start them together")
            }
            TrafficError::TooManyFlows => {
                write!(f, "more than {} flows; give a shorter time or a lower load", FlowSource::MAX_FLOWS)
            }
        }
    }
}

impl core::error::Error for TrafficError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(sizes: Sizes, n: usize) -> f64 {
        let mut stream = RandomStream::new(3, "test");
        (0..n).map(|n| sizes.draw(n as u64, &mut stream).unwrap().0 as f64).sum::<f64>() / n as f64
    }

    #[test]
    fn web_sizes_have_a_mean_of_57_kb() {
        assert_eq!(Sizes::WEB.mean(), 57_000.0);
        // The variance is infinite, so a sample of a truncated one is more meaningful.
        for (shape, max) in [(1.5, 1_000_000), (1.0, 500_000), (0.5, 300_000), (3.0, 20_000)] {
            let sizes = Sizes::Pareto { shape, scale: Bytes(19_000), max: Some(Bytes(max)) };
            let (mean, sample) = (sizes.mean(), sample_mean(sizes, 200_000));
            assert!((sample / mean - 1.0).abs() < 0.01, "{shape}: {sample} {mean}");
        }
        let median = {
            let mut stream = RandomStream::new(3, "median");
            let mut sizes: Vec<_> = (0..10_001).map(|n| Sizes::WEB.draw(n, &mut stream).unwrap().0).collect();
            sizes.sort_unstable();
            sizes[5_000] as f64
        };
        // 19 KB times 2^(2/3).
        assert!((median / 30_160.6 - 1.0).abs() < 0.03, "{median}");
    }

    #[test]
    fn poisson_arrivals_offer_the_load() {
        let until = Time::from_secs(1000);
        let starts = Starts::poisson_at_load(0.5, Rate::from_mbps(10), 50_000.0, until).unwrap();
        let traffic = FlowSource { name: "web".into(), sizes: Sizes::Fixed(Bytes(50_000)), starts };
        let flows = traffic.draw(1).unwrap();
        // 12.5 flows per second.
        assert!((flows.len() as f64 / 12_500.0 - 1.0).abs() < 0.03, "{}", flows.len());
        assert!(flows.windows(2).all(|pair| pair[0].start <= pair[1].start));
        assert!(flows.iter().all(|flow| flow.start < until));
        assert_eq!(flows, traffic.draw(1).unwrap());
        assert_ne!(flows, traffic.draw(2).unwrap());
    }

    #[test]
    fn other_sizes_do_not_shift_the_starts() {
        let starts = Starts::Poisson {
            from: Time::from_secs(1),
            until: Time::NEVER,
            mean_gap: Duration::from_millis(10),
            max_count: Some(50),
        };
        let draw = |sizes| {
            let traffic = FlowSource { name: "t".into(), sizes, starts: starts.clone() };
            traffic.draw(7).unwrap().iter().map(|flow| flow.start).collect::<Vec<_>>()
        };
        assert_eq!(draw(Sizes::WEB), draw(Sizes::Bulk));
        assert_eq!(draw(Sizes::WEB).len(), 50);
    }

    #[test]
    fn each_mistake_is_named() {
        let draw = |sizes, starts| FlowSource { name: "t".into(), sizes, starts }.draw(1);
        let once = Starts::Together { at: Time::ZERO, count: 2 };
        let pareto = |shape, max| Sizes::Pareto { shape, scale: Bytes(10), max };
        assert_eq!(draw(Sizes::Fixed(Bytes(0)), once.clone()), Err(TrafficError::ZeroSize));
        assert!(draw(pareto(f64::NAN, None), once.clone()).is_err());
        assert!(draw(pareto(1.5, Some(Bytes(9))), once.clone()).is_err());
        assert_eq!(draw(pareto(1.5, Some(Bytes(10))), once).unwrap()[1].size, Some(Bytes(10)));
        let stuck = Starts::Poisson {
            from: Time::ZERO,
            until: Time::NEVER,
            mean_gap: Duration::ZERO,
            max_count: None,
        };
        assert_eq!(draw(Sizes::WEB, stuck), Err(TrafficError::ZeroGap));
        for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Starts::poisson_at_load(load, Rate::from_mbps(1), 1e3, Time::ZERO).is_err());
        }
    }

    #[test]
    fn no_flow_starts_at_the_end_of_a_poisson_process() {
        let starts = |until| {
            let mean_gap = Duration::from_millis(10);
            let starts = Starts::Poisson { from: Time::ZERO, until, mean_gap, max_count: None };
            let traffic = FlowSource { name: "web".into(), sizes: Sizes::WEB, starts };
            traffic.draw(1).unwrap().iter().map(|flow| flow.start).collect::<Vec<_>>()
        };
        let all = starts(Time::from_secs(1));
        assert!(all.len() > 10);
        assert_eq!(starts(all[5]), all[..5]);
    }
}
