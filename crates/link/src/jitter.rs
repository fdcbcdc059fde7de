//! Random delay added to the propagation delay.

use anabranch_units::{Duration, RandomStream};

use crate::error::{self, LinkConfigError};

/// Random delay added to the propagation delay. It is never negative: the link's `delay` is the shortest time
/// that a packet can take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Its distribution.
    pub shape: JitterShape,
    /// True if jitter may reorder packets. Otherwise a packet that would overtake arrives together with the
    /// one before it, as after a queue.
    pub reorder: bool,
}

/// The distribution of [`Jitter`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JitterShape {
    /// Uniform from zero to `max`.
    Uniform {
        /// The maximum delay that jitter adds.
        max: Duration,
    },
    /// Normal, truncated at 0 and at twice the mean, which preserves the mean. With a deviation much greater
    /// than the mean it approaches the uniform distribution.
    Normal {
        /// The mean delay that jitter adds.
        mean: Duration,
        /// The standard deviation before truncation.
        std_dev: Duration,
    },
}

impl Jitter {
    pub(crate) fn check(&self) -> Result<(), LinkConfigError> {
        match self.shape {
            JitterShape::Uniform { max } => error::check_span("jitter", max),
            JitterShape::Normal { mean, std_dev } => {
                error::check_span("mean jitter", mean)?;
                error::check_span("deviation of the jitter", std_dev)
            }
        }
    }
}

/// A jitter distribution with its random stream.
#[derive(Clone, Debug)]
pub(crate) struct JitterProcess {
    stream: RandomStream,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Uniform(Duration),
    Normal(Truncated),
}

/// A normal distribution, truncated at 0 and at twice the mean.
#[derive(Clone, Debug)]
pub(crate) struct Truncated {
    mean: Duration,
    std_dev: Duration,
    /// The probability of the untruncated distribution below zero.
    below: f64,
}

impl Truncated {
    pub(crate) fn new(mean: Duration, std_dev: Duration) -> Truncated {
        let below = match std_dev.is_zero() {
            false => normal_cdf(-mean.as_secs_f64() / std_dev.as_secs_f64()),
            true => 0.0,
        };
        Truncated { mean, std_dev, below }
    }

    /// Returns the value below which a share `u` of all are.
    pub(crate) fn at(&self, u: f64) -> Duration {
        // Computed by the inverse of the distribution, since rejection would take more draws for some packets than
        // for others.
        let z = normal_quantile(self.below + u * (1.0 - 2.0 * self.below));
        let secs = self.mean.as_secs_f64() + self.std_dev.as_secs_f64() * z;
        Duration::from_secs_f64(secs).min(self.mean * 2)
    }
}

impl JitterProcess {
    /// Returns the jitter process of the link `name`.
    pub(crate) fn new(seed: u64, name: &str, shape: JitterShape) -> JitterProcess {
        let shape = match shape {
            JitterShape::Uniform { max } => Shape::Uniform(max),
            JitterShape::Normal { mean, std_dev } => Shape::Normal(Truncated::new(mean, std_dev)),
        };
        JitterProcess { stream: RandomStream::new(seed, &format!("link.{name}.jitter")), shape }
    }

    /// Returns the jitter of the next packet; always takes one draw.
    pub(crate) fn draw(&mut self) -> Duration {
        let u = self.stream.next_f64();
        match &self.shape {
            Shape::Uniform(max) => max.mul_f64(u),
            Shape::Normal(normal) => normal.at(u),
        }
    }
}

/// Returns the distribution function of the standard normal distribution at `z`.
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

/// Returns the inverse of [`normal_cdf`], for `p` in 0 to 1 (clamped to 1e-16 from both ends), to about nine
/// digits.
///
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function":
/// rational approximations in the middle and in the tails.
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    const TAIL: f64 = 0.02425;
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);

    let p = p.clamp(1e-16, 1.0 - 1e-16);
    if (TAIL..=1.0 - TAIL).contains(&p) {
        let q = p - 0.5;
        return q * horner(&A, q * q) / horner(&B, q * q);
    }
    let q = libm::sqrt(-2.0 * libm::log(p.min(1.0 - p)));
    let z = horner(&C, q) / horner(&D, q);
    if p < 0.5 { z } else { -z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_inverts_the_distribution() {
        for i in 1..1000 {
            let p = f64::from(i) / 1000.0;
            assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-8, "{p}");
        }
        for p in [1e-12, 1e-6, 1.0 - 1e-6] {
            assert!((normal_cdf(normal_quantile(p)) / p - 1.0).abs() < 1e-6, "{p}");
        }
        assert!(normal_quantile(0.0) < -8.0 && normal_quantile(1.0) > 8.0);
    }

    fn sample(shape: JitterShape) -> (f64, Duration, Duration) {
        let mut process = JitterProcess::new(1, "a", shape);
        let draws: Vec<Duration> = (0..100_000).map(|_| process.draw()).collect();
        let mean = draws.iter().map(|d| d.as_millis_f64()).sum::<f64>() / draws.len() as f64;
        (mean, *draws.iter().min().unwrap(), *draws.iter().max().unwrap())
    }

    #[test]
    fn uniform_jitter_fills_its_range() {
        let (mean, min, max) = sample(JitterShape::Uniform { max: Duration::from_millis(10) });
        assert!((mean - 5.0).abs() < 0.05, "{mean}");
        assert!(min < Duration::from_micros(10) && max <= Duration::from_millis(10));
    }

    #[test]
    fn normal_jitter_keeps_its_mean_and_its_bounds() {
        for (mean_ms, dev_ms) in [(5, 1), (5, 4), (5, 100), (5, 0)] {
            let (mean, _, max) = sample(JitterShape::Normal {
                mean: Duration::from_millis(mean_ms),
                std_dev: Duration::from_millis(dev_ms),
            });
            assert!((mean - 5.0).abs() < 0.05, "{mean}");
            assert!(max <= Duration::from_millis(10));
        }
    }
}
