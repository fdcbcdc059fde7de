//! The measures, each declared by its row.

use anabranch_sim::application::{DatagramReport, VideoReport};
use anabranch_table::{Cell, Kind};
use anabranch_units::Duration;
use serde::{Deserialize, Serialize};

use crate::column::{
    Better, Format, Heading, Measure, SampleColumn, Shown, SweepColumn, TableKind, Traffic, Unit,
};
use crate::declare::records;
use crate::difference::Difference;
use crate::flow::FlowResult;
use crate::gather::{
    FromReference, Greatest, IntervalOfMean, Mean, MeanOfAny, MeanOfCounted, MeanOfKnown, OverBound, Ratio,
    Spread, Sum, SumByPath,
};
use crate::record::{ByRun, Reading};
use crate::stats::Interval;

use Format::{About, Digits, Mega, Millis, Percent, Seconds};
use TableKind::{Bulk, Bursts, Datagrams as Streams, Plain, PlainBulk, Requests, Transfers, Videos};

/// A request or a period of sending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its start, in seconds from the start of the run.
    pub start_s: f64,
    /// The size of the response or burst.
    pub size_bytes: u64,
    /// The time until everything was delivered.
    pub time_s: Option<f64>,
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

fn time(span: Option<Duration>) -> Cell<'static> {
    span.map(seconds).into()
}

fn count(count: u64) -> Cell<'static> {
    Cell::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

fn counted(number: Option<u64>) -> Cell<'static> {
    number.map_or(Cell::Missing, count)
}

/// Returns a column of the table of a sweep.
const fn swept(name: &'static str, value: fn(&Record) -> Cell<'static>) -> SweepColumn {
    SweepColumn { name, kind: Kind::Number, value }
}

/// Returns the lower end of an interval, or the upper one.
fn end(of: Option<Interval>, upper: bool) -> Cell<'static> {
    of.map(|ends| if upper { ends.1 } else { ends.0 }).into()
}

fn apart(difference: Option<Difference>, upper: bool) -> Cell<'static> {
    end(difference.and_then(|difference| difference.ci95), upper)
}

