//! Congestion control: one object per connection, so that coupling is natural and an uncoupled
//! algorithm is the special case.
//!
//! Loss detection and recovery are not congestion control and stand apart (`subflow/recovery.rs`).

mod any;
mod balia;
mod bbr;
pub mod classic;
mod cubic;
mod cubic_linux;
mod custom;
mod delay;
mod dwc;
mod hystart;
mod lia;
mod lisa;
mod newreno;
mod olia;
mod prr;
mod rule;
mod sbd;
mod vegas;
mod veno;
mod wvegas;

use anabranch_units::{Duration, Rate, Time};

pub use any::{AnyCongestion, CongestionKind};
pub use balia::Balia;
pub use bbr::{Bbr, BbrOptions, State as BbrState};
pub use classic::{Classic, WindowRule};
pub use cubic::{Cubic, CubicOptions};
pub use cubic_linux::CubicLinux;
pub use custom::CustomCongestionKind;
pub use dwc::{Dwc, DwcOptions};
pub use lia::{Lia, aggressiveness};
pub use newreno::NewReno;
pub use olia::Olia;
pub use sbd::{Sbd, SbdOptions, Summary as SbdSummary};
pub use vegas::{Vegas, VegasOptions};
pub use veno::{Veno, VenoOptions};
pub use wvegas::{Wvegas, WvegasOptions};

use crate::event::SubflowId;

/// What an acknowledgement has told about one subflow.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it came.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub acked_segments: u32,
    /// Bytes newly taken for lost.
    pub lost_bytes: u64,
    /// An RTT sample.
    pub rtt: Option<Duration>,
    /// The smoothed RTT; zero before a sample.
    pub srtt: Duration,
    /// The least RTT sample; zero before one.
    pub min_rtt: Duration,
    /// The relative one-way delay in microseconds of the newest segment that is newly acknowledged and was sent once:
    /// differences count, not the value. None where the acknowledgement may have waited for a timer: where it is of one
    /// segment alone, in order.
    pub one_way_delay_us: Option<i64>,
    /// The rate at which data was delivered, over the last sample.
    pub delivery_rate: Option<Rate>,
    /// What was delivered, and under which conditions it had been sent; none where nothing was.
    pub delivery: Option<Delivery>,
    /// What was lost.
    pub loss: Option<Loss>,
    /// That sample was limited by the application.
    pub app_limited: bool,
    /// The subflow had used its window when it last sent.
    pub cwnd_limited: bool,
    /// The acknowledgement echoes a congestion mark.
    pub ce: bool,
    /// Bytes in flight now, losses taken off.
    pub inflight_bytes: u64,
    /// The subflow repairs a loss (fast recovery).
    pub in_recovery: bool,
    /// The cumulative acknowledgement has advanced.
    pub una_advanced: bool,
    /// This acknowledgement starts a new round trip.
    pub round_start: bool,
}

impl Ack {
    /// An acknowledgement of `segments` more that hold `bytes`, cumulative and on a window that is used, outside of
    /// recovery, with a sample `rtt` that is the smoothed and the least one as well. Nothing is in flight any more.
    pub const fn of(now: Time, bytes: u64, segments: u32, rtt: Duration) -> Ack {
        Ack {
            now,
            acked_bytes: bytes,
            acked_segments: segments,
            lost_bytes: 0,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: rtt,
            one_way_delay_us: None,
            delivery_rate: None,
            delivery: None,
            loss: None,
            app_limited: false,
            cwnd_limited: true,
            ce: false,
            inflight_bytes: 0,
            in_recovery: false,
            una_advanced: true,
            round_start: false,
        }
    }
}

/// What is known of the segment that was sent last among those newly acknowledged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Bytes delivered on the subflow so far.
    pub total: u64,
    /// And when the segment was sent.
    pub prior_delivered: u64,
    /// The difference: delivered since.
    pub delivered: u64,
    /// Bytes in flight when it had been sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes taken for lost since.
    pub lost: u64,
    /// The sender had nothing more to send.
    pub app_limited: bool,
}

/// What is known of the last segment among those newly taken for lost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes delivered on the subflow when it was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when it had been sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes taken for lost since, itself included.
    pub lost: u64,
    /// The sender had nothing more to send.
    pub app_limited: bool,
    /// In so many pieces of the sequence space apart from each other has been lost what is newly lost.
    pub ranges: u32,
}

/// What is told when a loss starts a reduction.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// When.
    pub now: Time,
    /// FlightSize of RFC 5681: bytes sent and not cumulatively acknowledged, lost ones included.
    pub flight_bytes: u64,
    /// RecoverFS of RFC 9937: snd.nxt - snd.una less what was selectively acknowledged before.
    pub recover_bytes: u64,
    /// A congestion mark and not a loss.
    pub ecn: bool,
    /// The window of data was reduced for already, after a mark or a loss: what has to be repaired is repaired,
    /// and the window stays.
    pub reduced: bool,
}

