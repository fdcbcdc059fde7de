//! DMPTCP: minRTT on those subflows alone that a flow of this size has use for.
//!
//! **Decides** for the next data in order which subflow carries it. A slow subflow is used only if the
//! faster ones cannot send all that remains before its first round trip is over, as a model of TCP
//! predicts from windows, thresholds, RTTs and loss rates. Else the data waits for a faster one.
//!
//! **Source**: *DMPTCP* (2018), section 4.2, algorithm 1; the choice is [`select_subflows`].
//!
//! **Constants**: none of its own; the model's options are [`ModelOptions`].
//!
//! **When it chooses anew**: after a round trip of the fastest subflow; when a subflow becomes usable or
//! unusable, times out, or has its first data acknowledged after a timeout; when another is the fastest;
//! and when more remains than the choice was made for, which only a write brings about. The choice is
//! deferred until it matters: the fastest subflow is always chosen, so while it has room nothing is
//! computed. All this is seen in the view, so no events are wanted.
//!
//! **Read differently**
//! * The paper's example chooses at the beginning of a round. Here the choice is made when the fastest
//!   subflow is full, and what is in flight is not part of what remains, so the model of a full subflow
//!   begins with its next window ([`FirstRound::Next`]). [`FirstRound::Current`] counts the window in
//!   flight a second time.
//! * Algorithm 1 keeps a subflow that recovers from a timeout, with the window that the timeout has left.
//!   So does this scheduler, up to [`DmptcpOptions::kept_timeouts`] timeouts in a row: data would wait
//!   forever for a path that is gone. Its window in flight holds retransmissions, so its model begins
//!   with the window itself. New data waits for it but is never put on it before the recovery is over.
//! * "Filesize" is what remains, as in the paper's example. Where the application names no size it is
//!   what waits in the send buffer, or infinite ([`UnknownSize`]); the paper leaves it open.
//! * A write to a flow of unknown size leads to a new choice only if what remains then exceeds what
//!   the chosen subflows can send by the last choice: more to send never makes the choice smaller.
//! * Data of a failed subflow goes to any other, chosen or not.

use anabranch_units::{Bytes, Duration, Time};

use super::pick;
use super::{AssignKind, Decision, RecoveryState, Rule, Scheduler, SubflowView, View, Why};
use crate::event::{SubflowId, SubflowSet};
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::selection::{MAX_PATHS, PathEstimate, select_subflows};
use crate::transfer_model::{ModelOptions, Survivors, TimeoutWindow, TransferModel};

/// What counts as remaining where the application has not named a size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum UnknownSize {
    /// What waits in the send buffer.
    #[default]
    Buffered,
    /// Infinitely much: all subflows are used.
    Infinite,
}

/// What the prediction is compared with.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum FileSize {
    /// What remains of the flow, as in the paper's example.
    #[default]
    Remaining,
    /// The whole of it, as in the paper's text.
    Whole,
}

/// The window with which the model of a full subflow begins.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum FirstRound {
    /// The next one: what is in flight does not count as remaining.
    #[default]
    Next,
    /// The one in flight.
    Current,
}

/// The options of DMPTCP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DmptcpOptions {
    /// What the paper leaves open in its transfer model.
    pub model: ModelOptions,
    /// What counts as remaining where the application has not named a size.
    pub unknown_size: UnknownSize,
    /// What the prediction is compared with.
    pub filesize: FileSize,
    /// No window in the model exceeds the receive window.
    pub receive_window: bool,
    /// The window with which the model of a full subflow begins, where the prediction is compared with
    /// what remains.
    pub first_round: FirstRound,
    /// Timeouts in a row up to which a subflow stays in the model. With 0, a subflow that recovers from
    /// a timeout is left out.
    pub kept_timeouts: u32,
}