records! {
    /// The results of a contender in a condition, of all its traffic or of one class.
    contender Record;
    /// The result of one flow.
    flow FlowRecord;
    from &FlowResult; within ""; rows FLOWS;

    /// the contender; `tcp beside X` for plain TCPs beside X's flows
    both scheduler: String;
    /// its congestion control
    both congestion: String;
    /// the condition's name; empty where there is only one
    both condition: String;
    /// the path of a plain TCP; null for Multipath TCP
    contender path: Option<String>;
    /// flows (of a class: also requests, bursts, videos, streams), over all runs
    contender n: usize;
    /// those that were delivered before the deadline; for bulk those that were not broken off
    contender completed: usize;
    /// the other ones, if their connection ended before the deadline
    contender failed: usize;
    /// the flow's number, or its name
    flow flow: String;
    /// the path of the first subflow
    flow first_path: String;
    /// the start, in time of the run
    flow start_s: f64;
    /// the size; null for bulk
    flow size_bytes: Option<u64>;
    /// `completed`, `running`, `waiting`, or `failed: ` and the reason in words
    flow outcome: String;

    /// time until the connection was established
    measure flow connected_s: Spread = |flow, of| flow.report.connected.map(seconds) =>
        Measure::new(Traffic::All, Unit::Seconds, Better::Less)
            .sampled(&[SampleColumn::number("connected_s", |flow, _| time(flow.report.connected))]);
    /// completion time, of the flows that were delivered; null for bulk. Of a class: the response times of requests, the delays of
    /// bursts, the waiting times of videos, the mean delays of streams
    measure both fct_s: Spread = |flow, of| flow.report.fct.map(seconds) =>
        Measure::new(Traffic::NotBulk, Unit::Seconds, Better::Less)
            .shown(&[
                Heading::new(30, "mean ms", Shown::Number(Millis, |row| row.fct_s.mean),
                    &[(Transfers, 0), (Plain, 0), (Requests, 0)]),
                Heading::new(30, "delay ms", Shown::Number(Millis, |row| row.fct_s.mean), &[(Bursts, 0), (Streams, 0)]),
                Heading::new(30, "waiting s", Shown::Number(Seconds, |row| row.fct_s.mean), &[(Videos, 0)]),
                Heading::new(32, "95 % interval", Shown::Interval(Millis, |row| row.fct_s.ci95),
                    &[(Transfers, 3), (Requests, 3), (Bursts, 2), (Streams, 2)]),
                Heading::new(34, "median", Shown::Number(Millis, |row| row.fct_s.p50), &[(Transfers, 0), (Requests, 0)]),
                Heading::new(36, "p95", Shown::Number(Millis, |row| row.fct_s.p95),
                    &[(Transfers, 0), (Requests, 0), (Bursts, 0)]),
                Heading::new(38, "p99", Shown::Number(Millis, |row| row.fct_s.p99), &[(Transfers, 1), (Requests, 1)]),
            ])
            .swept(&[
                swept("fct_mean_s", |row| row.fct_s.mean.into()),
                swept("fct_mean_low_s", |row| end(row.fct_s.ci95, false)),
                swept("fct_mean_high_s", |row| end(row.fct_s.ci95, true)),
                swept("fct_p50_s", |row| row.fct_s.p50.into()),
                swept("fct_p95_s", |row| row.fct_s.p95.into()),
                swept("fct_p99_s", |row| row.fct_s.p99.into()),
            ])
            .sampled(&[SampleColumn::number("fct_s", |_, of_part| time(of_part))]);
    /// time until everything was acknowledged
    measure both acked_s: Spread = |flow, of| flow.report.acked.map(seconds) =>
        Measure::new(Traffic::NotBulk, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(70, "acked ms", Shown::Number(Millis, |row| row.acked_s.mean), &[(Transfers, 8)])])
            .sampled(&[SampleColumn::number("acked_s", |flow, _| time(flow.report.acked))]);
    /// the completion time, or the time until the flow's end
    measure samples time_s =>
        Measure::new(Traffic::All, Unit::Seconds, Better::Less)
            .sampled(&[SampleColumn::number("time_s", |flow, _| time(Some(flow.time)))]);
    /// unique bytes that were delivered in order
    measure flow delivered_bytes: Sum = |flow, of| flow.report.delivered =>
        Measure::new(Traffic::All, Unit::Bytes, Better::Neither)
            .sampled(&[SampleColumn::count("delivered_bytes", |flow, _| count(flow.report.delivered))]);
    /// goodput of a flow: unique bytes over the time they took, or over the time the flow had; mean over flows
    measure both goodput_bps: MeanOfAny<u64> = |flow, of| flow.goodput().0 =>
        Measure::new(Traffic::All, Unit::BitsPerSecond, Better::More)
            .shown(&[
                Heading::new(30, "goodput Mbit/s", Shown::Number(Mega, |row| row.goodput_bps), &[(Bulk, 0), (PlainBulk, 0)]),
                Heading::new(54, "Mbit/s", Shown::Number(Mega, |row| row.goodput_bps), &[(Bursts, 1)]),
            ])
            .swept(&[swept("goodput_bps", |row| row.goodput_bps.into())])
            .sampled(&[SampleColumn::count("goodput_bps", |flow, _| count(flow.goodput().0))]);
    /// the interval of the mean goodput
    measure contender goodput_ci95_bps: IntervalOfMean = |flow, of| flow.goodput().as_bps_f64() =>
        Measure::new(Traffic::All, Unit::BitsPerSecond, Better::Neither)
            .shown(&[Heading::new(32, "95 % interval", Shown::Interval(Mega, |row| row.goodput_ci95_bps), &[(Bulk, 2)])])
            .swept(&[
                swept("goodput_low_bps", |row| end(row.goodput_ci95_bps, false)),
                swept("goodput_high_bps", |row| end(row.goodput_ci95_bps, true)),
            ]);
    /// 100 (mean / mean of the reference - 1), of the completion time, for bulk of the goodput; its interval is corrected for the
    /// number of contenders
    measure contender vs_reference_pct: FromReference = |_flow, of| () =>
        Measure::new(Traffic::All, Unit::Percent, Better::Neither)
            .shown(&[Heading::new(50, "vs", Shown::Difference, &[(Transfers, 0), (Bulk, 0), (Plain, 0), (PlainBulk, 0),
                (Requests, 0), (Bursts, 0), (Streams, 0), (Videos, 0)])])
            .swept(&[
                swept("vs_reference_pct", |row| row.vs_reference_pct.map(|difference| difference.mean).into()),
                swept("vs_reference_low_pct", |row| apart(row.vs_reference_pct, false)),
                swept("vs_reference_high_pct", |row| apart(row.vs_reference_pct, true)),
                SweepColumn { name: "reading", kind: Kind::Text, value: |row| row.reading.map(Reading::name).into() },
                SweepColumn { name: "best", kind: Kind::Flag, value: |row| Cell::Flag(row.best == Some(true)) },
            ]);
    /// at a point of a sweep: the interpretation of the difference, `better`, `equal`, `worse`, `undecided` or `incomplete`
    optional contender reading: Reading;
    /// at a point of a sweep: whether the verdict names it among the best
    optional contender best: bool;
    /// segments with payload that were sent, retransmissions included
    measure flow data_segments: Sum = |flow, of| flow.report.data_segments =>
        Measure::new(Traffic::All, Unit::Segments, Better::Neither)
            .sampled(&[SampleColumn::count("data_segments", |flow, _| count(flow.report.data_segments))]);
    /// data segments retransmitted on their own subflow, of all
    measure both retransmitted_ratio: Ratio = |flow, of| (flow.report.retransmitted_segments, flow.report.data_segments) =>
        Measure::new(Traffic::Streams, Unit::Ratio, Better::Less)
            .shown(&[Heading::new(62, "retx %", Shown::Number(Percent, |row| Some(row.retransmitted_ratio)),
                &[(Transfers, 4), (Bulk, 2), (Plain, 2), (PlainBulk, 2), (Requests, 4), (Bursts, 3)])])
            .swept(&[swept("retransmitted_ratio", |row| Cell::Number(row.retransmitted_ratio))])
            .sampled(&[SampleColumn::count("retransmitted_segments", |flow, _| count(flow.report.retransmitted_segments))]);
    /// data segments reinjected on another subflow, of all
    measure both reinjected_ratio: Ratio = |flow, of| (flow.reinjected_segments, flow.report.data_segments) =>
        Measure::new(Traffic::Streams, Unit::Ratio, Better::Less)
            .shown(&[Heading::new(64, "reinj %", Shown::Number(Percent, |row| Some(row.reinjected_ratio)),
                &[(Transfers, 9), (Bulk, 6)])])
            .swept(&[swept("reinjected_ratio", |row| Cell::Number(row.reinjected_ratio))])
            .sampled(&[SampleColumn::count("reinjected_segments", |flow, _| count(flow.reinjected_segments))]);
    /// bytes that had arrived before, of all that arrived
    measure flow duplicate_ratio: Ratio = |flow, of|
        (flow.report.duplicate_bytes, flow.report.duplicate_bytes + flow.report.delivered) =>
        Measure::new(Traffic::Streams, Unit::Ratio, Better::Less)
            .sampled(&[SampleColumn::count("duplicate_bytes", |flow, _| count(flow.report.duplicate_bytes))]);
    /// retransmission timeouts of a flow
    measure both rto_count: Mean<u64> = |flow, of| flow.report.rto_count =>
        Measure::new(Traffic::Streams, Unit::None, Better::Less)
            .shown(&[Heading::new(66, "RTOs", Shown::Number(About, |row| Some(row.rto_count)),
                &[(Transfers, 5), (Bulk, 4), (Requests, 5)])])
            .swept(&[swept("rto_count", |row| Cell::Number(row.rto_count))])
            .sampled(&[SampleColumn::count("rto_count", |flow, _| count(flow.report.rto_count))]);
    /// the [longest gap in delivery](definitions.md#the-longest-gap-in-delivery), over flows that received something
    measure both longest_gap_s: Spread = |flow, of| flow.report.longest_gap.map(seconds) =>
        Measure::new(Traffic::Streams, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(52, "gap ms", Shown::Number(Millis, |row| row.longest_gap_s.mean), &[(Transfers, 1), (Bulk, 1),
                (Plain, 1), (PlainBulk, 1), (Requests, 1), (Bursts, 1), (Videos, 1)]).on_request()])
            .swept(&[swept("longest_gap_s", |row| row.longest_gap_s.mean.into())])
            .sampled(&[SampleColumn::number("longest_gap_s", |flow, _| time(flow.report.longest_gap))]);
    /// subflows that sent payload
    measure both subflows_used: Mean<u32> = |flow, of| flow.report.subflows_used =>
        Measure::new(Traffic::Streams, Unit::None, Better::Neither)
            .shown(&[Heading::new(68, "subflows", Shown::Number(About, |row| Some(row.subflows_used)), &[(Transfers, 7)])])
            .swept(&[swept("subflows_used", |row| Cell::Number(row.subflows_used))])
            .sampled(&[SampleColumn::count("subflows_used", |flow, _| count(flow.report.subflows_used.into()))]);
    /// unique bytes that first arrived by each path, in the order of the condition's paths
    measure both bytes_by_path: SumByPath = |flow, of| flow.report.bytes_by_path.clone() =>
        Measure::new(Traffic::All, Unit::Bytes, Better::Neither)
            .shown(&[Heading::new(80, "share by path, %", Shown::Shares,
                &[(Transfers, 10), (Bulk, 5), (Requests, 6), (Bursts, 4), (Videos, 3)])]);
    /// the [lower bound](definitions.md#the-lower-bound) of the completion time, of the delivered flows; for bulk of the time to
    /// deliver what was delivered
    measure both lower_bound_s: MeanOfCounted = |flow, of| (of.bulk || flow.report.fct.is_some(), flow.lower_bound.map(seconds)) =>
        Measure::new(Traffic::Transfers, Unit::Seconds, Better::Neither)
            .swept(&[swept("lower_bound_s", |row| row.lower_bound_s.into())])
            .sampled(&[SampleColumn::number("lower_bound_s", |flow, _| time(flow.lower_bound))]);
    /// the time over the lower bound; over flows the ratio of the means
    measure both vs_lower_bound: OverBound = |flow, of|
        (seconds(flow.time), (of.bulk || flow.report.fct.is_some(), flow.lower_bound.map(seconds))) =>
        Measure::new(Traffic::Transfers, Unit::Ratio, Better::Less)
            .shown(&[Heading::new(60, "x bound", Shown::Number(Digits, |row| row.vs_lower_bound),
                &[(Transfers, 2), (Bulk, 1), (Plain, 1), (PlainBulk, 1)])]);

    /// the values of each run, from run 0; not at a point of a sweep
    contender by_run: ByRun, unless "ByRun::is_empty";
    /// the [class of traffic](traffic.md), where the scenario has classes
    optional both traffic: String;
    /// its kind
    optional both kind: String;
    /// `contender`, `tcp` or `udp`
    optional both transport: String;
    /// the requests, with the size and the time of the response; or the bursts, with their delay
    optional flow parts: Vec<Part>;
    /// of videos
    optional contender video: Video;
    /// of datagrams
    optional contender datagrams: Datagrams;
    /// of a video
    optional flow video: FlowVideo;
    /// of a stream of datagrams
    optional flow datagrams: FlowDatagrams;
}

