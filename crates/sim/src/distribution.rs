//! Distributions of sizes and times.
//!
//! Values are plain numbers: bytes for a size, nanoseconds for a time. Every draw takes one number of its stream and
//! returns the quantile at that number, so that two distributions with the same stream are ordered alike. A sequence is
//! no random draw: it returns its values in turn.

use core::fmt;
use std::sync::Arc;

use anabranch_units::{Bytes, Duration, RandomStream};

/// A distribution of numbers that are not negative.
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Always this value.
    Constant(f64),
    /// Uniform between the two ends.
    Uniform {
        /// The least value.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// Pareto: P(x > y) = (min / y)^shape, truncated at `max` (bounded Pareto) if there is one.
    Pareto {
        /// The shape; without `max` the mean is infinite unless it is above 1.
        shape: f64,
        /// The least value.
        min: f64,
        /// The greatest.
        max: Option<f64>,
    },
    /// Log-normal: the logarithm is normal.
    LogNormal {
        /// The median, the exponential of the logarithm's mean.
        median: f64,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// The exponential distribution, which has no memory.
    Exponential {
        /// The mean, in the unit of the value.
        mean: f64,
    },
    /// Points of a distribution function.
    Empirical(Arc<Cdf>),
    /// These values in turn, and again from the first.
    Sequence(Arc<[f64]>),
}

/// Points of a distribution function, linear between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Cdf {
    label: String,
    /// Value and probability; both increase, and the last probability is 1.
    points: Vec<(f64, f64)>,
}

/// Built-in distribution functions of flow sizes.
pub const PUBLISHED: [Published; 2] = [
    Published {
        name: "web-search",
        what: "flows of a web-search cluster, mean 1.7 MB (Alizadeh et al., Data Center TCP, SIGCOMM 2010, figure 4)",
        points: &[
            (0.0, 0.0),
            (1e4, 0.15),
            (2e4, 0.2),
            (3e4, 0.3),
            (5e4, 0.4),
            (8e4, 0.53),
            (2e5, 0.6),
            (1e6, 0.7),
            (2e6, 0.8),
            (5e6, 0.9),
            (1e7, 0.97),
            (3e7, 1.0),
        ],
    },
    Published {
        name: "data-mining",
        what: "flows of a data-mining cluster, mean 12.6 MB (Greenberg et al., VL2, SIGCOMM 2009, figure 2)",
        points: &[
            (0.0, 0.0),
            (180.0, 0.1),
            (216.0, 0.2),
            (560.0, 0.3),
            (900.0, 0.4),
            (1100.0, 0.5),
            (1870.0, 0.6),
            (3160.0, 0.7),
            (1e4, 0.8),
            (4e5, 0.9),
            (3.16e6, 0.95),
            (1e8, 0.98),
            (1e9, 1.0),
        ],
    },
];

/// A published distribution function. The papers print curves; these are the points that traffic generators read
/// from them (`conf/DCTCP_CDF.txt` and `conf/VL2_CDF.txt` of HKUST-SING/TrafficGenerator; the first is also
/// `WebSearch_distribution.txt` of HPCC's simulator).
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its name in a scenario.
    pub name: &'static str,
    /// Its origin.
    pub what: &'static str,
    /// Sizes in bytes, and probabilities.
    pub points: &'static [(f64, f64)],
}

impl Published {
    /// Returns the distribution with this name as its label.
    pub fn distribution(&self) -> Distribution {
        Distribution::Empirical(Arc::new(Cdf { label: self.name.to_owned(), points: self.points.to_vec() }))
    }
}