impl DmptcpOptions {
    /// The model as its module reads the paper, and the send buffer for an unknown size.
    pub const DEFAULT: DmptcpOptions = DmptcpOptions {
        model: ModelOptions {
            clip_at_ssthresh: false,
            timeout_window: TimeoutWindow::One,
            whole_rounds_only: false,
            increase: 1.0,
            coupled_increase: false,
            threshold_floor: true,
            survivors: Survivors::Four,
            window_limit: None,
        },
        unknown_size: UnknownSize::Buffered,
        filesize: FileSize::Remaining,
        receive_window: false,
        first_round: FirstRound::Next,
        kept_timeouts: 1,
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
            "the window after a timeout",
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
            "segments that a round of congestion avoidance adds",
            number 0.0, 1.0,
            model.increase
        ),
        parameter!(
            DmptcpOptions,
            "coupled-increase",
            "of that, the share that LIA leaves each subflow",
            bool,
            model.coupled_increase
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
            "segments that have to arrive for a fast recovery",
            choice ["three" => Survivors::Three, "four" => Survivors::Four],
            model.survivors
        ),
        parameter!(
            DmptcpOptions,
            "window-limit",
            "no window in the model grows beyond, segments",
            open integer 1, 1 << 30, "none",
            model.window_limit
        ),
        parameter!(
            DmptcpOptions,
            "unknown-size",
            "what remains of a flow of unknown size",
            choice ["buffered" => UnknownSize::Buffered, "infinite" => UnknownSize::Infinite],
            unknown_size
        ),
        parameter!(
            DmptcpOptions,
            "filesize",
            "what the prediction is compared with",
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
            "the window that the model of a full subflow begins with",
            choice ["next" => FirstRound::Next, "current" => FirstRound::Current],
            first_round
        ),
        parameter!(
            DmptcpOptions,
            "kept-timeouts",
            "timeouts in a row up to which a subflow stays in the model; 0: none",
            integer 0, 1_000_000,
            kept_timeouts
        ),
    ];
}

impl Default for DmptcpOptions {
    fn default() -> DmptcpOptions {
        DmptcpOptions::DEFAULT
    }
}

/// The last choice of subflows, and what it was made from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// When it was made.
    pub at: Time,
    /// The chosen subflows.
    pub chosen: SubflowSet,
    /// The fastest subflow that was not chosen.
    pub left_out: Option<SubflowId>,
    /// What the chosen subflows can send, in bytes, within the round trip of the one left out; a lower
    /// bound. The largest number where none was left out.
    pub predicted: u64,
    /// What remained, in bytes.
    pub remaining: u64,
    /// The subflows in the model.
    candidates: SubflowSet,
    /// Those of them that recover from a timeout with nothing acknowledged since.
    timed_out: SubflowSet,
    /// The fastest of them.
    fastest: SubflowId,
    /// When the next is due.
    due: Time,
}

/// The scheduler.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Dmptcp {
    options: DmptcpOptions,
    choice: Option<Choice>,
}

impl Dmptcp {
    /// With these options.
    pub fn new(options: DmptcpOptions) -> Dmptcp {
        Dmptcp { options, choice: None }
    }

    /// The last choice of subflows; none before there was more than one way to go.
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

    /// Whether `subflow` is in the model, although it may repair a timeout. `backups`: as
    /// [`pick::backups_only`] answers.
    fn is_kept(&self, subflow: &SubflowView, backups: bool) -> bool {
        let most = self.options.kept_timeouts;
        // Data is acknowledged again, or its timeouts are counted.
        let repairs = !subflow.potentially_failed || subflow.timeouts > 0;
        subflow.backup == backups
            && subflow.usable
            && (subflow.may_carry() || most > 0 && repairs && subflow.timeouts <= most)
    }

    /// The choice that holds now.
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

    /// Algorithm 1.
    #[cold]
    fn choose(&self, view: &View<'_>, kept: &Kept, remaining: u64) -> Choice {
        let Kept { candidates, timed_out, fastest } = *kept;
        // What is in flight is a part of the whole file.
        let next =
            self.options.first_round == FirstRound::Next && self.options.filesize == FileSize::Remaining;
        let mut paths = [UNUSABLE; MAX_PATHS];
        for (path, subflow) in paths.iter_mut().zip(view.subflows) {
            *path = estimate(subflow, candidates.has(subflow.id), next);
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
    full: false,
    usable: false,
    backup: false,
};

/// `next`: the model of a full subflow begins with the next window.
fn estimate(subflow: &SubflowView, usable: bool, next: bool) -> PathEstimate {
    let mss = subflow.mss.max(1);
    let segments = |bytes: u64| u32::try_from(bytes / mss).unwrap_or(u32::MAX);
    PathEstimate {
        srtt: subflow.srtt.unwrap_or(Duration::ZERO),
        cwnd: segments(subflow.cwnd),
        ssthresh: subflow.ssthresh.map(segments),
        loss: subflow.loss_rate,
        mss: u32::try_from(mss).unwrap_or(u32::MAX),
        // After a timeout the window in flight holds retransmissions, as the next one will.
        full: next && pick::is_full(subflow) && subflow.recovery != RecoveryState::Loss,
        usable,
        backup: subflow.backup,
    }
}

impl Dmptcp {
    /// The subflows in the model; none if it is empty.
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
        // RTTs have changed places since the choice was made.
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
