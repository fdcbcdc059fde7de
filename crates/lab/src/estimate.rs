//! On which path a host would start, from what it can know beforehand.
//!
//! `initial = "best"` takes the path with the least *estimate*: the expected completion time of a flow of the mean
//! size that has the path to itself. A host can know what that needs from earlier connections: round trip,
//! rate and loss of each path. Nothing of it is measured in runs of the comparison.
//!
//! Up to its first loss the flow follows the ideal TCP of the lower bound: the handshake, slow start, the rate of the
//! link. What is left then is carried at the rate of the link, or at the rate that the congestion
//! control sustains under this loss if that is less: a window of sqrt(3/2p) segments each round trip (Mathis et al.
//! 1997), for CUBIC at least 1.054 (RTT/p)^(3/4) (RFC 9438 section 5.1, C = 0.4, beta = 0.7).

use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::Duration;

use crate::lower_bound::Limits;
use crate::scenario::{Capacity, Experiment, Jitter, LossModel, Path};

/// The estimate of each path for connections of this configuration.
pub fn estimates(experiment: &Experiment, config: &ConnectionConfig) -> Vec<Duration> {
    let remembered =
        Experiment { paths: experiment.paths.iter().map(remembered).collect(), ..experiment.clone() };
    let limits = Limits::new(&remembered);
    let common = remembered.common.as_ref();
    let rate = |path: &Path| {
        let rate = path.down.mean_rate().as_bps_f64();
        common.map_or(rate, |common| rate.min(common.rate.as_bps_f64()))
    };
    let fastest = remembered.paths.iter().map(rate).fold(1.0, f64::max);
    // Bulk counts as what the fastest path carries in its time.
    let bulk = fastest / 8.0 * remembered.traffic.duration.as_secs_f64();
    let size = remembered.traffic.size.mean().unwrap_or(bulk).max(1.0);
    let mss = f64::from(config.mss);
    let estimate = |(position, path): (usize, &Path)| {
        let passes =
            (1.0 - mean_loss(&path.loss)) * common.map_or(1.0, |common| 1.0 - mean_loss(&common.loss));
        let loss = 1.0 - passes;
        if loss >= 1.0 {
            return Duration(u64::MAX);
        }
        let segments = (size / mss).ceil();
        // The expected number of segments up to the first loss.
        let clean = if loss > 0.0 { (1.0 - passes.powf(segments)) / loss } else { segments };
        let begin = size.min((clean * mss).ceil());
        let rtt = (path.rtt + common.map_or(Duration::ZERO, |common| common.rtt)).as_secs_f64();
        let payload = mss / (mss + f64::from(Limits::headers(config)));
        let sustained = window(&config.congestion, loss, rtt) * mss * 8.0 / rtt.max(1e-6);
        let rest = (size - begin) * 8.0 / (rate(path) * payload).min(sustained);
        limits.one_path(config, position).completion(begin as u64) + Duration::from_secs_f64(rest.min(1e9))
    };
    remembered.paths.iter().enumerate().map(estimate).collect()
}

/// The path with the least estimate, the first of several; a backup only where there is nothing else.
pub fn best(experiment: &Experiment, config: &ConnectionConfig) -> usize {
    let estimates = estimates(experiment, config);
    let paths = 0..experiment.paths.len();
    paths.min_by_key(|path| (experiment.paths[*path].backup, estimates[*path])).unwrap_or(0)
}

/// The path as earlier connections have found it: its mean rate and mean round trip, without what happens later.
fn remembered(path: &Path) -> Path {
    let later = match path.jitter {
        None => Duration::ZERO,
        Some(Jitter::Uniform { max, .. }) => max / 2,
        Some(Jitter::Normal { mean, .. }) => mean,
    };
    Path {
        down: Capacity::Rate(path.down.mean_rate()),
        up: Capacity::Rate(path.up.mean_rate()),
        rtt: path.rtt + later,
        jitter: None,
        reorder: None,
        duplicate: 0.0,
        changes: Vec::new(),
        ..path.clone()
    }
}

