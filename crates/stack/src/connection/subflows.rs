//! The subflows of a connection, and the answers of each to the questions that are asked after every segment.
//!
//! A segment changes one or two subflows. The next poll asks all of them whether they want to send, and then
//! for their next timeout and the scheduler's view: with eight subflows that is forty cache lines. So a
//! connection with several subflows stores the answers of all in one place, and the subflows that were lent
//! for modification since: only these are asked again. Every way to modify a subflow, except the ways that
//! change no answer, is in this file.

use core::ops::{Deref, Index, IndexMut};
use core::slice;

use anabranch_units::{Duration, Rate, Time};
use prefetch_index::prefetch_index;

use crate::config::RtoConfig;
use crate::event::SubflowId;
use crate::scheduler::SubflowView;
use crate::subflow::timer_table::TimerContext;
use crate::subflow::{FastPaths, Subflow, TcpState};

/// The maximum number of subflows.
const MOST: usize = 32;

/// From this number of subflows on, it is cheaper to remember their answers than to ask all of them.
const SEVERAL: usize = 3;

/// A set of indices of subflows, 0 to 31: one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Indices(u32);

impl Indices {
    const NONE: Indices = Indices(0);
    const ALL: Indices = Indices(u32::MAX);

    #[inline]
    fn one(at: usize) -> Indices {
        Indices(1 << (at % MOST))
    }

    #[inline]
    fn has(self, at: usize) -> bool {
        self.0 & Indices::one(at).0 != 0
    }

    #[inline]
    fn set(&mut self, at: usize, included: bool) {
        let one = Indices::one(at).0;
        self.0 = if included { self.0 | one } else { self.0 & !one };
    }

    #[inline]
    fn add(&mut self, others: Indices) {
        self.0 |= others.0;
    }

    /// Removes the indices below `len`, and returns them in order.
    #[inline]
    fn take_below(&mut self, len: usize) -> Indices {
        let below = if len < MOST { Indices(Indices::one(len).0 - 1) } else { Indices::ALL };
        let taken = Indices(self.0 & below.0);
        self.0 = 0;
        taken
    }

    /// Returns the number of indices below `at`.
    #[inline]
    fn rank(self, at: usize) -> usize {
        (self.0 & (Indices::one(at).0 - 1)).count_ones() as usize
    }
}

impl Iterator for Indices {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let first = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (first < MOST as u32).then_some(first as usize)
    }
}

/// The subflows of a connection by their IDs.
#[derive(Clone, Debug)]
pub(crate) struct Subflows {
    list: Vec<Subflow>,
    /// The subflows lent for modification since a question was last asked.
    touched: Indices,
    /// None for few subflows, and without fast paths: then the subflows are asked themselves.
    answers: Option<Box<Answers>>,
}

/// The answers of several subflows.
#[derive(Clone, Debug)]
struct Answers {
    /// The subflows with an outdated answer, for each kind of answer.
    old: Outdated,
    /// True if each consecutive timeout doubles the next.
    backoff: bool,
    /// The subflows that want to send.
    wanting: Indices,
    /// The subflows that owe an acknowledgement once the application has read everything.
    draining: Indices,
    /// The subflows in the scheduler's view, in order: all that are not closed.
    viewed: Indices,
    synchronised: Indices,
    /// Deadlines from this time on are lower bounds.
    horizon: Time,
    due: [Time; MOST],
    /// The bytes received out of order on each, and on all.
    out_of_order: [u64; MOST],
    out_of_order_total: u64,
    /// The first byte of the stream that each carries; the maximum value if there is none.
    lowest_data: [u64; MOST],
    /// The retransmission timeout of each that is synchronised.
    rto: [Duration; MOST],
    /// The largest window that another subflow has advertised, and that each has not recorded yet.
    raised: [u32; MOST],
}

/// The subflows to ask again, for each kind of answer.
#[derive(Clone, Copy, Debug)]
struct Outdated {
    wanting: Indices,
    received: Indices,
    sent: Indices,
    views: Indices,
    timers: Indices,
}

