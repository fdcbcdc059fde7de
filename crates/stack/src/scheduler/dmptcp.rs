//! DMPTCP: minRTT on the subflows that a flow of this size can benefit from.
//!
//! **Decides** which subflow carries the next data in order. A slow subflow is used only if the faster ones
//! cannot send all remaining data before its first round trip ends, as predicted by a model of TCP from
//! windows, thresholds, RTTs and loss rates. Otherwise the data waits for a faster one.
//!
//! **Source**: *DMPTCP* (2018), section 4.2, algorithm 1; the choice is [`select_subflows`].
//!
//! **Constants**: none but the model's options, [`ModelOptions`].
//!
//! **A new choice** is made after a round trip of the fastest subflow; when a subflow becomes usable or
//! unusable, times out, or has its first data acknowledged after a timeout; when another subflow becomes the
//! fastest; and when more data remains than the choice was made for, which only a write causes. The choice is
//! deferred until it matters: the fastest subflow is always chosen, so while it has free window nothing is
//! computed. All of this is visible in the view, so no events are requested.
//!
//! **Departures from the source**
//! * The paper's example chooses at the beginning of a round. Here the choice is made when the fastest
//!   subflow is full, and data in flight is not part of the remaining data, so the model of a full subflow
//!   begins with its next window ([`FirstRound::Next`]). [`FirstRound::Current`] counts the window in flight
//!   a second time.
//! * Algorithm 1 keeps a subflow that recovers from a timeout, with the window after the timeout. This
//!   scheduler does so up to [`DmptcpOptions::kept_timeouts`] consecutive timeouts, since data would
//!   otherwise wait forever for a dead path. Its window in flight holds retransmissions, so its model begins
//!   with the current window. New data waits for such a subflow but is never assigned to it before recovery
//!   ends.
//! * "Filesize" is the remaining data, as in the paper's example. If the application announces no size it is
//!   the data in the send buffer, or infinite ([`UnknownSize`]); the paper leaves this open.
//! * A write to a flow of unknown size triggers a new choice only if the remaining data then exceeds what the
//!   chosen subflows can send by the last choice: more data never makes the choice smaller.
//! * [`DmptcpOptions::rate_cap`] is ours: a path that others fill delivers less than its window suggests.
//! * Data of a failed subflow is reinjected on any other, chosen or not.

use anabranch_units::{Bytes, Duration, Rate, Time};

use super::pick;
use super::{AssignKind, Decision, RecoveryState, Rule, Scheduler, SubflowView, View, Why};
use crate::event::{SubflowId, SubflowSet};
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::selection::{MAX_PATHS, PathEstimate, select_subflows};
use crate::transfer_model::{Criterion, ModelOptions, Survivors, TimeoutWindow, TransferModel};

/// The remaining data of a flow if the application has not announced its size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum UnknownSize {
    /// The data in the send buffer.
    #[default]
    Buffered,
    /// Infinite: all subflows are used.
    Infinite,
}

/// The size with which the prediction is compared.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum FileSize {
    /// The remaining data of the flow, as in the paper's example.
    #[default]
    Remaining,
    /// The whole flow, as in the paper's text.
    Whole,
}

/// The first window in the model of a full subflow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum FirstRound {
    /// The next window: data in flight does not count as remaining.
    #[default]
    Next,
    /// The window in flight.
    Current,
}

/// Details that the paper on DMPTCP leaves open.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DmptcpOptions {
    /// Options of the transfer model that the paper leaves open.
    pub model: ModelOptions,
    /// The remaining data of a flow if the application has not announced its size.
    pub unknown_size: UnknownSize,
    /// The size with which the prediction is compared.
    pub filesize: FileSize,
    /// True if no window in the model exceeds the receive window.
    pub receive_window: bool,
    /// The first window in the model of a full subflow, if the prediction is compared with the remaining
    /// data.
    pub first_round: FirstRound,
    /// The maximum of consecutive timeouts for which a subflow stays in the model. With 0, a subflow that
    /// recovers from a timeout is excluded.
    pub kept_timeouts: u32,
    /// True if no round of the model delivers more than the subflow's delivery rate does; the paper's model has only
    /// windows.
    pub rate_cap: bool,
}

