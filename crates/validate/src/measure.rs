//! The measurements of a run, and the metrics that are compared.

use anabranch_lab::stats::percentile;
use anabranch_sim::AppReport;
use anabranch_sim::application::{Burst, Exchange};
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

use crate::points::Point;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// In virtual time.
    Simulated,
    /// In real time, with anabranch at both ends.
    Emulated,
    /// In real time, with the kernel at both ends.
    Kernel,
}

impl Kind {
    /// Returns the word of tables and JSON, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Simulated => "simulated",
            Kind::Emulated => "emulated",
            Kind::Kernel => "kernel",
        }
    }
}

/// The measurements of one run, or of one of its transfers. Lists have an entry for each path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The time from the first SYN to the last byte delivered in order, or to the end of an infinite
    /// transfer, in seconds; none if the deadline was missed. The mean of several transfers, none if one of
    /// them has none.
    pub time_s: Option<f64>,
    /// The 95th percentile of that; none for fewer than 20 transfers.
    pub p95_s: Option<f64>,
    /// Bytes delivered in order.
    pub delivered: u64,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Data segments retransmitted on the same subflow.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Bytes received over each path; the kernel counts bytes received over two paths for both.
    pub bytes_by_path: Vec<u64>,
    /// The sender's smoothed RTT at the end, in seconds; empty for several transfers.
    pub srtt_s: Vec<Option<f64>>,
    /// The largest payload of a segment.
    pub mss: Vec<u32>,
    /// Connections of the kernel that have fallen back to TCP. Their bytes count for the first subflow's path.
    pub fallbacks: u64,
    /// The longest gap in delivery, in seconds; the longest of several flows.
    pub longest_gap_s: Option<f64>,
    /// The mean time from a request to the end of its response, in seconds.
    pub response_s: Option<f64>,
    /// The mean time from the last write of a period of sending to the delivery of all of it, in seconds.
    pub lateness_s: Option<f64>,
    /// The time that a viewer waits: that until playback starts, and all stalls, in seconds.
    pub waiting_s: Option<f64>,
    /// The mean one-way delay of datagrams, in seconds.
    pub datagram_delay_s: Option<f64>,
    /// The share of datagrams that were lost.
    pub datagrams_lost: Option<f64>,
    /// The position of the class of traffic.
    pub class: usize,
    /// The other classes of a run.
    pub others: Vec<Measured>,
}

/// The measurements of a transfer at its receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// As in [`Measured`].
    pub(crate) time_s: Option<f64>,
    /// As in [`Measured`].
    pub(crate) delivered: u64,
    /// As in [`Measured`].
    pub(crate) bytes_by_path: Vec<u64>,
    /// As in [`Measured`].
    pub(crate) longest_gap_s: Option<f64>,
}

impl Received {
    /// Returns the measurements of both ends.
    pub(crate) fn with(self, sent: Measured) -> Measured {
        let Received { time_s, delivered, bytes_by_path, longest_gap_s } = self;
        Measured { time_s, delivered, bytes_by_path, longest_gap_s, ..sent }
    }
}

/// The measurements of one end of a transfer.
pub(crate) enum Part {
    /// The sender's.
    Sent(Box<Measured>),
    /// The receiver's.
    Received(Received),
}

impl Measured {
    /// Returns the measurements of a run from the measurements of its flows: times are means, counts are sums. The
    /// flows of `main` come first, and the other classes are in [`Measured::others`].
    pub(crate) fn by_class(flows: Vec<Measured>, main: usize) -> Measured {
        let mut classes: Vec<Vec<Measured>> = Vec::new();
        for flow in flows {
            match classes.iter_mut().find(|own| own[0].class == flow.class) {
                Some(own) => own.push(flow),
                None => classes.push(vec![flow]),
            }
        }
        classes.sort_by_key(|own| (own[0].class != main, own[0].class));
        let mut all = classes.into_iter().map(Measured::together);
        let first = all.next().unwrap_or_default();
        Measured { others: all.collect(), ..first }
    }

