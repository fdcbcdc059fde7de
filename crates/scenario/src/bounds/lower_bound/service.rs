//! The maximum that a link carries in a span of time.

use std::sync::Arc;

use anabranch_link::{Capacity, Change, LinkConfig, TokenBucket, Trace};
use anabranch_units::{Duration, Rate, Time};

use super::at_least;

/// The longest packet, which may exceed the burst of a shaper.
const LONGEST_PACKET: u64 = 65_535;

/// The maximum that the links of a route carry.
#[derive(Clone, Debug)]
pub(super) enum Service {
    /// A constant rate.
    Rate(Rate),
    /// A token bucket, and the rate within a burst.
    Bucket { peak: Rate, bucket: TokenBucket },
    /// Traces one after the other, each with the time during which it applies.
    Traces(Vec<(Arc<Envelope>, u64)>),
}

impl Service {
    /// Returns the greatest rate, if it is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self {
            Service::Rate(rate) | Service::Bucket { peak: rate, .. } => Some(*rate),
            Service::Traces(_) => None,
        }
    }

    /// Returns the rate of a link that is followed without gaps, in bit/s.
    pub(super) fn mean_bps(&self) -> f64 {
        match self {
            Service::Rate(rate) => rate.as_bps_f64(),
            Service::Bucket { peak, bucket } => (*peak).min(bucket.rate).as_bps_f64(),
            Service::Traces(phases) => phases
                .iter()
                .map(|(envelope, _)| envelope.bytes_per_period as f64 * 8e9 / envelope.period as f64)
                .fold(0.0, f64::max),
        }
    }

    /// Returns the service of a route with this greatest rate that has a token bucket.
    pub(super) fn limited<'a>(rate: Rate, links: impl Iterator<Item = &'a LinkConfig>) -> Service {
        let buckets = links.flat_map(|config| [config.policer, config.shaper]).flatten();
        match buckets.min_by_key(|bucket| bucket.rate) {
            Some(bucket) => {
                // A packet longer than the bucket passes a shaper, which then pays its debt.
                let burst = bucket.burst.max(LONGEST_PACKET);
                Service::Bucket { peak: rate, bucket: TokenBucket { burst, ..bucket } }
            }
            None => Service::Rate(rate),
        }
    }

    /// Returns the service of a link with a trace; `envelope` returns the envelope of each trace.
    pub(super) fn traced(
        config: &LinkConfig,
        mut envelope: impl FnMut(&Arc<Trace>) -> Arc<Envelope>,
    ) -> Option<Service> {
        let Capacity::Trace { trace, .. } = &config.capacity else { return None };
        let later = config.timeline.iter().filter_map(|step| match &step.change {
            Change::Trace { trace, .. } => Some((step.at, trace)),
            _ => None,
        });
        let all: Vec<(Time, &Arc<Trace>)> = core::iter::once((Time::ZERO, trace)).chain(later).collect();
        let ends = all[1..].iter().map(|(at, _)| *at).chain([Time::NEVER]);
        let phases = all.iter().zip(ends).map(|((at, trace), end)| (envelope(trace), end.since(*at).0));
        Some(Service::Traces(phases.collect()))
    }

    /// Returns the maximum of bytes in any span of this length.
    pub(super) fn most_service(&self, span: u64) -> u64 {
        match self {
            Service::Rate(rate) => rate.bytes_in(Duration(span)),
            Service::Bucket { peak, bucket } => {
                peak.bytes_in(Duration(span)).min(bucket.most_in(Duration(span)))
            }
            // The span may begin in any of them.
            Service::Traces(phases) => phases
                .iter()
                .map(|(envelope, lasts)| envelope.most_service(span.min(*lasts)))
                .fold(0, u64::saturating_add),
        }
    }

    /// Returns the least length of a span that carries `bytes`, or less.
    pub(super) fn least_span(&self, bytes: u64) -> u64 {
        match self {
            Service::Rate(rate) => at_least(*rate, bytes),
            Service::Bucket { peak, bucket } => {
                let beyond = bytes.saturating_sub(bucket.burst + 1);
                at_least(*peak, bytes).max(at_least(bucket.rate, beyond))
            }
            Service::Traces(phases) => match phases.as_slice() {
                [(envelope, _)] => envelope.least_span(bytes),
                _ => self.search(bytes),
            },
        }
    }

    /// Finds the longest span that carries less than `bytes`, by bisection.
    fn search(&self, bytes: u64) -> u64 {
        let (mut low, mut high) = (0, 1 << 20);
        while self.most_service(high) < bytes {
            low = high;
            high = match high.checked_mul(2) {
                Some(high) => high,
                None => return u64::MAX,
            };
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.most_service(middle) < bytes { low = middle } else { high = middle }
        }
        low
    }
}