records! {
    /// The results of the videos of a class.
    contender Video;
    /// The playback of a video.
    flow FlowVideo;
    from VideoReport; within "video"; rows VIDEOS;

    /// segments that were delivered
    measure flow segments: Sum = |video, of| u64::from(video.segments) =>
        Measure::new(Traffic::Videos, Unit::None, Better::Neither);
    /// time until playback starts
    measure both startup_s: Spread = |video, of| video.startup.map(seconds) =>
        Measure::new(Traffic::Videos, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(22, "startup s", Shown::Number(Seconds, |row| row.videos().startup_s.mean), &[(Videos, 0)])])
            .sampled(&[SampleColumn::number("startup_s", |flow, _| time(flow.video().and_then(|video| video.startup)))]);
    /// stalls of a video
    measure both stalls: Mean<u32> = |video, of| video.stalls =>
        Measure::new(Traffic::Videos, Unit::None, Better::Less)
            .shown(&[Heading::new(24, "stalls", Shown::Number(About, |row| Some(row.videos().stalls)), &[(Videos, 0)])])
            .sampled(&[SampleColumn::count("stalls", |flow, _| counted(flow.video().map(|video| video.stalls.into())))]);
    /// the time in them
    measure both stalled_s: Mean<f64> = |video, of| seconds(video.stalled) =>
        Measure::new(Traffic::Videos, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(26, "stalled s", Shown::Number(About, |row| Some(row.videos().stalled_s)), &[(Videos, 0)])])
            .swept(&[swept("stalled_s", |row| row.video.as_ref().map(|video| video.stalled_s).into())])
            .sampled(&[SampleColumn::number("stalled_s", |flow, _| time(flow.video().map(|video| video.stalled)))]);
    /// the mean bitrate of the delivered segments
    measure both bitrate_bps: MeanOfKnown = |video, of| video.bitrate_bps =>
        Measure::new(Traffic::Videos, Unit::BitsPerSecond, Better::More)
            .shown(&[Heading::new(56, "bitrate Mbit/s", Shown::Number(Mega, |row| row.videos().bitrate_bps), &[(Videos, 0)])])
            .swept(&[swept("bitrate_bps", |row| row.video.as_ref().and_then(|video| video.bitrate_bps).into())])
            .sampled(&[SampleColumn::number("bitrate_bps", |flow, _| {
                flow.video().and_then(|video| video.bitrate_bps).into()
            })]);
    /// changes of the bitrate in a video
    measure both switches: Mean<u32> = |video, of| video.switches =>
        Measure::new(Traffic::Videos, Unit::None, Better::Less)
            .shown(&[Heading::new(58, "switches", Shown::Number(About, |row| Some(row.videos().switches)), &[(Videos, 2)])]);
}

