//! Groups subflows by bottleneck (RFC 8382 section 3.3.1).

use super::{SbdOptions, Summary};

/// A subflow with a bottleneck on its path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bottleneck {
    /// The index of the subflow.
    pub index: u8,
    /// Its measurements.
    pub summary: Summary,
    pub group: u32,
}

/// Divides `paths` into groups, by one estimate after the other: sorted by the estimate, a group ends where
/// two neighbours differ too much.
pub(super) fn group(paths: &mut [Bottleneck], options: &SbdOptions) {
    let fixed = |threshold: f64| move |higher: f64, lower: f64| higher - lower >= threshold;
    let relative =
        |part: f64| move |higher: f64, lower: f64| higher - lower >= part * higher && higher > lower;
    split(paths, |summary| summary.oscillation, fixed(options.p_f));
    split(paths, |summary| summary.variation, relative(options.p_mad));
    split(paths, |summary| summary.skew, fixed(options.p_s));
    let p_l = options.p_l;
    let lossy = move |summary: &Summary| if summary.loss > p_l { summary.loss } else { 0.0 };
    split(paths, lossy, relative(options.p_d));
}

/// Divides each group by `estimate`; `differ` compares a higher with the next lower one.
fn split(paths: &mut [Bottleneck], estimate: impl Fn(&Summary) -> f64, differ: impl Fn(f64, f64) -> bool) {
    let by_group_and_estimate = |one: &Bottleneck, other: &Bottleneck| {
        let (first, second) = (estimate(&one.summary), estimate(&other.summary));
        (one.group.cmp(&other.group)).then(second.total_cmp(&first)).then(one.index.cmp(&other.index))
    };
    paths.sort_unstable_by(by_group_and_estimate);
    let (mut number, mut before) = (0, None);
    for path in paths {
        let own = estimate(&path.summary);
        if let Some((group, higher)) = before
            && (group != path.group || differ(higher, own))
        {
            number += 1;
        }
        before = Some((path.group, own));
        path.group = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(summaries: &[Summary]) -> Vec<u32> {
        let mut paths: Vec<_> = summaries
            .iter()
            .enumerate()
            .map(|(at, summary)| Bottleneck { index: at as u8, summary: *summary, group: 0 })
            .collect();
        group(&mut paths, &SbdOptions::DEFAULT);
        paths.sort_by_key(|path| path.index);
        paths.iter().map(|path| path.group).collect()
    }

    fn summary(oscillation: f64, variation: f64, skew: f64, loss: f64) -> Summary {
        Summary { oscillation, variation, skew, loss, sampled: true }
    }

    #[test]
    fn equal_ones_are_together() {
        assert_eq!(groups(&[summary(0.3, 900.0, 0.0, 0.0); 3]), [0, 0, 0]);
    }

    #[test]
    fn each_estimate_divides() {
        let base = summary(0.3, 900.0, 0.0, 0.2);
        for (other, apart) in [
            (summary(0.41, 900.0, 0.0, 0.2), true),
            (summary(0.39, 900.0, 0.0, 0.2), false),
            (summary(0.3, 1001.0, 0.0, 0.2), true),
            (summary(0.3, 990.0, 0.0, 0.2), false),
            (summary(0.3, 900.0, -0.16, 0.2), true),
            (summary(0.3, 900.0, -0.14, 0.2), false),
            (summary(0.3, 900.0, 0.0, 0.23), true),
            (summary(0.3, 900.0, 0.0, 0.21), false),
            (summary(0.3, 900.0, 0.0, 0.01), true),
        ] {
            let groups = groups(&[base, other]);
            assert_eq!(groups[0] != groups[1], apart, "{other:?}");
        }
        // Losses below the threshold divide no group.
        assert_eq!(groups(&[summary(0.3, 900.0, 0.0, 0.01), summary(0.3, 900.0, 0.0, 0.09)]), [0, 0]);
    }

    #[test]
    fn neighbours_keep_a_group_together_whose_ends_differ() {
        let with = |variation| summary(0.3, variation, 0.0, 0.0);
        let chain = groups(&[with(1000.0), with(850.0), with(930.0), with(400.0)]);
        assert!(chain[0] == chain[1] && chain[1] == chain[2] && chain[3] != chain[0]);
    }
}