impl Cdf {
    /// Parses points, one a line: a value and the probability of a value up to it, as a fraction or in
    /// percent. Empty lines and lines that begin with `#` are skipped. `label` identifies the distribution in
    /// a scenario's hash.
    ///
    /// # Errors
    /// With the number of the line, if it is not two numbers, if they do not increase, or if the last probability is
    /// neither 1 nor 100.
    pub fn parse(text: &str, label: &str) -> Result<Cdf, CdfError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut last_line = 0;
        for (number, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            last_line = number;
            let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
            let mut next = || words.next().and_then(|word| word.parse::<f64>().ok());
            let (Some(value), Some(probability), None) = (next(), next(), words.next()) else {
                return Err(CdfError { line: number, problem: "it is not a value and a probability" });
            };
            if !(value.is_finite() && value >= 0.0 && (0.0..=100.0).contains(&probability)) {
                return Err(CdfError {
                    line: number,
                    problem: "a number is negative, or a probability above 1",
                });
            }
            if points.last().is_some_and(|last| value < last.0 || probability < last.1) {
                return Err(CdfError { line: number, problem: "it is below the line before" });
            }
            points.push((value, probability));
        }
        let Some(&(greatest, whole)) = points.last() else {
            return Err(CdfError { line: 1, problem: "there is no point" });
        };
        if whole != 1.0 && whole != 100.0 {
            return Err(CdfError {
                line: last_line,
                problem: "the last probability is neither 1 nor 100 (percent)",
            });
        }
        if greatest == 0.0 {
            return Err(CdfError { line: last_line, problem: "all values are 0" });
        }
        points.iter_mut().for_each(|point| point.1 /= whole);
        Ok(Cdf { label: label.to_owned(), points })
    }

    /// Returns the name of the distribution for results.
    pub fn label(&self) -> &str {
        &self.label
    }

    fn quantile(&self, p: f64) -> f64 {
        let at = self.points.partition_point(|point| point.1 <= p);
        let Some(&(high, above)) = self.points.get(at) else { return self.points[self.points.len() - 1].0 };
        // The first point itself may have a mass.
        let Some(&(low, below)) = at.checked_sub(1).and_then(|at| self.points.get(at)) else { return high };
        low + (high - low) * (p - below) / (above - below)
    }

    fn mean(&self) -> f64 {
        let first = self.points[0];
        let parts = self.points.windows(2).map(|two| (two[1].1 - two[0].1) * (two[0].0 + two[1].0) / 2.0);
        first.0 * first.1 + parts.sum::<f64>()
    }
}

/// The fault of a file of points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CdfError {
    /// The line, from 1.
    pub line: usize,
    problem: &'static str,
}

impl fmt::Display for CdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for CdfError {}

impl Distribution {
    /// Returns the mean; infinite if there is none.
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Constant(value) => *value,
            Distribution::Uniform { min, max } => (min + max) / 2.0,
            &Distribution::Pareto { shape, min, max: None } => {
                if shape > 1.0 {
                    min * shape / (shape - 1.0)
                } else {
                    f64::INFINITY
                }
            }
            &Distribution::Pareto { shape, min, max: Some(max) } => bounded_pareto_mean(shape, min, max),
            Distribution::LogNormal { median, sigma } => median * libm::exp(sigma * sigma / 2.0),
            Distribution::Exponential { mean } => *mean,
            Distribution::Empirical(cdf) => cdf.mean(),
            Distribution::Sequence(values) => values.iter().sum::<f64>() / values.len().max(1) as f64,
        }
    }

    /// Returns the value that is not exceeded with probability `p`, which is at least 0 and below 1.
    pub fn quantile(&self, p: f64) -> f64 {
        match self {
            Distribution::Constant(value) => *value,
            Distribution::Uniform { min, max } => min + (max - min) * p,
            &Distribution::Pareto { shape, min, max } => {
                let mass = max.map_or(1.0, |max| 1.0 - libm::pow(min / max, shape));
                let value = min * libm::pow(1.0 - p * mass, -1.0 / shape);
                max.map_or(value, |max| value.min(max))
            }
            Distribution::LogNormal { median, sigma } => median * libm::exp(sigma * normal_quantile(p)),
            Distribution::Exponential { mean } => -libm::log(1.0 - p) * mean,
            Distribution::Empirical(cdf) => cdf.quantile(p),
            Distribution::Sequence(values) => {
                let mut sorted = values.to_vec();
                sorted.sort_unstable_by(f64::total_cmp);
                let at = (p * sorted.len() as f64) as usize;
                sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
            }
        }
    }

    /// Returns the value of draw number `n`, from 0, which takes one number of `stream`.
    pub fn draw(&self, n: u64, stream: &mut RandomStream) -> f64 {
        self.nth(n, stream.next_f64())
    }

    /// Returns the size of draw number `n`: a whole number of bytes, at least 1.
    pub fn draw_size(&self, n: u64, stream: &mut RandomStream) -> Bytes {
        self.nth_size(n, stream.next_f64())
    }

    /// Returns the value of draw number `n` with the number `p` of a stream.
    fn nth(&self, n: u64, p: f64) -> f64 {
        match self {
            Distribution::Sequence(values) => {
                values.get((n % values.len().max(1) as u64) as usize).copied().unwrap_or(0.0)
            }
            _ => self.quantile(p),
        }
    }

    /// Returns the size of draw number `n` with the number `p` of a stream: a whole number of bytes, at least 1.
    pub(crate) fn nth_size(&self, n: u64, p: f64) -> Bytes {
        Bytes((libm::round(self.nth(n, p)) as u64).max(1))
    }

    /// Returns the time of draw number `n`; values are nanoseconds.
    pub fn draw_time(&self, n: u64, stream: &mut RandomStream) -> Duration {
        Duration(libm::round(self.draw(n, stream)) as u64)
    }

    /// True if all parameters are finite, and the values neither negative nor always zero.
    pub fn is_valid(&self) -> bool {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        match *self {
            Distribution::Constant(value) => positive(value),
            Distribution::Uniform { min, max } => min >= 0.0 && max >= min && positive(max),
            Distribution::Pareto { shape, min, max } => {
                positive(shape) && positive(min) && max.is_none_or(|max| max.is_finite() && max > min)
            }
            Distribution::LogNormal { median, sigma } => {
                positive(median) && sigma.is_finite() && sigma >= 0.0
            }
            Distribution::Exponential { mean } => positive(mean),
            Distribution::Empirical(_) => true,
            Distribution::Sequence(ref values) => {
                values.iter().all(|value| value.is_finite() && *value >= 0.0)
                    && values.iter().any(|value| *value > 0.0)
            }
        }
    }
}