impl DmptcpOptions {
    /// The default transfer model, and the send buffer for an unknown size.
    pub const DEFAULT: DmptcpOptions = DmptcpOptions {
        model: ModelOptions::DEFAULT,
        unknown_size: UnknownSize::Buffered,
        filesize: FileSize::Remaining,
        receive_window: false,
        first_round: FirstRound::Next,
        kept_timeouts: 1,
        rate_cap: false,
    };
}

impl Options for DmptcpOptions {
    const PARAMETERS: &'static [Parameter<DmptcpOptions>] = &[
        parameter!(
            DmptcpOptions,
            "clip-at-ssthresh",
            "slow start in the model ends at the threshold",
            bool,
            model.clip_at_ssthresh
        ),
        parameter!(
            DmptcpOptions,
            "timeout-window",
            "window after a timeout",
            choice ["one" => TimeoutWindow::One, "initial" => TimeoutWindow::Initial],
            model.timeout_window
        ),
        parameter!(
            DmptcpOptions,
            "whole-rounds-only",
            "a part of a round delivers nothing",
            bool,
            model.whole_rounds_only
        ),
        parameter!(
            DmptcpOptions,
            "increase",
            "segments added by a round of congestion avoidance",
            number 0.0, 1.0,
            model.increase
        ),
        parameter!(
            DmptcpOptions,
            "coupled-increase",
            "use only the share of that which LIA grants each subflow",
            bool,
            model.coupled_increase
        ),
        parameter!(
            DmptcpOptions,
            "criterion",
            "a slower path stays idle if the faster ones send the rest in its round trip, or deliver it in half of that",
            choice ["round-trip" => Criterion::RoundTrip, "delivery" => Criterion::Delivery],
            model.criterion
        ),
        parameter!(
            DmptcpOptions,
            "threshold-floor",
            "the threshold after a loss is at least 2",
            bool,
            model.threshold_floor
        ),
        parameter!(
            DmptcpOptions,
            "survivors",
            "segments that must arrive for a fast recovery",
            choice ["three" => Survivors::Three, "four" => Survivors::Four],
            model.survivors
        ),
        parameter!(
            DmptcpOptions,
            "window-limit",
            "maximum window in the model, in segments",
            open integer 1, 1 << 30, "none",
            model.window_limit
        ),
        parameter!(
            DmptcpOptions,
            "unknown-size",
            "remaining data of a flow of unknown size",
            choice ["buffered" => UnknownSize::Buffered, "infinite" => UnknownSize::Infinite],
            unknown_size
        ),
        parameter!(
            DmptcpOptions,
            "filesize",
            "size with which the prediction is compared",
            choice ["remaining" => FileSize::Remaining, "whole" => FileSize::Whole],
            filesize
        ),
        parameter!(
            DmptcpOptions,
            "receive-window",
            "no window in the model exceeds the receive window",
            bool,
            receive_window
        ),
        parameter!(
            DmptcpOptions,
            "first-round",
            "first window in the model of a full subflow",
            choice ["next" => FirstRound::Next, "current" => FirstRound::Current],
            first_round
        ),
        parameter!(
            DmptcpOptions,
            "kept-timeouts",
            "maximum consecutive timeouts of a subflow in the model",
            integer 0, 1_000_000,
            kept_timeouts
        ),
        parameter!(
            DmptcpOptions,
            "rate-cap",
            "no round of the model delivers more than the delivery rate does",
            bool,
            rate_cap
        ),
    ];
}

impl Default for DmptcpOptions {
    fn default() -> DmptcpOptions {
        DmptcpOptions::DEFAULT
    }
}