records! {
    /// The results of the datagrams of a class.
    contender Datagrams;
    /// A stream of datagrams.
    flow FlowDatagrams;
    from DatagramReport; within "datagrams"; rows STREAMS;

    /// datagrams sent
    measure both sent: Sum = |stream, of| stream.sent =>
        Measure::new(Traffic::Datagrams, Unit::Datagrams, Better::Neither)
            .sampled(&[SampleColumn::count("sent_datagrams", |flow, _| counted(flow.datagrams().map(|stream| stream.sent)))]);
    /// datagrams received, each counted once
    measure both received: Sum = |stream, of| stream.received =>
        Measure::new(Traffic::Datagrams, Unit::Datagrams, Better::Neither)
            .sampled(&[SampleColumn::count("received_datagrams", |flow, _| {
                counted(flow.datagrams().map(|stream| stream.received))
            })]);
    /// datagrams lost, of those sent
    measure contender lost_ratio: Ratio = |stream, of| (stream.sent - stream.received, stream.sent) =>
        Measure::new(Traffic::Datagrams, Unit::Ratio, Better::Less)
            .shown(&[Heading::new(20, "lost %", Shown::Number(Percent, |row| Some(row.streams().lost_ratio)), &[(Streams, 0)])])
            .swept(&[swept("lost_ratio", |row| row.datagrams.as_ref().map(|streams| streams.lost_ratio).into())]);
    /// the mean one-way delay of a stream
    measure flow delay_mean_s: MeanOfKnown = |stream, of| stream.delay_mean_s =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .sampled(&[SampleColumn::number("delay_mean_s", |flow, _| {
                flow.datagrams().and_then(|stream| stream.delay_mean_s).into()
            })]);
    /// the median of the one-way delays of a stream; mean over streams
    measure both delay_p50_s: MeanOfKnown = |stream, of| stream.delay_p50.map(seconds) =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .sampled(&[SampleColumn::number("delay_p50_s", |flow, _| time(flow.datagrams().and_then(|stream| stream.delay_p50)))]);
    /// the 95th percentile of the one-way delays of a stream; mean over streams
    measure both delay_p95_s: MeanOfKnown = |stream, of| stream.delay_p95.map(seconds) =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(36, "p95", Shown::Number(Millis, |row| row.streams().delay_p95_s), &[(Streams, 0)])])
            .sampled(&[SampleColumn::number("delay_p95_s", |flow, _| time(flow.datagrams().and_then(|stream| stream.delay_p95)))]);
    /// the 99th percentile; mean over streams
    measure both delay_p99_s: MeanOfKnown = |stream, of| stream.delay_p99.map(seconds) =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(38, "p99", Shown::Number(Millis, |row| row.streams().delay_p99_s), &[(Streams, 1)])])
            .sampled(&[SampleColumn::number("delay_p99_s", |flow, _| time(flow.datagrams().and_then(|stream| stream.delay_p99)))]);
    /// the greatest delay; over streams the greatest of all
    measure both delay_max_s: Greatest = |stream, of| stream.delay_max.map(seconds) =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(40, "max", Shown::Number(Millis, |row| row.streams().delay_max_s), &[(Streams, 3)])]);
    /// the mean difference between the delays of successive datagrams of a stream (which RFC 3550's jitter smooths); mean over
    /// streams
    measure both jitter_s: MeanOfKnown = |stream, of| stream.jitter_s =>
        Measure::new(Traffic::Datagrams, Unit::Seconds, Better::Less)
            .shown(&[Heading::new(42, "jitter", Shown::Number(Millis, |row| row.streams().jitter_s), &[(Streams, 0)])])
            .sampled(&[SampleColumn::number("jitter_s", |flow, _| flow.datagrams().and_then(|stream| stream.jitter_s).into())]);
}