/// Returns the mean of a bounded Pareto distribution: the integral of x times the density, over the mass.
fn bounded_pareto_mean(shape: f64, low: f64, high: f64) -> f64 {
    let mass = 1.0 - libm::pow(low / high, shape);
    let integral = if (shape - 1.0).abs() < 1e-9 {
        low * libm::log(high / low)
    } else {
        shape / (shape - 1.0) * (low - high * libm::pow(low / high, shape))
    };
    integral / mass
}

/// Returns the quantile of the standard normal distribution (Wichura 1988, algorithm AS 241, PPND16), with a relative
/// error of about 1e-16.
fn normal_quantile(p: f64) -> f64 {
    let polynomial = |coefficients: &[f64], r: f64| coefficients.iter().rev().fold(0.0, |sum, c| sum * r + c);
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE.0, r) / polynomial(&CENTRE.1, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    // The least number that a stream returns is 0; the next is 2^-53.
    let r = libm::sqrt(-libm::log(tail.max(1e-17)));
    let (coefficients, r) = if r <= 5.0 { (&MIDDLE, r - 1.6) } else { (&FAR, r - 5.0) };
    let value = polynomial(&coefficients.0, r) / polynomial(&coefficients.1, r);
    if q < 0.0 { -value } else { value }
}

type Rational = ([f64; 8], [f64; 8]);

const CENTRE: Rational = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_545,
    ],
);

const MIDDLE: Rational = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_545,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);