/// How the window of a subflow goes on from here, for schedulers that predict what it will deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// It doubles in a round trip.
    SlowStart,
    /// It grows by acknowledgements, about a segment in a round trip.
    Acks,
    /// It is a function of time: [`CongestionControl::window_at`].
    Time,
    /// It follows from a model of the path; the pacing rate says how fast segments are sent.
    Rate,
}

/// What is known of a subflow when it starts.
#[derive(Clone, Copy, Debug)]
pub struct SubflowStart {
    /// When.
    pub now: Time,
    /// The most payload in one segment, in bytes.
    pub mss: u64,
    /// The initial window, in segments.
    pub initial_window: u32,
    /// The initial threshold in segments; none is infinite.
    pub initial_ssthresh: Option<u32>,
    /// The RTT of the handshake.
    pub rtt: Option<Duration>,
    /// Proportional rate reduction in recovery.
    pub prr: bool,
    /// Segments leave at a pacing rate.
    pub paced: bool,
    /// Selective acknowledgements were agreed on.
    pub sack: bool,
    /// The most segments that one acknowledgement adds in slow start (`L` of RFC 3465); none: no limit.
    pub byte_counting_limit: Option<u32>,
}

/// Congestion control of one connection. Windows are in bytes at this interface; an algorithm may
/// count in (fractions of) segments inside.
pub trait CongestionControl {
    /// A subflow has become established. Its place may have been used by a dead one.
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart);
    /// A subflow has ended.
    fn on_subflow_down(&mut self, id: SubflowId);
    /// Payload was sent (retransmissions too).
    fn on_sent(&mut self, _id: SubflowId, _now: Time, _bytes: u64) {}
    /// An acknowledgement came that acknowledged something, or came in recovery.
    fn on_ack(&mut self, id: SubflowId, ack: &Ack);
    /// A loss (or mark) that calls for a reduction: at most once per window of data. If an
    /// acknowledgement has told of it, it comes before the [`CongestionControl::on_ack`] of that.
    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent);
    /// What was in flight at the loss is acknowledged; comes after the [`CongestionControl::on_ack`].
    fn on_recovered(&mut self, id: SubflowId, now: Time);
    /// The retransmission timer has run out; `again` if it is not the first time for this data.
    fn on_rto(&mut self, id: SubflowId, now: Time, flight_bytes: u64, again: bool);
    /// The last reduction was a mistake.
    fn on_undo(&mut self, id: SubflowId, now: Time);
    /// Nothing was sent for a retransmission timeout.
    fn on_idle(&mut self, id: SubflowId, now: Time);
    /// A scheduling policy asks for half the window (penalisation): the threshold too, but not in slow start.
    fn penalise(&mut self, id: SubflowId, now: Time);
    /// The congestion window, in bytes.
    fn cwnd(&self, id: SubflowId) -> u64;
    /// The slow-start threshold in bytes; none is infinite.
    fn ssthresh(&self, id: SubflowId) -> Option<u64>;
    /// Window and threshold together, which are always asked for together.
    #[inline]
    fn window(&self, id: SubflowId) -> (u64, Option<u64>) {
        (self.cwnd(id), self.ssthresh(id))
    }
    /// A pacing rate of the algorithm's own.
    fn pacing_rate(&self, _id: SubflowId) -> Option<Rate> {
        None
    }
    /// How the window goes on. Unless an algorithm says more, a window below its threshold is in slow
    /// start, so one without threshold always is.
    fn growth(&self, id: SubflowId) -> Growth {
        let (cwnd, ssthresh) = self.window(id);
        if ssthresh.is_none_or(|threshold| cwnd < threshold) { Growth::SlowStart } else { Growth::Acks }
    }
    /// The window `ahead` of `now`, in bytes, if nothing is lost until then; asked where the window is a
    /// function of time ([`Growth::Time`]).
    fn window_at(&self, id: SubflowId, _now: Time, _ahead: Duration) -> u64 {
        self.cwnd(id)
    }
}

/// What the stack asks of a congestion control that is built in, beside [`CongestionControl`].
trait BuiltIn: CongestionControl + core::fmt::Debug {
    /// Links the slow starts of its subflows (LISA), or does not; one that has none ignores it.
    fn set_lisa(&mut self, _on: bool) {}

    /// The windows of all subflows, where they are counted in segments.
    fn segment_windows(&self) -> Option<&classic::Windows> {
        None
    }

    /// Whether segments leave at its pacing rate, whatever the configuration says.
    #[inline]
    fn always_paces(&self) -> bool {
        false
    }
}

/// A congestion control of a user's own.
pub trait CustomCongestion: CongestionControl + Send {
    /// A copy, so that a run can be forked.
    fn clone_box(&self) -> Box<dyn CustomCongestion>;
}

impl Clone for Box<dyn CustomCongestion> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