impl Outdated {
    const ALL: Outdated = Outdated {
        wanting: Indices::ALL,
        received: Indices::ALL,
        sent: Indices::ALL,
        views: Indices::ALL,
        timers: Indices::ALL,
    };

    #[inline]
    fn add(&mut self, touched: Indices) {
        self.wanting.add(touched);
        self.received.add(touched);
        self.sent.add(touched);
        self.views.add(touched);
        self.timers.add(touched);
    }
}

impl Answers {
    const UNKNOWN: Answers = Answers {
        old: Outdated::ALL,
        backoff: false,
        wanting: Indices::NONE,
        draining: Indices::NONE,
        viewed: Indices::NONE,
        synchronised: Indices::NONE,
        horizon: Time::NEVER,
        due: [Time::NEVER; MOST],
        out_of_order: [0; MOST],
        out_of_order_total: 0,
        lowest_data: [u64::MAX; MOST],
        rto: [Duration::ZERO; MOST],
        raised: [0; MOST],
    };
}

impl Subflows {
    pub(super) fn new() -> Subflows {
        Subflows { list: Vec::with_capacity(1), touched: Indices::NONE, answers: None }
    }

    /// Adds a subflow.
    pub(super) fn push(&mut self, subflow: Subflow, config: &RtoConfig, fast_paths: FastPaths) {
        self.list.push(subflow);
        self.touched = Indices::ALL;
        if self.list.len() >= SEVERAL && self.answers.is_none() && fast_paths == FastPaths::On {
            self.answers = Some(Box::new(Answers { backoff: config.backoff, ..Answers::UNKNOWN }));
        }
    }

    /// Puts a subflow in the place of another.
    pub(super) fn replace(&mut self, at: usize, subflow: Subflow) {
        self[at] = subflow;
        if let Some(answers) = &mut self.answers {
            answers.raised[at % MOST] = 0;
        }
    }

    /// Exchanges the subflow at `at` with the first one, before either is established.
    pub(super) fn make_first(&mut self, at: usize) {
        self.list.swap(0, at);
        for (subflow, id) in self.iter_mut().zip(0..) {
            subflow.set_id(SubflowId(id));
        }
    }

    /// Prefetches the state of the subflow at `at` for a segment with data or without.
    #[inline]
    pub(super) fn fetch(&self, at: usize, data: bool) {
        if let Some(answers) = &self.answers {
            prefetch_index(slice::from_ref(&answers.old), 0);
            prefetch_index(slice::from_ref(&answers.due), 0);
        }
        if let Some(subflow) = self.list.get(at) {
            subflow.fetch(data);
        }
    }

    /// Returns a subflow for modification.
    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Subflow> {
        self.touched.add(Indices::one(at));
        self.list.get_mut(at)
    }