    /// Returns the measurements of a run from the measurements of its transfers, `flows`: times are means, counts
    /// are sums.
    pub fn together(mut flows: Vec<Measured>) -> Measured {
        if flows.len() == 1 {
            return flows.remove(0);
        }
        let times: Option<Vec<f64>> = flows.iter().map(|flow| flow.time_s).collect();
        let mut times = times.unwrap_or_default();
        times.sort_unstable_by(f64::total_cmp);
        let paths = flows.iter().map(|flow| flow.bytes_by_path.len()).max().unwrap_or(0);
        // The mean; none if a flow has none.
        let mean = |of: fn(&Measured) -> Option<f64>| {
            let values: Option<Vec<f64>> = flows.iter().map(of).collect();
            anabranch_lab::stats::mean(&values.unwrap_or_default())
        };
        let mut all = Measured {
            time_s: (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64),
            p95_s: percentile(&times, 95.0),
            bytes_by_path: vec![0; paths],
            mss: vec![0; paths],
            longest_gap_s: flows.iter().filter_map(|flow| flow.longest_gap_s).reduce(f64::max),
            response_s: mean(|flow| flow.response_s),
            lateness_s: mean(|flow| flow.lateness_s),
            waiting_s: mean(|flow| flow.waiting_s),
            datagram_delay_s: mean(|flow| flow.datagram_delay_s),
            datagrams_lost: mean(|flow| flow.datagrams_lost),
            class: flows.first().map_or(0, |flow| flow.class),
            ..Measured::default()
        };
        for flow in flows {
            all.delivered += flow.delivered;
            all.segments += flow.segments;
            all.retransmitted += flow.retransmitted;
            all.timeouts += flow.timeouts;
            all.fallbacks += flow.fallbacks;
            for (sum, bytes) in all.bytes_by_path.iter_mut().zip(flow.bytes_by_path) {
                *sum += bytes;
            }
            for (most, mss) in all.mss.iter_mut().zip(flow.mss) {
                *most = mss.max(*most);
            }
        }
        all
    }

    /// Adds the results of an application.
    pub(crate) fn note_app(&mut self, report: &AppReport) {
        let mean = |times: Option<Vec<f64>>| anabranch_lab::stats::mean(&times.unwrap_or_default());
        match report {
            AppReport::Transfer => {}
            AppReport::Requests(log) => {
                let time = |own: &Exchange| own.time.map(|time| time.as_secs_f64());
                self.response_s = mean(log.iter().map(time).collect());
            }
            AppReport::OnOff(bursts) => {
                let delay = |own: &Burst| own.delay.map(|delay| delay.as_secs_f64());
                self.lateness_s = mean(bursts.iter().map(delay).collect());
            }
            AppReport::Video(video) => {
                let waits = |startup: Duration| startup.as_secs_f64() + video.stalled.as_secs_f64();
                self.waiting_s = video.startup.map(waits);
            }
            AppReport::Datagrams(datagrams) => {
                self.datagram_delay_s = datagrams.delay_mean_s;
                let lost = datagrams.sent.saturating_sub(datagrams.received);
                self.datagrams_lost = (datagrams.sent > 0).then(|| lost as f64 / datagrams.sent as f64);
            }
        }
    }

    /// Returns the measurements of a class; none if it has none.
    pub fn of_class(&self, class: usize) -> Option<&Measured> {
        [self].into_iter().chain(&self.others).find(|own| own.class == class)
    }
}

/// The punctuality of a run in real time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// The median lateness of packets in microseconds; the worse of the two directions.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// Packets lost outside of the links.
    pub lost: u64,
}

/// The largest permitted median lateness, as a fraction of the shortest round-trip time.
const P50_SHARE: f64 = 0.01;
/// The largest permitted 99th percentile, as a fraction of the same.
const P99_SHARE: f64 = 0.1;
/// The largest permitted 99th percentile for any round-trip time, in microseconds.
const P99_MOST_US: f64 = 3000.0;

impl Quality {
    /// Returns the reason that the run is unreliable, for the shortest round-trip time `rtt`; none if it is
    /// reliable.
    pub fn objection(&self, rtt: Duration) -> Option<String> {
        let rtt_us = rtt.as_secs_f64() * 1e6;
        let p99 = (P99_SHARE * rtt_us).min(P99_MOST_US);
        let p50 = (P50_SHARE * rtt_us).min(p99);
        if self.lost > 0 {
            Some(format!("{} packets were lost outside of the links", self.lost))
        } else if self.p50_us > p50 {
            Some(format!(
                "half of the packets were at least {:.0} us late; the limit is {p50:.0}",
                self.p50_us
            ))
        } else if self.p99_us > p99 {
            Some(format!(
                "1 % of the packets were at least {:.0} us late; the limit is {p99:.0}",
                self.p99_us
            ))
        } else {
            None
        }
    }
}

