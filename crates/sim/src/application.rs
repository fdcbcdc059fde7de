//! The applications of flows other than a single transfer, and their results.

use anabranch_units::{Duration, Rate, Time};

use crate::distribution::Distribution;

/// The behaviour of the applications at both ends of a flow.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Application {
    /// One transfer of [`FlowSpec::size`](crate::FlowSpec::size) bytes.
    #[default]
    Transfer,
    /// Requests of the client and responses of the server, one after another on one connection.
    Requests(Requests),
    /// A sender that alternates between sending at a constant rate and silence.
    OnOff(OnOff),
    /// Datagrams (UDP) over the path of the client's address, without any congestion control.
    Datagrams(Datagrams),
    /// Video segments that the client requests ahead of their playback.
    Video(Video),
}

/// Requests and responses.
#[derive(Clone, PartialEq, Debug)]
pub struct Requests {
    /// The sizes of requests, in bytes.
    pub request: Distribution,
    /// The sizes of responses, in bytes.
    pub response: Distribution,
    /// The time of the next request. The first is made at the start of the flow.
    pub pace: Pace,
    /// The largest number of requests.
    pub count: Option<u64>,
    /// No request is made at this time after the start of the flow, or later. Responses may arrive later.
    pub span: Duration,
}

/// The time of the next request.
#[derive(Clone, PartialEq, Debug)]
pub enum Pace {
    /// Closed loop: a think time (in nanoseconds) after the response.
    Closed(Distribution),
    /// Open loop: a gap (in nanoseconds) after the request, whether there is a response or not.
    Open(Distribution),
}

/// A sender that alternates between sending and silence.
#[derive(Clone, PartialEq, Debug)]
pub struct OnOff {
    /// The lengths of periods of sending, in nanoseconds. The first begins at the start of the flow, or for a download
    /// when the server has received the request.
    pub on: Distribution,
    /// The lengths of the silences, in nanoseconds.
    pub off: Distribution,
    /// The rate at which data is written while it sends, in blocks of [`OnOff::BLOCK`] bytes.
    pub rate: Rate,
    /// Nothing is written at this time after the start of the first period, or later.
    pub span: Duration,
}

impl OnOff {
    /// The bytes written at a time.
    pub const BLOCK: u64 = 1400;
}

/// A stream of datagrams: its size, gap and number.
#[derive(Clone, PartialEq, Debug)]
pub struct Datagrams {
    /// The payload of each, in bytes. Its packet has a header of 28 bytes more (IPv6: 48).
    pub payload: u32,
    /// The gaps between two datagrams, in nanoseconds; constant for a constant rate.
    pub gap: Distribution,
    /// No datagram is sent at this time after the start of the flow, or later.
    pub span: Duration,
}

impl Datagrams {
    /// A datagram that has not arrived by this time after the last one was sent counts as lost.
    pub const LINGER: Duration = Duration::from_secs(3);
}

/// A video in segments.
#[derive(Clone, PartialEq, Debug)]
pub struct Video {
    /// The playback time of a segment.
    pub segment: Duration,
    /// The number of segments of the whole video.
    pub segments: u32,
    /// The bitrates, in increasing order. With several, each segment has one of them by BBA-0.
    pub ladder: Vec<Rate>,
    /// Playback starts when this time of video is in the buffer.
    pub startup: Duration,
    /// Playback continues after a stall when this time of video is in the buffer.
    pub resume: Duration,
    /// The most time of video in the buffer; during playback the next segment is requested when it fits.
    pub buffer: Duration,
}

impl Video {
    /// The size of a request, in bytes.
    pub const REQUEST: u64 = 200;

    /// Returns the bytes of a segment at `rate`.
    pub fn segment_bytes(&self, rate: Rate) -> u64 {
        ((u128::from(rate.0) * u128::from(self.segment.0)) / 8_000_000_000).max(1) as u64
    }