    /// Returns all subflows for modification.
    #[inline]
    pub(super) fn iter_mut(&mut self) -> slice::IterMut<'_, Subflow> {
        self.touched = Indices::ALL;
        self.list.iter_mut()
    }

    /// Calls `check` for each subflow. It returns true if it has changed the scheduler's view, and must change no other
    /// answer. Returns true if it has changed any.
    #[inline]
    pub(super) fn check_each(&mut self, mut check: impl FnMut(&mut Subflow) -> bool) -> bool {
        let mut any = false;
        for (at, subflow) in self.list.iter_mut().enumerate() {
            if check(subflow) {
                self.touched.add(Indices::one(at));
                any = true;
            }
        }
        any
    }

    /// Returns the subflows before `at` and the subflows from `at` on, for modification.
    pub(super) fn split_at_mut(&mut self, at: usize) -> (&mut [Subflow], &mut [Subflow]) {
        self.touched = Indices::ALL;
        self.list.split_at_mut(at)
    }

    /// Returns the subflows and their answers; some of the answers are outdated.
    #[inline]
    fn answers(&mut self) -> Option<(&[Subflow], &mut Answers)> {
        let answers = self.answers.as_deref_mut()?;
        if self.touched != Indices::NONE {
            answers.old.add(self.touched);
            self.touched = Indices::NONE;
        }
        Some((&self.list, answers))
    }

    /// Asks for everything to send.
    #[inline(never)]
    fn wanting(&mut self) -> Indices {
        let Some((list, answers)) = self.answers() else { return Indices::NONE };
        for at in answers.old.wanting.take_below(list.len()) {
            answers.wanting.set(at, list[at].wants_to_send());
        }
        let wanting = answers.wanting;
        debug_assert!((0..list.len()).all(|at| wanting.has(at) == list[at].wants_to_send()));
        wanting
    }

    /// Asks for received data.
    #[inline]
    fn received(&mut self) -> Option<&Answers> {
        let (list, answers) = self.answers()?;
        for at in answers.old.received.take_below(list.len()) {
            let receiver = list[at].recv();
            answers.draining.set(at, receiver.may_drain());
            let (before, bytes) = (answers.out_of_order[at], receiver.out_of_order());
            answers.out_of_order_total = answers.out_of_order_total + bytes - before;
            answers.out_of_order[at] = bytes;
        }
        Some(answers)
    }

    /// Asks for sent data.
    #[inline]
    fn sent(&mut self) -> Option<&Answers> {
        let (list, answers) = self.answers()?;
        for at in answers.old.sent.take_below(list.len()) {
            let subflow = &list[at];
            answers.lowest_data[at] = subflow.lowest_data().unwrap_or(u64::MAX);
            answers.synchronised.set(at, subflow.state().is_synchronised());
            answers.rto[at] = subflow.rto(answers.backoff);
        }
        Some(answers)
    }

    /// True if any subflow wants to send.
    #[inline(always)]
    pub(super) fn any_wants_to_send(&mut self) -> bool {
        match self.answers.is_some() {
            true => self.wanting() != Indices::NONE,
            false => self.list.iter().any(Subflow::wants_to_send),
        }
    }

    /// True if the subflow at `at` wants to send.
    #[inline(always)]
    pub(super) fn wants_to_send(&mut self, at: usize) -> bool {
        match self.answers.is_some() {
            true => self.wanting().has(at),
            false => self.list[at].wants_to_send(),
        }
    }

    /// Returns the first of the subflows' timeouts; if that is not before `known`, any time from then on.
    #[inline]
    pub(super) fn next_timeout(
        &mut self,
        known: Time,
        context: TimerContext<()>,
        wait_for_fin: impl Fn(&[Subflow]) -> Option<Duration>,
    ) -> Time {
        // The deadline of pacing depends on the time of the question.
        if context.paces || self.answers.is_none() {
            let context = context.with_fin_wait(|| wait_for_fin(&self.list));
            let mut first = Time::NEVER;
            for subflow in &self.list {
                first = first.min(subflow.next_timeout::<false, _>(known, &context));
            }
            return first;
        }
        let Some((list, answers)) = self.answers() else { return Time::NEVER };
        let context = context.with_fin_wait(|| wait_for_fin(list));
        let count = list.len().min(MOST);
        let mut old = answers.old.timers.take_below(count);
        if known > answers.horizon {
            for (at, due) in answers.due[..count].iter().enumerate() {
                if *due >= answers.horizon {
                    old.add(Indices::one(at));
                }
            }
        }
        answers.horizon = known;
        for at in old {
            let subflow = &list[at];
            answers.due[at] = subflow.next_timeout::<false, _>(known, &context);
            // The wait for a FIN depends on the other subflows.
            if subflow.state().tcp() == TcpState::FinWait2 {
                answers.old.timers.add(Indices::one(at));
            }
        }
        let mut first = Time::NEVER;
        for due in &answers.due[..count] {
            first = first.min(*due);
        }
        first
    }

    /// Brings `views` up to date, the views of the subflows that are not closed, in order; `all` of them, or
    /// only the views that may have changed since the last call.
    #[inline]
    pub(super) fn renew_views<P>(&mut self, views: &mut Vec<SubflowView>, all: bool, pacing_rate: P)
    where
        P: Fn(SubflowId) -> Option<Rate>,
    {
        if let Some((list, answers)) = self.answers() {
            let old = answers.old.views.take_below(list.len());
            let moved = |at| answers.viewed.has(at) == list[at].state().is_closed();
            if !all && !{ old }.any(moved) {
                for at in old.filter(|&at| answers.viewed.has(at)) {
                    let view = &mut views[answers.viewed.rank(at)];
                    list[at].renew_view(view, pacing_rate(list[at].id()));
                }
                debug_assert!(
                    list.iter()
                        .filter(|subflow| !subflow.state().is_closed())
                        .map(|subflow| subflow.view(pacing_rate(subflow.id())))
                        .eq(views.iter().copied())
                );
                return;
            }
            answers.viewed = Indices::NONE;
            for (at, subflow) in list.iter().enumerate() {
                answers.viewed.set(at, !subflow.state().is_closed());
            }
        }
        let mut live = self.list.iter().filter(|subflow| !subflow.state().is_closed());
        // The old views are overwritten: with a single subflow this happens for every acknowledgement.
        let mut used = 0;
        for (place, subflow) in views.iter_mut().zip(&mut live) {
            subflow.renew_view(place, pacing_rate(subflow.id()));
            used += 1;
        }
        views.truncate(used);
        views.extend(live.map(|subflow| subflow.view(pacing_rate(subflow.id()))));
    }

    /// Returns the bytes that all subflows have received out of order.
    #[inline]
    pub(super) fn out_of_order(&mut self) -> u64 {
        let known = self.received().map(|answers| answers.out_of_order_total);
        let asked = || self.list.iter().map(|subflow| subflow.recv().out_of_order()).sum();
        debug_assert!(known.is_none_or(|known| known == asked()));
        known.unwrap_or_else(asked)
    }

    /// Lets the subflows acknowledge the ends of bursts, after the application has read everything.
    #[inline]
    pub(super) fn on_drained(&mut self) {
        let Some(answers) = self.received() else {
            self.list.iter_mut().for_each(|subflow| subflow.recv_mut().on_drained());
            return;
        };
        let draining = answers.draining;
        debug_assert!((0..self.list.len()).all(|at| draining.has(at) == self.list[at].recv().may_drain()));
        for at in draining {
            self[at].recv_mut().on_drained();
        }
    }

    /// Returns the maximum retransmission timeout of the synchronised subflows.
    #[inline]
    pub(super) fn max_timeout(&mut self, config: &RtoConfig) -> Duration {
        let known = self.sent().map(|answers| {
            let rtos = answers.synchronised.map(|at| answers.rto[at]);
            rtos.max().unwrap_or(config.initial)
        });
        debug_assert!(known.is_none_or(|known| known == longest_timeout(&self.list, config)));
        known.unwrap_or_else(|| longest_timeout(&self.list, config))
    }

    /// Returns the lowest byte of the stream that a subflow carries.
    #[inline]
    pub(super) fn lowest_data(&mut self) -> Option<u64> {
        let count = self.list.len();
        let known = self.sent().map(|answers| {
            let lowest = answers.lowest_data[..count].iter().copied().min();
            lowest.filter(|&lowest| lowest < u64::MAX)
        });
        let asked = || self.list.iter().filter_map(Subflow::lowest_data).min();
        debug_assert!(known.is_none_or(|known| known == asked()));
        known.unwrap_or_else(asked)
    }

    /// True if it is known that the first data in flight on a synchronised subflow begins at `offset`.
    #[inline]
    pub(super) fn begins_with(&mut self, offset: u64) -> bool {
        let count = self.list.len();
        self.sent().is_some_and(|answers| {
            let mut begins = false;
            for (at, lowest) in answers.lowest_data[..count].iter().enumerate() {
                begins |= *lowest == offset && answers.synchronised.has(at);
            }
            begins
        })
    }

    /// True if the subflow at `at` is synchronised, and carries the byte at `offset` of the stream near the place of its
    /// last such query. That place is no part of an answer.
    #[inline]
    pub(super) fn carries_nearby(&mut self, at: usize, offset: u64) -> bool {
        let subflow = self.list.get_mut(at).filter(|subflow| subflow.state().is_synchronised());
        subflow.is_some_and(|subflow| subflow.carries_nearby(offset))
    }

    /// Returns the index of the first synchronised subflow that carries the byte at `offset` of the stream.
    pub(super) fn carrier(&mut self, offset: u64) -> Option<usize> {
        let carries = |subflow: &mut Subflow| subflow.state().is_synchronised() && subflow.carries(offset);
        self.list.iter_mut().position(carries)
    }

    /// Records that a subflow has advertised a window of `window` bytes, for all of them. If answers are remembered, each
    /// records it when it advertises one itself ([`Subflows::advertising`]).
    #[inline]
    pub(super) fn raise_shown_window(&mut self, window: u64) {
        match &mut self.answers {
            Some(answers) => {
                for raised in &mut answers.raised[..self.list.len().min(MOST)] {
                    *raised = (*raised).max(window as u32);
                }
            }
            None => self.list.iter_mut().for_each(|subflow| subflow.raise_shown_window(window)),
        }
    }

    /// Returns the subflow that is about to advertise a window, after it has recorded the windows of others.
    #[inline]
    pub(super) fn advertising(&mut self, at: usize) -> &mut Subflow {
        if let Some(answers) = &mut self.answers {
            let raised = core::mem::take(&mut answers.raised[at % MOST]);
            self.list[at].raise_shown_window(u64::from(raised));
        }
        &mut self.list[at]
    }
}