/// The last choice of subflows and its inputs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// The time of the choice.
    pub at: Time,
    /// The chosen subflows.
    pub chosen: SubflowSet,
    /// The fastest subflow that was not chosen.
    pub left_out: Option<SubflowId>,
    /// A lower bound, in bytes, on the data that the chosen subflows can send within the round trip of the
    /// excluded subflow; the maximum value if none was excluded.
    pub predicted: u64,
    /// The remaining data, in bytes.
    pub remaining: u64,
    /// The subflows in the model.
    candidates: SubflowSet,
    /// The candidates that recover from a timeout with nothing acknowledged since.
    timed_out: SubflowSet,
    /// The fastest candidate.
    fastest: SubflowId,
    /// The time of the next choice.
    due: Time,
}

/// The scheduler.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Dmptcp {
    options: DmptcpOptions,
    choice: Option<Choice>,
}

impl Dmptcp {
    /// Returns a scheduler with the given options.
    pub fn new(options: DmptcpOptions) -> Dmptcp {
        Dmptcp { options, choice: None }
    }

    /// Returns the last choice of subflows; `None` until there has been more than one subflow to choose from.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    fn remaining(&self, view: &View<'_>) -> u64 {
        match self.options.unknown_size {
            UnknownSize::Infinite if !view.size_known => u64::MAX,
            _ if self.options.filesize == FileSize::Whole => {
                let waiting: u64 = view.unassigned.iter().map(|range| range.len()).sum();
                view.remaining + view.written.saturating_sub(waiting)
            }
            _ => view.remaining,
        }
    }

    /// True if `subflow` is in the model, even while it repairs a timeout. `backups` is the result of
    /// [`pick::backups_only`].
    fn is_kept(&self, subflow: &SubflowView, backups: bool) -> bool {
        let most = self.options.kept_timeouts;
        // Either data is acknowledged again, or the subflow's timeouts are counted.
        let repairs = !subflow.potentially_failed || subflow.timeouts > 0;
        subflow.backup == backups
            && subflow.usable
            && (subflow.may_carry() || most > 0 && repairs && subflow.timeouts <= most)
    }

    /// Returns the choice valid now, made anew if necessary.
    fn chosen(&mut self, view: &View<'_>, kept: &Kept) -> Choice {
        let Kept { candidates, timed_out, fastest } = *kept;
        let remaining = self.remaining(view);
        match self.choice {
            Some(choice)
                if choice.candidates == candidates
                    && choice.timed_out == timed_out
                    && choice.fastest == fastest
                    && view.now < choice.due
                    && remaining <= choice.predicted.max(choice.remaining) =>
            {
                choice
            }
            _ => *self.choice.insert(self.choose(view, kept, remaining)),
        }
    }

    /// Runs algorithm 1.
    #[cold]
    fn choose(&self, view: &View<'_>, kept: &Kept, remaining: u64) -> Choice {
        let Kept { candidates, timed_out, fastest } = *kept;
        // Data in flight is a part of the whole file.
        let next =
            self.options.first_round == FirstRound::Next && self.options.filesize == FileSize::Remaining;
        let mut paths = [UNUSABLE; MAX_PATHS];
        for (path, subflow) in paths.iter_mut().zip(view.subflows) {
            *path = estimate(subflow, candidates.has(subflow.id), next);
            path.rate_limit = if self.options.rate_cap { rate_limit(subflow) } else { None };
        }
        let paths = paths.get(..view.subflows.len()).unwrap_or(&paths);
        let mut model = self.options.model;
        if self.options.receive_window {
            let mss = view.subflows.iter().map(|subflow| subflow.mss).max().unwrap_or(1).max(1);
            let window = u32::try_from(view.peer_window / mss).unwrap_or(u32::MAX).max(1);
            model.window_limit = Some(model.window_limit.map_or(window, |limit| limit.min(window)));
        }
        let selection = select_subflows(paths, Bytes(remaining), &TransferModel::new(model));
        let id_of = |path: usize| view.subflows.get(path).map(|subflow| subflow.id);
        let srtt = view.subflow(fastest).and_then(|subflow| subflow.srtt).unwrap_or(Duration::ZERO);
        Choice {
            at: view.now,
            chosen: selection.paths().filter_map(id_of).fold(SubflowSet::EMPTY, SubflowSet::with),
            left_out: selection.first_left_out.and_then(|path| id_of(path.path)),
            predicted: selection.first_left_out.map_or(u64::MAX, |path| path.predicted.get()),
            remaining,
            candidates,
            timed_out,
            fastest,
            due: view.now + srtt,
        }
    }
}