/// The maximum that a trace carries in a span of each length.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    /// Spans in nanoseconds, ascending, and the maximum of bytes in any such span.
    points: Vec<(u64, u64)>,
    period: u64,
    bytes_per_period: u64,
}

impl Envelope {
    pub(super) fn new(trace: &Trace) -> Envelope {
        let period = trace.period().0;
        // Every millisecond at first, then steps of 8 %: a lower bound may be slightly too low.
        let mut points = Vec::new();
        let mut span = 0;
        while span < period {
            points.push((span, trace.max_service(Duration(span))));
            span += 1_000_000.max(span / 12 / 1_000_000 * 1_000_000);
        }
        Envelope { points, period, bytes_per_period: trace.opportunities() as u64 * Trace::OPPORTUNITY_BYTES }
    }

    /// Returns the maximum of bytes in any span of this length.
    pub(super) fn most_service(&self, span: u64) -> u64 {
        let (periods, rest) = (span / self.period, span % self.period);
        // The next point up, which is never too little.
        let next = self.points.partition_point(|point| point.0 < rest);
        let bytes = self.points.get(next).map_or(self.bytes_per_period, |point| point.1);
        bytes.saturating_add(periods.saturating_mul(self.bytes_per_period))
    }

    /// Returns the least length of a span that carries `bytes`.
    pub(super) fn least_span(&self, bytes: u64) -> u64 {
        // A whole period carries the same wherever it starts.
        let periods = bytes.saturating_sub(1) / self.bytes_per_period;
        let rest = bytes - periods * self.bytes_per_period;
        let enough = self.points.partition_point(|point| point.1 < rest);
        let span = enough.checked_sub(1).map_or(0, |before| self.points[before].0);
        periods.saturating_mul(self.period).saturating_add(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_its_rate_after_its_burst() {
        let bucket = TokenBucket { rate: Rate::from_mbps(8), burst: 100_000 };
        let service = Service::limited(
            Rate::from_mbps(80),
            [LinkConfig { shaper: Some(bucket), ..LinkConfig::default() }].iter(),
        );
        // 10 bytes a microsecond up to about 111 kB, then 1.
        assert_eq!(service.least_span(50_000), 5_000_000);
        assert_eq!(service.least_span(1_100_001), 1_000_000_000);
        for bytes in [1, 1_000, 100_000, 111_112, 1_000_000, 77_777_777] {
            let span = service.least_span(bytes);
            assert!(service.most_service(span + 2_000) >= bytes, "{bytes}");
            assert!(span < 2_000 || service.most_service(span - 2_000) < bytes, "{bytes}");
        }
    }

    #[test]
    fn traces_add_up_to_at_most_their_times() {
        let slow = Arc::new(Envelope::new(&Trace::from_millis(vec![10]).unwrap()));
        let fast = Arc::new(Envelope::new(&Trace::from_millis(vec![1]).unwrap()));
        let service = Service::Traces(vec![(slow, 100_000_000), (fast, u64::MAX)]);
        let second = service.most_service(1_000_000_000);
        // 10 to 11 packets of the first, 1000 to 1001 of the second.
        assert!((1_010 * 1500..=1_013 * 1500).contains(&second), "{second}");
        for bytes in [1, 1500, 20_000, 2_000_000] {
            let span = service.least_span(bytes);
            assert!(service.most_service(span) < bytes && service.most_service(span + 1) >= bytes);
        }
    }
}