/// A measure of a run, by which two kinds of runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The time from the first SYN to the last byte delivered, in seconds; the mean of several transfers.
    CompletionTime,
    /// The 95th percentile of that, of 20 transfers or more.
    CompletionTimeP95,
    /// The goodput of an infinite transfer: unique bytes over its time, in bits per second.
    Goodput,
    /// Data segments retransmitted on the same subflow.
    Retransmissions,
    /// Retransmission timeouts.
    Timeouts,
    /// The fraction of the bytes received over the first path, 0 to 1.
    Share,
    /// The sender's smoothed RTT at the end, relative to that without load; for several paths the mean,
    /// weighted by bytes.
    RttInflation,
    /// The longest gap in delivery of a transfer or an on/off sender, in seconds.
    LongestGap,
    /// The mean time from a request to the end of its response, in seconds.
    ResponseTime,
    /// The mean lateness of the end of a period of sending, in seconds.
    Lateness,
    /// The time until playback starts and all stalls, in seconds.
    Waiting,
    /// The mean one-way delay of datagrams, in seconds.
    DatagramDelay,
    /// The share of datagrams lost, 0 to 1.
    DatagramLoss,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 13] = [
        Metric::CompletionTime,
        Metric::CompletionTimeP95,
        Metric::Goodput,
        Metric::ResponseTime,
        Metric::Lateness,
        Metric::Waiting,
        Metric::DatagramDelay,
        Metric::DatagramLoss,
        Metric::LongestGap,
        Metric::Retransmissions,
        Metric::Timeouts,
        Metric::Share,
        Metric::RttInflation,
    ];

    /// Returns its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::CompletionTime => "completion_time",
            Metric::CompletionTimeP95 => "completion_time_p95",
            Metric::Goodput => "goodput",
            Metric::Retransmissions => "retransmissions",
            Metric::Timeouts => "timeouts",
            Metric::Share => "share",
            Metric::RttInflation => "rtt_inflation",
            Metric::LongestGap => "longest_gap",
            Metric::ResponseTime => "response_time",
            Metric::Lateness => "lateness",
            Metric::Waiting => "waiting",
            Metric::DatagramDelay => "datagram_delay",
            Metric::DatagramLoss => "datagram_loss",
        }
    }

    /// Returns the metric of that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// True for the one main metric of each class of traffic, which summaries count.
    pub const fn is_main(self) -> bool {
        matches!(
            self,
            Metric::CompletionTime
                | Metric::Goodput
                | Metric::ResponseTime
                | Metric::Lateness
                | Metric::Waiting
                | Metric::DatagramDelay
        )
    }

    /// Returns the smallest reference: a difference is given in per cent of the reference, or of this value
    /// if the reference is smaller. One segment in 20, and one timeout in 20 transfers, are 5 %; shares are
    /// given in points; 5 ms of a gap below 100 ms are 5 %.
    pub const fn floor(self) -> f64 {
        match self {
            Metric::CompletionTime
            | Metric::CompletionTimeP95
            | Metric::Goodput
            | Metric::RttInflation
            | Metric::ResponseTime
            | Metric::Lateness
            | Metric::Waiting
            | Metric::DatagramDelay => 0.0,
            Metric::LongestGap => 0.1,
            Metric::Retransmissions => 20.0,
            Metric::Timeouts | Metric::Share | Metric::DatagramLoss => 1.0,
        }
    }

    /// Returns its value in a run of `point`; none if it does not apply.
    pub fn of(self, point: &Point, measured: &Measured) -> Option<f64> {
        let time = measured.time_s?;
        let total: u64 = measured.bytes_by_path.iter().sum();
        let transfer = point.transfers(measured.class);
        // The kernel forgets the counters of subflows that it removes with an address.
        let counts_all = point.experiment().signals().is_empty();
        match self {
            Metric::CompletionTime => (transfer == Some(true)).then_some(time),
            Metric::CompletionTimeP95 => measured.p95_s.filter(|_| transfer == Some(true)),
            Metric::Goodput => (transfer == Some(false)).then(|| measured.delivered as f64 * 8.0 / time),
            Metric::ResponseTime => measured.response_s,
            Metric::Lateness => measured.lateness_s,
            Metric::Waiting => measured.waiting_s,
            Metric::DatagramDelay => measured.datagram_delay_s,
            Metric::DatagramLoss => measured.datagrams_lost,
            Metric::LongestGap => {
                measured.longest_gap_s.filter(|_| transfer.is_some() || measured.lateness_s.is_some())
            }
            _ if measured.datagram_delay_s.is_some() || !counts_all => None,
            Metric::Retransmissions => Some(measured.retransmitted as f64),
            Metric::Timeouts => Some(measured.timeouts as f64),
            Metric::Share if measured.bytes_by_path.len() < 2 || total == 0 => None,
            Metric::Share => Some(measured.bytes_by_path[0] as f64 / total as f64),
            Metric::RttInflation => {
                let (mut sum, mut weight) = (0.0, 0.0);
                for (path, (srtt, bytes)) in measured.srtt_s.iter().zip(&measured.bytes_by_path).enumerate() {
                    if let Some(srtt) = srtt.filter(|_| *bytes > 0) {
                        sum += srtt / point.rtt(path).as_secs_f64() * *bytes as f64;
                        weight += *bytes as f64;
                    }
                }
                (weight > 0.0).then(|| sum / weight)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_good_as_its_lateness_and_losses() {
        let rtt = Duration::from_millis(10);
        let good = Quality { p50_us: 90.0, p99_us: 900.0, p999_us: 9000.0, lost: 0 };
        assert_eq!(good.objection(rtt), None);
        assert!(Quality { p50_us: 110.0, ..good.clone() }.objection(rtt).unwrap().contains("half"));
        assert!(Quality { p99_us: 1100.0, ..good.clone() }.objection(rtt).unwrap().contains("1 %"));
        assert!(Quality { lost: 1, ..good.clone() }.objection(rtt).unwrap().contains("lost"));
        // On a long path more is permitted, up to a bound.
        let rtt = Duration::from_millis(200);
        assert_eq!(Quality { p50_us: 1500.0, p99_us: 2900.0, ..good.clone() }.objection(rtt), None);
        assert!(Quality { p99_us: 3100.0, ..good }.objection(rtt).is_some());
    }

    #[test]
    fn transfers_that_start_together_are_added_up() {
        let flow = |time_s, delivered| Measured {
            time_s,
            delivered,
            segments: 10,
            retransmitted: 2,
            timeouts: 1,
            bytes_by_path: vec![delivered, 1],
            srtt_s: vec![Some(0.01), None],
            mss: vec![1424, 0],
            fallbacks: 1,
            longest_gap_s: time_s.map(|time| time / 10.0),
            ..Measured::default()
        };
        let one = flow(Some(0.5), 3);
        assert_eq!(Measured::together(vec![one.clone()]), one);
        let some = Measured::together((1..=19).map(|at| flow(Some(f64::from(at)), 5)).collect());
        assert_eq!((some.time_s, some.p95_s), (Some(10.0), None));
        let many = Measured::together((1..=41).map(|at| flow(Some(f64::from(at)), 5)).collect());
        assert_eq!((many.time_s, many.p95_s), (Some(21.0), Some(39.0)));
        assert_eq!((many.delivered, many.segments, many.retransmitted, many.timeouts), (205, 410, 82, 41));
        assert_eq!((many.fallbacks, many.longest_gap_s), (41, Some(4.1)));
        assert_eq!((many.bytes_by_path.as_slice(), many.mss.as_slice()), (&[205, 41][..], &[1424, 0][..]));
        let missed = Measured::together(vec![flow(Some(1.0), 5), flow(None, 4)]);
        assert_eq!((missed.time_s, missed.p95_s, missed.delivered), (None, None, 9));
        let point = crate::grid::grid(crate::grid::Which::Chosen).unwrap().pop().unwrap();
        assert_eq!(Metric::CompletionTimeP95.of(&point, &many), Some(39.0));
        assert_eq!(Metric::RttInflation.of(&point, &many), None);
    }

    #[test]
    fn a_mean_of_clients_is_not_known_if_one_of_them_has_no_value() {
        let client = |response_s| Measured { response_s, waiting_s: Some(2.0), ..Measured::default() };
        let both = Measured::together(vec![client(Some(1.0)), client(Some(3.0))]);
        assert_eq!((both.response_s, both.waiting_s), (Some(2.0), Some(2.0)));
        let one = Measured::together(vec![client(Some(1.0)), client(None)]);
        assert_eq!((one.response_s, one.waiting_s), (None, Some(2.0)));
    }

    #[test]
    fn classes_are_measured_apart_and_the_main_one_first() {
        let flow = |class, delivered| Measured { class, delivered, time_s: Some(1.0), ..Measured::default() };
        let all = Measured::by_class(vec![flow(0, 1), flow(2, 5), flow(1, 7), flow(2, 6)], 2);
        assert_eq!((all.class, all.delivered, all.others.len()), (2, 11, 2));
        assert_eq!(all.of_class(0).map(|own| own.delivered), Some(1));
        assert_eq!(all.of_class(1).map(|own| own.delivered), Some(7));
        assert_eq!((all.of_class(2).map(|own| own.delivered), all.of_class(3)), (Some(11), None));
    }

    #[test]
    fn applications_have_a_measure_each() {
        use anabranch_sim::application::{DatagramReport, VideoReport};
        use anabranch_units::Time;
        let of = |report: AppReport| {
            let mut measured = Measured::default();
            measured.note_app(&report);
            measured
        };
        let ms = Duration::from_millis;
        let exchange = |time| Exchange { at: Time::ZERO, request: 100, response: 1000, time: Some(ms(time)) };
        let response = of(AppReport::Requests(vec![exchange(20), exchange(40)])).response_s.unwrap();
        assert!((response - 0.03).abs() < 1e-12);
        let lost = Exchange { time: None, ..exchange(1) };
        assert_eq!(of(AppReport::Requests(vec![exchange(20), lost])).response_s, None);
        let burst = |delay| Burst { at: Time::ZERO, bytes: 1400, delay: Some(ms(delay)) };
        let lateness = of(AppReport::OnOff(vec![burst(10), burst(50)])).lateness_s.unwrap();
        assert!((lateness - 0.03).abs() < 1e-12);
        let video = VideoReport { startup: Some(ms(300)), stalled: ms(200), ..VideoReport::default() };
        assert!(of(AppReport::Video(video)).waiting_s.is_some_and(|waiting| (waiting - 0.5).abs() < 1e-12));
        assert_eq!(of(AppReport::Video(VideoReport::default())).waiting_s, None);
        let datagrams =
            DatagramReport { sent: 10, received: 9, delay_mean_s: Some(0.02), ..DatagramReport::default() };
        let measured = of(AppReport::Datagrams(datagrams));
        assert_eq!((measured.datagram_delay_s, measured.datagrams_lost), (Some(0.02), Some(0.1)));
    }

    #[test]
    fn metrics_are_what_they_say() {
        let points = crate::grid::grid(crate::grid::Which::Chosen).unwrap();
        let (bulk, sized) = (&points[18], &points[19]);
        let measured = Measured {
            time_s: Some(10.0),
            delivered: 1_000_000,
            retransmitted: 7,
            bytes_by_path: vec![250_000, 750_000],
            // 20 and 40 ms without load.
            srtt_s: vec![Some(0.040), Some(0.060)],
            ..Measured::default()
        };
        assert_eq!(Metric::Goodput.of(bulk, &measured), Some(800_000.0));
        assert_eq!(Metric::CompletionTime.of(bulk, &measured), None);
        assert_eq!(Metric::Share.of(bulk, &measured), Some(0.25));
        assert_eq!(Metric::Retransmissions.of(bulk, &measured), Some(7.0));
        let inflation = Metric::RttInflation.of(bulk, &measured).unwrap();
        assert!((inflation - (2.0 * 0.25 + 1.5 * 0.75)).abs() < 1e-12);
        assert_eq!(Metric::CompletionTime.of(sized, &measured), Some(10.0));
        let missed = Measured { time_s: None, ..measured };
        assert!(Metric::ALL.iter().all(|metric| metric.of(sized, &missed).is_none()));
        for metric in Metric::ALL {
            assert_eq!(Metric::from_name(metric.name()), Some(metric));
        }
    }
}
