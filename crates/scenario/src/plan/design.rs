//! The designs of a sweep, which give each point coordinates from 0 to 1.

use anabranch_units::RandomStream;

/// The way in which points are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// All combinations of the values.
    #[default]
    Grid,
    /// Points drawn uniformly and independently.
    Random,
    /// Latin hypercube: with n points, each of n equal parts of every dimension has one (McKay, Beckman and Conover, 1979).
    LatinHypercube,
    /// The Sobol sequence with Owen's scrambling, which fills space evenly from its first point on (Burley, 2020).
    Sobol,
}

impl Design {
    /// All designs.
    pub const ALL: [Design; 4] = [Design::Grid, Design::Random, Design::LatinHypercube, Design::Sobol];
    /// The greatest number of points of a Sobol sequence here.
    pub const MOST_SOBOL: usize = 1 << 16;
    /// The greatest number of dimensions of a Sobol sequence here.
    pub const MOST_SOBOL_DIMENSIONS: usize = sobol_burley::NUM_DIMENSIONS as usize;

    /// Returns the name in a plan.
    pub const fn name(self) -> &'static str {
        match self {
            Design::Grid => "grid",
            Design::Random => "random",
            Design::LatinHypercube => "latin-hypercube",
            Design::Sobol => "sobol",
        }
    }

    /// Returns the coordinates of all `points` in `dimension`, each at least 0 and below 1. A grid has none.
    pub(super) fn coordinates(self, points: usize, dimension: usize, seed: u64) -> Vec<f64> {
        match self {
            Design::Grid => Vec::new(),
            Design::Random => {
                let mut stream = RandomStream::new(seed, &format!("sweep.random.{dimension}"));
                (0..points).map(|_| stream.next_f64()).collect()
            }
            Design::LatinHypercube => {
                let mut stream = RandomStream::new(seed, &format!("sweep.latin-hypercube.{dimension}"));
                let mut parts: Vec<usize> = (0..points).collect();
                stream.shuffle(&mut parts);
                parts.iter().map(|part| (*part as f64 + stream.next_f64()) / points as f64).collect()
            }
            Design::Sobol => {
                // The library takes 32 bits of seed.
                let seed = RandomStream::new(seed, "sweep.sobol").next_u32();
                (0..points as u32)
                    .map(|point| f64::from(sobol_burley::sample(point, dimension as u32, seed)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: [Design; 3] = [Design::Random, Design::LatinHypercube, Design::Sobol];

    #[test]
    fn coordinates_are_uniform_and_depend_on_the_seed() {
        for design in DRAWN {
            for dimension in 0..3 {
                let values = design.coordinates(1024, dimension, 7);
                assert_eq!(values, design.coordinates(1024, dimension, 7));
                assert_ne!(values, design.coordinates(1024, dimension, 8), "{design:?}");
                assert_ne!(values, design.coordinates(1024, dimension + 1, 7), "{design:?}");
                assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
                let below = values.iter().filter(|value| **value < 0.25).count();
                // 256 are expected; for independent draws the standard deviation is 14.
                assert!((186..=326).contains(&below), "{design:?}: {below} of 1024 below a quarter");
            }
        }
    }

    #[test]
    fn latin_hypercube_and_sobol_have_one_point_in_each_part() {
        for design in [Design::LatinHypercube, Design::Sobol] {
            let mut parts: Vec<usize> =
                design.coordinates(64, 2, 1).iter().map(|value| (value * 64.0) as usize).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..64).collect::<Vec<_>>(), "{design:?}");
            // The place within a part is drawn.
            let within = design.coordinates(64, 2, 1).into_iter().map(|value| (value * 64.0).fract());
            let in_first_half = within.filter(|place| *place < 0.5).count();
            assert!((16..=48).contains(&in_first_half), "{design:?}: {in_first_half}");
        }
    }

    #[test]
    fn sobol_fills_the_square_more_evenly_than_chance() {
        // The greatest error of the share of points in boxes from the origin.
        let discrepancy = |design: Design| {
            let (x, y) = (design.coordinates(256, 0, 3), design.coordinates(256, 1, 3));
            let corner = |a: f64, b: f64| {
                let inside = x.iter().zip(&y).filter(|(x, y)| **x < a && **y < b).count();
                (inside as f64 / 256.0 - a * b).abs()
            };
            let tenths = || (1..=10).map(|part| f64::from(part) / 10.0);
            tenths().flat_map(|a| tenths().map(move |b| corner(a, b))).fold(0.0, f64::max)
        };
        assert!(discrepancy(Design::Sobol) < 0.5 * discrepancy(Design::Random));
    }
}