    /// Returns the position on the ladder of the next segment, after one of position `previous`, with `level` of video
    /// in the buffer: BBA-0 (Huang et al., A buffer-based approach to rate adaptation, SIGCOMM 2014, algorithm 1). The
    /// paper's reservoir of 90 s and cushion of 126 s belong to a buffer of 240 s. Here they are the same fractions of the
    /// level at which the last segment that fits is requested, so that a short buffer reaches the highest bitrate too.
    pub fn next_rate(&self, previous: usize, level: Duration) -> usize {
        let (buffer, level) = (self.buffer.saturating_sub(self.segment).0 as f64, level.0 as f64);
        let (reservoir, cushion) = (buffer * 90.0 / 240.0, buffer * 126.0 / 240.0);
        let top = self.ladder.len() - 1;
        if level <= reservoir {
            return 0;
        }
        if level >= reservoir + cushion {
            return top;
        }
        let (least, most) = (self.ladder[0].0 as f64, self.ladder[top].0 as f64);
        let map = least + (most - least) * (level - reservoir) / cushion;
        let (above, below) = ((previous + 1).min(top), previous.saturating_sub(1));
        if map >= self.ladder[above].0 as f64 {
            self.ladder.iter().rposition(|rate| (rate.0 as f64) < map).unwrap_or(0)
        } else if map <= self.ladder[below].0 as f64 {
            self.ladder.iter().position(|rate| rate.0 as f64 > map).unwrap_or(top)
        } else {
            previous
        }
    }
}

/// The results of an application.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum AppReport {
    /// A transfer: the results are in the report of the flow.
    #[default]
    Transfer,
    /// The requests, in order.
    Requests(Vec<Exchange>),
    /// The periods of sending, in order.
    OnOff(Vec<Burst>),
    /// Datagrams: their numbers and one-way delays.
    Datagrams(DatagramReport),
    /// A video: its segments, stalls and bitrates.
    Video(VideoReport),
}

/// A request and its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// The time of the request.
    pub at: Time,
    /// The size of the request, in bytes.
    pub request: u64,
    /// The size of the response, in bytes.
    pub response: u64,
    /// The time from the request to the last byte of the response in order; none if it has not arrived.
    pub time: Option<Duration>,
}

/// A period of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// Its beginning.
    pub at: Time,
    /// The number of bytes that the application has written in the period.
    pub bytes: u64,
    /// The time from the writing of its last block to that block's delivery in order; none if it has not arrived.
    pub delay: Option<Duration>,
}

/// The results of datagrams.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DatagramReport {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, each counted once.
    pub received: u64,
    /// The mean one-way delay in seconds.
    pub delay_mean_s: Option<f64>,
    /// The median one-way delay.
    pub delay_p50: Option<Duration>,
    /// The 95th percentile of the one-way delay.
    pub delay_p95: Option<Duration>,
    /// The 99th percentile of the one-way delay.
    pub delay_p99: Option<Duration>,
    /// The greatest one-way delay.
    pub delay_max: Option<Duration>,
    /// The mean difference between the delays of a datagram and of the one received before it, in seconds: what RFC
    /// 3550's interarrival jitter smooths.
    pub jitter_s: Option<f64>,
}

/// The results of a video.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct VideoReport {
    /// Segments delivered.
    pub segments: u32,
    /// The time from the start of the flow to the start of playback; none if it has not started.
    pub startup: Option<Duration>,
    /// The number of times that the playback waited for data after its start.
    pub stalls: u32,
    /// Their total length, up to the end of the run.
    pub stalled: Duration,
    /// The mean bitrate of the delivered segments, in bit/s.
    pub bitrate_bps: Option<f64>,
    /// Changes of the bitrate between two segments.
    pub switches: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bba_maps_the_buffer_to_the_ladder_with_hysteresis() {
        let video = Video {
            segment: Duration::from_secs(4),
            segments: 10,
            ladder: [1, 2, 4, 8].map(Rate::from_mbps).to_vec(),
            startup: Duration::from_secs(4),
            resume: Duration::from_secs(4),
            buffer: Duration::from_secs(244),
        };
        let next = |previous, level| video.next_rate(previous, Duration::from_secs(level));
        // Reservoir 90 s; upper end 216 s; the map is 1 + 7 (level - 90) / 126 Mbit/s.
        assert_eq!((next(3, 90), next(0, 91), next(0, 216), next(3, 217)), (0, 0, 3, 3));
        // 1 + 7 * 18 / 126 = 2 exactly reaches the next rate, but only rates below the map are chosen.
        assert_eq!((next(0, 107), next(0, 108), next(0, 109)), (0, 0, 1));
        // 4.5 Mbit/s: from 1 up to 4; from 8 it stays, as the map is above the next lower rate 4.
        assert_eq!((next(0, 153), next(2, 153), next(3, 153)), (2, 2, 3));
        // 1.5 Mbit/s: from 4 down to the lowest rate above the map.
        assert_eq!(next(2, 99), 1);
        assert_eq!(video.segment_bytes(Rate::from_mbps(2)), 1_000_000);
    }
}
