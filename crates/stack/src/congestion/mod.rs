//! Congestion control: one object per connection, so that coupled algorithms need no exchange of state and an
//! uncoupled algorithm is the special case.
//!
//! Loss detection and recovery are separate (`subflow/recovery.rs`).

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
mod westwood;
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
pub use westwood::Westwood;
pub use wvegas::{Wvegas, WvegasOptions};

use crate::event::SubflowId;

/// The congestion signals of one acknowledgement on a subflow.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time of arrival.
    pub now: Time,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub acked_bytes: u64,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub acked_segments: u32,
    /// Bytes newly marked lost.
    pub lost_bytes: u64,
    /// The RTT sample of this acknowledgement, if it gives one.
    pub rtt: Option<Duration>,
    /// The smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// The minimum RTT sample; zero before the first.
    pub min_rtt: Duration,
    /// The relative one-way delay, in microseconds, of the newest segment newly acknowledged that was sent
    /// only once. Only differences are meaningful. `None` if a timer may have delayed the acknowledgement,
    /// that is if it acknowledges a single segment in order.
    pub one_way_delay_us: Option<i64>,
    /// The delivery rate over the last sample.
    pub delivery_rate: Option<Rate>,
    /// The delivered data and the conditions under which it was sent; `None` if nothing was delivered.
    pub delivery: Option<Delivery>,
    /// The lost data.
    pub loss: Option<Loss>,
    /// True if the delivery rate sample was limited by the application.
    pub app_limited: bool,
    /// True if the subflow had used its window when it last sent.
    pub cwnd_limited: bool,
    /// True if the acknowledgement echoes a congestion mark.
    pub ce: bool,
    /// Bytes in flight now, without those marked lost.
    pub inflight_bytes: u64,
    /// True if the subflow is repairing a loss (fast recovery).
    pub in_recovery: bool,
    /// True if the cumulative acknowledgement has advanced.
    pub una_advanced: bool,
    /// True if more than three segments in a row have arrived out of order on the subflow, without a loss.
    pub expects_reordering: bool,
    /// True if this acknowledgement starts a new round trip.
    pub round_start: bool,
}

impl Ack {
    /// Returns a cumulative acknowledgement of `segments` segments that hold `bytes`, outside of recovery and
    /// with a used window. The sample `rtt` is also the smoothed and the minimum RTT, and nothing remains in
    /// flight.
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
            expects_reordering: false,
            round_start: false,
        }
    }
}

/// The state of the most recently sent segment among those newly acknowledged.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Bytes delivered on the subflow so far.
    pub total: u64,
    /// Bytes delivered on the subflow when the segment was sent.
    pub prior_delivered: u64,
    /// Bytes delivered since; the difference of the two.
    pub delivered: u64,
    /// Bytes in flight when it was sent, including the segment.
    pub tx_in_flight: u64,
    /// Bytes marked lost since it was sent.
    pub lost: u64,
    /// True if the sender had nothing more to send.
    pub app_limited: bool,
}

/// The state of the last of the segments newly marked lost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The payload of the segment, in bytes.
    pub bytes: u64,
    /// Bytes delivered on the subflow when it was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when it was sent, including the segment.
    pub tx_in_flight: u64,
    /// Bytes marked lost since it was sent, including the segment.
    pub lost: u64,
    /// True if the sender had nothing more to send.
    pub app_limited: bool,
    /// The number of separate ranges of the sequence space in the newly lost data.
    pub ranges: u32,
}

/// The data of an event that starts a reduction.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// The time of the event.
    pub now: Time,
    /// FlightSize of RFC 5681: bytes sent and not cumulatively acknowledged, including lost ones.
    pub flight_bytes: u64,
    /// RecoverFS of RFC 9937: snd.nxt - snd.una minus the bytes selectively acknowledged before.
    pub recover_bytes: u64,
    /// True for a congestion mark, false for a loss.
    pub ecn: bool,
    /// True if this window of data already caused a reduction, after a mark or a loss: losses are repaired,
    /// but the window is not reduced again.
    pub reduced: bool,
}

/// The future growth of a subflow's window, for schedulers that predict its deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// The window doubles in a round trip.
    SlowStart,
    /// The window grows by acknowledgements, about a segment per round trip.
    Acks,
    /// The window is a function of time: [`CongestionControl::window_at`].
    Time,
    /// The window follows from a model of the path; segments are sent at the pacing rate.
    Rate,
}