/// The subflows in the model.
#[derive(Clone, Copy)]
struct Kept {
    candidates: SubflowSet,
    timed_out: SubflowSet,
    fastest: SubflowId,
}

const UNUSABLE: PathEstimate = PathEstimate {
    srtt: Duration::ZERO,
    cwnd: 1,
    ssthresh: None,
    loss: 0.0,
    mss: 1,
    rate_limit: None,
    full: false,
    usable: false,
    backup: false,
};

/// Returns the model's input for a subflow. With `next`, the model of a full subflow begins with the next
/// window.
fn estimate(subflow: &SubflowView, usable: bool, next: bool) -> PathEstimate {
    let mss = subflow.mss.max(1);
    let segments = |bytes: u64| u32::try_from(bytes / mss).unwrap_or(u32::MAX);
    PathEstimate {
        srtt: subflow.srtt.unwrap_or(Duration::ZERO),
        cwnd: segments(subflow.cwnd),
        ssthresh: subflow.ssthresh.map(segments),
        loss: subflow.loss_rate,
        mss: u32::try_from(mss).unwrap_or(u32::MAX),
        rate_limit: None,
        // After a timeout the window in flight holds retransmissions, and the next one will too.
        full: next && pick::is_full(subflow) && subflow.recovery != RecoveryState::Loss,
        usable,
        backup: subflow.backup,
    }
}

/// Returns the segments that the delivery rate of a subflow brings in a round trip, at least one; `None` before the first
/// sample.
fn rate_limit(subflow: &SubflowView) -> Option<u32> {
    let srtt = subflow.srtt.filter(|_| subflow.delivery_rate > Rate(0))?;
    let segments = subflow.delivery_rate.bytes_in(srtt) / subflow.mss.max(1);
    Some(u32::try_from(segments).unwrap_or(u32::MAX).max(1))
}

impl Dmptcp {
    /// Returns the subflows in the model; `None` if there are none.
    fn kept(&self, view: &View<'_>) -> Option<Kept> {
        let backups = pick::backups_only(view);
        let kept = || view.subflows.iter().filter(|subflow| self.is_kept(subflow, backups));
        let fastest = kept().min_by_key(|subflow| pick::rtt_or_infinite(subflow))?.id;
        let mut set = Kept { candidates: SubflowSet::EMPTY, timed_out: SubflowSet::EMPTY, fastest };
        for subflow in kept() {
            set.candidates = set.candidates.with(subflow.id);
            if subflow.timeouts > 0 {
                set.timed_out = set.timed_out.with(subflow.id);
            }
        }
        Some(set)
    }
}

impl Scheduler for Dmptcp {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (chunk, lowest) = match pick::next_on_lowest(view) {
            Ok(found) => found,
            Err(decision) => return decision,
        };
        let Some(kept) = self.kept(view).filter(|kept| kept.fastest != lowest.subflow.id) else {
            return lowest.assign(AssignKind::New, Rule::LowestRtt);
        };
        let choice = self.chosen(view, &kept);
        if choice.chosen.has(lowest.subflow.id) {
            return lowest.assign(AssignKind::New, Rule::LowestRtt);
        }
        // The order of the RTTs has changed since the choice was made.
        let chosen = pick::candidates(view).filter(|subflow| choice.chosen.has(subflow.id));
        match pick::lowest_rtt(chosen, chunk) {
            Some(lowest) => lowest.assign(AssignKind::New, Rule::LowestRtt),
            None => Decision::Wait {
                until: None,
                why: Why::scored(Rule::NotSelected, choice.predicted as f64, choice.remaining as f64),
            },
        }
    }
}