/// The share of packets that are lost in the long run.
fn mean_loss(model: &LossModel) -> f64 {
    match model {
        LossModel::Bernoulli(p) => *p,
        LossModel::GilbertElliott { mean_good, mean_bad, loss_good, loss_bad } => {
            let (good, bad) = (mean_good.as_secs_f64(), mean_bad.as_secs_f64());
            (good * loss_good + bad * loss_bad) / (good + bad)
        }
    }
}

/// The mean window in segments that the congestion control sustains under this loss; BBR does not mind.
fn window(congestion: &CongestionKind, loss: f64, rtt: f64) -> f64 {
    if loss <= 0.0 || matches!(congestion, CongestionKind::Bbr(_)) {
        return f64::INFINITY;
    }
    let reno = (1.5 / loss).sqrt().max(1.0);
    match congestion.name().starts_with("cubic") {
        true => reno.max(1.054 * (rtt / loss).powf(0.75)),
        false => reno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    /// The estimates in milliseconds, and the best path.
    fn of(text: &str) -> (Vec<f64>, usize) {
        let scenario = Document::parse("test", text, ".").unwrap().scenario().unwrap();
        let condition = &scenario.conditions[0];
        let estimates = estimates(&condition.experiment, &condition.base);
        let millis = estimates.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        (millis, best(&condition.experiment, &condition.base))
    }

    #[test]
    fn short_flows_start_on_the_near_path_and_long_ones_on_the_fast_one() {
        let paths = "path = [{ rate = '10 Mbit/s', rtt = '10 ms' }, { rate = '100 Mbit/s', rtt = '60 ms' }]";
        assert_eq!(of(&format!("{paths}\ntraffic.size = '10 KB'")).1, 0);
        assert_eq!(of(&format!("{paths}\ntraffic.size = '10 MB'")).1, 1);
        assert_eq!(of(&format!("{paths}\ntraffic.size = 'bulk'")).1, 1);
    }

    /// Without loss it is the lower bound of a TCP alone: 1 MB at 10 Mbit/s takes 0.85 s, and three round trips.
    #[test]
    fn without_loss_it_is_the_lower_bound() {
        let (clean, _) = of("path = [{ rate = '10 Mbit/s', rtt = '20 ms' }]\ntraffic.size = '1 MB'");
        assert!((clean[0] - 880.0).abs() < 20.0, "{clean:?}");
    }

    /// 3 % of loss at 100 ms leave windows of 7 segments: 0.8 Mbit/s of 50.
    #[test]
    fn loss_slows_down_what_follows_the_first() {
        let (times, best) = of("path = [{ rate = '50 Mbit/s', rtt = '100 ms', loss = '3%' }, { rate = '2 Mbit/s', rtt = '100 ms' }]
             traffic.size = '2 MB'");
        assert!(times[0] > 15_000.0 && times[0] < 25_000.0 && best == 1, "{times:?}");
        // Bursts count as their mean.
        let (bursts, _) = of("path = [{ rate = '50 Mbit/s', rtt = '100 ms',
                gilbert-elliott = { mean-good = '970 ms', mean-bad = '30 ms', loss-bad = 1 } }]\ntraffic.size = '2 MB'");
        assert!((bursts[0] - times[0]).abs() < 1.0, "{bursts:?} {times:?}");
    }

    #[test]
    fn a_trace_counts_with_its_mean_rate_and_a_backup_comes_last() {
        let trace = "trace = '../../scenarios/traces/synthetic-lte.down', rtt = '20 ms'";
        let (times, best) = of(&format!(
            "path = [{{ {trace}, backup = true }}, {{ rate = '1 Mbit/s', rtt = '90 ms' }}]\ntraffic.size = '1 MB'"
        ));
        assert!(times[0] < times[1] && best == 1, "{times:?}");
    }
}