/// Returns the maximum retransmission timeout of the synchronised subflows.
pub(super) fn longest_timeout(subflows: &[Subflow], config: &RtoConfig) -> Duration {
    let synchronised = subflows.iter().filter(|subflow| subflow.state().is_synchronised());
    synchronised.map(|subflow| subflow.rto(config.backoff)).max().unwrap_or(config.initial)
}

impl Deref for Subflows {
    type Target = [Subflow];

    #[inline]
    fn deref(&self) -> &[Subflow] {
        &self.list
    }
}

impl Index<usize> for Subflows {
    type Output = Subflow;

    #[inline]
    fn index(&self, at: usize) -> &Subflow {
        &self.list[at]
    }
}

impl IndexMut<usize> for Subflows {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Subflow {
        self.touched.add(Indices::one(at));
        &mut self.list[at]
    }
}

impl<'a> IntoIterator for &'a Subflows {
    type Item = &'a Subflow;
    type IntoIter = slice::Iter<'a, Subflow>;

    fn into_iter(self) -> slice::Iter<'a, Subflow> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a mut Subflows {
    type Item = &'a mut Subflow;
    type IntoIter = slice::IterMut<'a, Subflow>;

    fn into_iter(self) -> slice::IterMut<'a, Subflow> {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    use anabranch_units::RandomStream;