impl Record {
    fn videos(&self) -> Video {
        self.video.clone().unwrap_or_default()
    }

    fn streams(&self) -> Datagrams {
        self.datagrams.clone().unwrap_or_default()
    }
}

/// Returns all measures: of all traffic, of datagrams, and of videos.
pub fn all() -> impl Iterator<Item = &'static Measure> {
    FLOWS.iter().chain(VIDEOS).chain(STREAMS)
}

/// Returns the columns of samples, without those that only classes of traffic have, or these.
pub fn sample_columns(of_classes: bool) -> impl Iterator<Item = &'static SampleColumn> {
    all().filter(move |measure| measure.within.is_empty() != of_classes).flat_map(|measure| measure.samples)
}

/// Returns the columns of the table of a sweep with their types, without those that only classes of traffic have, or these.
pub fn sweep_columns(of_classes: bool) -> impl Iterator<Item = &'static SweepColumn> {
    FLOWS
        .iter()
        .filter(move |_| !of_classes)
        .chain(STREAMS.iter().chain(VIDEOS).filter(move |_| of_classes))
        .flat_map(|measure| measure.sweep)
}

/// Returns the columns of a printed table in their order, each with its measure and its rank.
pub fn table_columns(table: TableKind) -> Vec<(&'static Heading, u8)> {
    let of = |heading: &'static Heading| Some((heading, heading.rank(table)?));
    let mut columns: Vec<_> = all().flat_map(|measure| measure.headings).filter_map(of).collect();
    columns.sort_by_key(|(heading, _)| heading.place);
    columns
}