const FAR: Rational = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288e-7,
    ],
    [
        1.0,
        0.599_832_206_555_887_9,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_7e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(Distribution, f64, f64)> {
        // Each with its mean and its 90th percentile, from the closed forms.
        let web = PUBLISHED[0].distribution();
        let mining = PUBLISHED[1].distribution();
        vec![
            (Distribution::Constant(5.0), 5.0, 5.0),
            (Distribution::Uniform { min: 2.0, max: 12.0 }, 7.0, 11.0),
            (Distribution::Exponential { mean: 3.0 }, 3.0, 3.0 * 10_f64.ln()),
            (Distribution::Pareto { shape: 2.5, min: 3.0, max: None }, 5.0, 3.0 * 10_f64.powf(0.4)),
            // Shape 1 between 1 and e: mean 1 / (1 - 1/e); the quantile is 1 / (1 - p (1 - 1/e)).
            (
                Distribution::Pareto { shape: 1.0, min: 1.0, max: Some(core::f64::consts::E) },
                1.581_976_706_869_326,
                1.0 / (1.0 - 0.9 * (1.0 - (-1_f64).exp())),
            ),
            // The 90th percentile of a standard normal variable is 1.2815515655446004.
            (
                Distribution::LogNormal { median: 4.0, sigma: 0.5 },
                4.0 * 0.125_f64.exp(),
                4.0 * (0.640_775_782_772_300_2_f64).exp(),
            ),
            (web, 1_711_250.0, 5e6),
            (mining, 12_620_000.0, 4e5),
        ]
    }

    #[test]
    fn means_and_quantiles_are_those_of_the_closed_forms() {
        for (distribution, mean, p90) in all() {
            let relative = |own: f64, other: f64| (own / other - 1.0).abs();
            assert!(relative(distribution.mean(), mean) < 5e-3, "{distribution:?}: {}", distribution.mean());
            assert!(relative(distribution.quantile(0.9), p90) < 1e-12, "{distribution:?}");
            // The mean is the integral of the quantile function.
            let n = 2_000_000;
            let sum: f64 = (0..n).map(|i| distribution.quantile((f64::from(i) + 0.5) / f64::from(n))).sum();
            assert!(relative(sum / f64::from(n), distribution.mean()) < 2e-3, "{distribution:?}");
            assert!(distribution.is_valid());
        }
    }

    #[test]
    fn draws_follow_the_distribution_function() {
        for (distribution, ..) in all() {
            let mut stream = RandomStream::new(5, "draws");
            let mut values: Vec<f64> = (0..20_000).map(|n| distribution.draw(n, &mut stream)).collect();
            values.sort_by(f64::total_cmp);
            for p in [0.1, 0.25, 0.5, 0.75, 0.9] {
                // Within five standard errors in probability.
                let at = values.partition_point(|value| *value < distribution.quantile(p)) as f64 / 20_000.0;
                let error = (p * (1.0 - p) / 20_000.0_f64).sqrt();
                let constant = matches!(distribution, Distribution::Constant(_));
                assert!(constant || (at - p).abs() < 5.0 * error, "{distribution:?} {p}: {at}");
            }
        }
    }

    #[test]
    fn a_sequence_has_its_values_in_turn_and_again() {
        let sequence = Distribution::Sequence([3e9, 0.0, 1.4].into());
        let mut stream = RandomStream::new(5, "draws");
        let drawn: Vec<f64> = (0..7).map(|n| sequence.draw(n, &mut stream)).collect();
        assert_eq!(drawn, [3e9, 0.0, 1.4, 3e9, 0.0, 1.4, 3e9]);
        // Each draw takes a number, as of any distribution.
        let mut other = RandomStream::new(5, "draws");
        for _ in 0..7 {
            other.next_f64();
        }
        assert_eq!(stream.next_u64(), other.next_u64());
        // A size of 0 bytes is none.
        let sizes: Vec<u64> = (0..3).map(|n| sequence.draw_size(n, &mut stream).0).collect();
        assert_eq!(sizes, [3_000_000_000, 1, 1]);
        assert_eq!(sequence.draw_time(u64::MAX, &mut stream), Duration::from_secs(3));
        assert_eq!([0.0, 0.5, 0.99].map(|p| sequence.quantile(p)), [0.0, 1.4, 3e9]);
        assert!((sequence.mean() - 1e9).abs() < 1.0 && sequence.is_valid());
    }

    #[test]
    fn a_sequence_of_nothing_is_none() {
        for values in [vec![], vec![0.0], vec![1.0, f64::NAN], vec![f64::INFINITY], vec![1.0, -1.0]] {
            let sequence = Distribution::Sequence(values.into());
            assert!(!sequence.is_valid());
            // It does no harm.
            let mut stream = RandomStream::new(5, "draws");
            let _ = (sequence.draw_size(1, &mut stream), sequence.quantile(0.5), sequence.mean());
        }
    }

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
            (1e-10, -6.361_340_902_404_056),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-12, "{p}: {}", normal_quantile(p));
        }
        assert!(normal_quantile(0.0).is_finite());
    }

    #[test]
    fn points_are_fractions_or_percent() {
        let fractions = Cdf::parse("# size p\n0 0\n100 0.5\n300 1\n", "x").unwrap();
        assert_eq!(Cdf::parse("0 0\n100\t50\n300, 100", "x").unwrap(), fractions);
        assert_eq!(
            (fractions.mean(), fractions.quantile(0.5), fractions.quantile(0.75)),
            (125.0, 100.0, 200.0)
        );
        // A mass at the first point.
        let atom = Cdf::parse("10 0.5\n20 1", "x").unwrap();
        assert_eq!((atom.mean(), atom.quantile(0.2), atom.quantile(0.75)), (12.5, 10.0, 15.0));
        for (text, line) in [
            ("", 1),
            ("1 0\n2", 2),
            ("1 0\n2 1 3", 2),
            ("1 0.5\n0 1", 2),
            ("1 0.5\n2 0.9", 2),
            ("-1 0\n2 1", 1),
            ("0 1", 1),
        ] {
            assert_eq!(Cdf::parse(text, "x").unwrap_err().line, line, "{text:?}");
        }
    }
}