    use crate::config::ConnectionConfig;
    use crate::scheduler::AssignKind;
    use crate::segment::{Address, PathId};
    use crate::seq::{DataRange, Seq};
    use crate::subflow::header::Edge;
    use crate::subflow::{ResetCause, SubflowSetup, TimerSlack, Tolerance};

    fn subflow(at: usize, now: Time, config: &ConnectionConfig) -> Subflow {
        let address = |host: u8| Address::new(IpAddr::from([10, 0, at as u8, host]), 80);
        let (local, remote, iss) = (address(1), address(2), Seq(at as u32));
        let setup =
            SubflowSetup { local, remote, path: PathId(0), iss, initiator: true, nonce: 1, join: None };
        Subflow::new(SubflowId(at as u8), now, &setup, 0, Tolerance::default(), config)
    }

    fn change(subflows: &mut Subflows, at: usize, now: Time, random: &mut RandomStream) {
        let config = ConnectionConfig::linux();
        match random.below(10) {
            0 => subflows[at].recv_mut().want_ack(),
            1 => subflows[at].probe(),
            2 => subflows[at].withdraw(now),
            3 => subflows[at].assign(DataRange::new(0, random.below(9000) + 1), AssignKind::New),
            4 => subflows[at].recall(DataRange::new(0, u64::MAX), |_, _| {}),
            5 => subflows[at].state_mut().request_reset(ResetCause::Gone),
            6 => subflows.replace(at, subflow(at, now, &config)),
            7 => subflows.iter_mut().for_each(Subflow::probe),
            8 => {
                if let Some(subflow) = subflows.get_mut(at) {
                    subflow.route_mut().on_backup_asked(random.chance(0.5));
                }
            }
            _ => subflows[at].recv_mut().cancel_ack(),
        }
    }