/// The state of a subflow when it starts.
#[derive(Clone, Copy, Debug)]
pub struct SubflowStart {
    /// The time of the start.
    pub now: Time,
    /// The maximum payload of a segment, in bytes.
    pub mss: u64,
    /// The initial window, in segments.
    pub initial_window: u32,
    /// The initial threshold in segments; `None` is infinite.
    pub initial_ssthresh: Option<u32>,
    /// The RTT of the handshake, if it was measured.
    pub rtt: Option<Duration>,
    /// True to use proportional rate reduction in recovery.
    pub prr: bool,
    /// True if segments are sent at a pacing rate.
    pub paced: bool,
    /// True if selective acknowledgements were negotiated.
    pub sack: bool,
    /// The maximum number of segments that one acknowledgement adds in slow start (`L` of RFC 3465); `None`:
    /// no limit.
    pub byte_counting_limit: Option<u32>,
}

/// Congestion control of one connection. Windows are in bytes at this interface; an algorithm may use
/// (fractions of) segments internally.
pub trait CongestionControl {
    /// Adds an established subflow. Its ID may have been used by an ended one.
    fn on_subflow_up(&mut self, id: SubflowId, start: &SubflowStart);
    /// Removes a subflow.
    fn on_subflow_down(&mut self, id: SubflowId);
    /// Handles the transmission of payload, including retransmissions.
    fn on_sent(&mut self, _id: SubflowId, _now: Time, _bytes: u64) {}
    /// Handles an acknowledgement that acknowledges something or arrives in recovery.
    fn on_ack(&mut self, id: SubflowId, ack: &Ack);
    /// Handles a loss (or mark) that requires a reduction: at most once per window of data. If an
    /// acknowledgement reported it, this call precedes the [`CongestionControl::on_ack`] of that
    /// acknowledgement.
    fn on_congestion(&mut self, id: SubflowId, event: &CongestionEvent);
    /// Ends recovery, after the data in flight at the loss has been acknowledged; called after
    /// [`CongestionControl::on_ack`].
    fn on_recovered(&mut self, id: SubflowId, now: Time);
    /// Handles an expiration of the retransmission timer; `again` if it is not the first for this data.
    fn on_rto(&mut self, id: SubflowId, now: Time, flight_bytes: u64, again: bool);
    /// Undoes the last reduction, which was spurious.
    fn on_undo(&mut self, id: SubflowId, now: Time);
    /// Handles an idle time of more than `timeouts` retransmission timeouts (at least one) without transmissions.
    fn on_idle(&mut self, id: SubflowId, now: Time, timeouts: u32);
    /// Handles a retransmission timeout in which the sender has not filled its window, and has had at most `used` bytes in
    /// flight. Most algorithms do nothing.
    fn on_underused(&mut self, _id: SubflowId, _now: Time, _used: u64) {}
    /// Halves the window at the request of a scheduling policy (penalisation), and also the threshold unless
    /// in slow start.
    fn penalise(&mut self, id: SubflowId, now: Time);
    /// Returns the congestion window, in bytes.
    fn cwnd(&self, id: SubflowId) -> u64;
    /// Returns the slow-start threshold in bytes; `None` is infinite.
    fn ssthresh(&self, id: SubflowId) -> Option<u64>;
    /// Returns window and threshold, which are always used together.
    #[inline]
    fn window(&self, id: SubflowId) -> (u64, Option<u64>) {
        (self.cwnd(id), self.ssthresh(id))
    }
    /// Returns the algorithm's own pacing rate, if it has one.
    fn pacing_rate(&self, _id: SubflowId) -> Option<Rate> {
        None
    }
    /// Returns the future growth of the window. By default a window below its threshold is in slow start, so
    /// one without a threshold always is.
    fn growth(&self, id: SubflowId) -> Growth {
        let (cwnd, ssthresh) = self.window(id);
        if ssthresh.is_none_or(|threshold| cwnd < threshold) { Growth::SlowStart } else { Growth::Acks }
    }
    /// Returns the window `ahead` of `now`, in bytes, provided that nothing is lost until then; used if the
    /// window is a function of time ([`Growth::Time`]).
    fn window_at(&self, id: SubflowId, _now: Time, _ahead: Duration) -> u64 {
        self.cwnd(id)
    }
}

/// The further methods of a built-in congestion control.
trait BuiltIn: CongestionControl + core::fmt::Debug {
    /// Links the slow starts of the subflows (LISA) if `on`; ignored by a control without slow starts.
    fn set_lisa(&mut self, _on: bool) {}

    /// Returns the windows of all subflows, if they are counted in segments.
    fn segment_windows(&self) -> Option<&classic::Windows> {
        None
    }

    /// True if segments are sent at its pacing rate, regardless of the configuration.
    #[inline]
    fn always_paces(&self) -> bool {
        false
    }
}

/// A user-defined congestion control.
pub trait CustomCongestion: CongestionControl + Send {
    /// Returns a copy, so that a run can be forked.
    fn clone_box(&self) -> Box<dyn CustomCongestion>;
}

impl Clone for Box<dyn CustomCongestion> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