    /// Asks the subflows themselves, and compares.
    fn compare(
        subflows: &mut Subflows,
        views: &mut Vec<SubflowView>,
        known: Time,
        context: TimerContext<()>,
    ) {
        let config = ConnectionConfig::linux().rto;
        let list = subflows.list.clone();
        for (at, subflow) in list.iter().enumerate() {
            assert_eq!(subflows.wants_to_send(at), subflow.wants_to_send());
        }
        assert_eq!(subflows.any_wants_to_send(), list.iter().any(Subflow::wants_to_send));
        subflows.renew_views(views, false, |_| None);
        let live = list.iter().filter(|subflow| !subflow.state().is_closed());
        assert!(live.map(|subflow| subflow.view(None)).eq(views.iter().copied()));
        assert_eq!(subflows.max_timeout(&config), longest_timeout(&list, &config));
        assert_eq!(subflows.lowest_data(), list.iter().filter_map(Subflow::lowest_data).min());
        let bytes: u64 = list.iter().map(|subflow| subflow.recv().out_of_order()).sum();
        assert_eq!(subflows.out_of_order(), bytes);
        let exact = context.with_fin_wait(|| None);
        let due = |subflow: &Subflow| subflow.next_timeout::<true, _>(Time::NEVER, &exact);
        let due = list.iter().map(due).min().unwrap_or(Time::NEVER);
        let first = subflows.next_timeout(known, context, |_| None);
        assert!(first == due || first >= known && due >= known, "{first} for {due}, known {known}");
    }

    #[test]
    fn the_answers_are_those_of_the_subflows_themselves() {
        let config = ConnectionConfig::linux();
        let mut random = RandomStream::new(1, "subflows");
        let slack = TimerSlack { single: Duration::ZERO, other: Duration::ZERO };
        for most in [1, 2, 3, 8, MOST] {
            let mut subflows = Subflows::new();
            let mut views = Vec::new();
            let mut now = Time::ZERO;
            for _ in 0..2000 {
                now += Duration::from_millis(random.below(50));
                if subflows.len() < most && random.chance(0.1) {
                    let new = subflow(subflows.len(), now, &config);
                    subflows.push(new, &config.rto, FastPaths::On);
                }
                for _ in 0..random.below(3) {
                    if !subflows.is_empty() {
                        let at = random.below(subflows.len() as u64) as usize;
                        change(&mut subflows, at, now, &mut random);
                    }
                }
                let context = TimerContext { now, backoff: true, slack, paces: false, fin_wait: () };
                let known =
                    if random.chance(0.3) { Time::NEVER } else { now + Duration(random.below(1 << 31)) };
                compare(&mut subflows, &mut views, known, context);
            }
            assert_eq!(subflows.answers.is_some(), most >= SEVERAL);
        }
    }

    #[test]
    fn a_window_that_another_has_advertised_counts_when_the_next_is_advertised() {
        let (config, now) = (ConnectionConfig::linux(), Time::ZERO);
        let mut random = RandomStream::new(2, "subflows");
        let mut remembering = Subflows::new();
        let mut asking = Subflows::new();
        for at in 0..4 {
            remembering.push(subflow(at, now, &config), &config.rto, FastPaths::On);
            asking.push(subflow(at, now, &config), &config.rto, FastPaths::Off);
        }
        for _ in 0..5000 {
            let at = random.below(4) as usize;
            let window = random.below(60_000);
            match random.below(8) {
                0 => {
                    remembering.replace(at, subflow(at, now, &config));
                    asking.replace(at, subflow(at, now, &config));
                }
                1 => {
                    remembering.raise_shown_window(window);
                    asking.raise_shown_window(window);
                }
                _ => {
                    let offer = |_: u8, _: u64, _: bool| (window as u16, window);
                    let edge = if random.chance(0.8) { Edge::Stream } else { Edge::Subflow };
                    let shown = remembering.advertising(at).advertise(edge, offer);
                    assert_eq!(shown, asking.advertising(at).advertise(edge, offer));
                }
            }
        }
    }
}
