//! The subflows in TIME-WAIT of connections that have ended.

use std::collections::VecDeque;

use anabranch_units::Time;
use rustc_hash::FxHashMap;

use super::Endpoint;
use crate::connection::TimeWait;
use crate::observer::Observer;
use crate::segment::{Address, Join, Segment};
use crate::subflow::Late;

/// A local and a remote end.
type Ends = (Address, Address);

/// The most of them; beyond, the one noted first is forgotten. The tables of that many take 36 MB.
const MOST: usize = 1 << 17;

/// The subflows by their ends. The table is never iterated, so its order cannot affect results.
#[derive(Clone, Default)]
pub(super) struct TimeWaits {
    /// With the time in `order` under which each is found.
    by_ends: FxHashMap<Ends, (TimeWait, Time)>,
    /// The times at which they were to be forgotten when they were noted.
    order: VecDeque<(Time, Ends)>,
}

/// Whether a host may open a subflow with given ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// There was none lately.
    Free,
    /// In place of one in TIME-WAIT.
    Again,
    /// Not yet.
    Taken,
}

impl TimeWaits {
    /// Returns the number of subflows.
    pub(super) fn len(&self) -> usize {
        self.by_ends.len()
    }

    fn insert(&mut self, ends: Ends, wait: TimeWait) {
        self.order.push_back((wait.until(), ends));
        self.by_ends.insert(ends, (wait, wait.until()));
    }

    /// Forgets the subflow with these ends, and returns it.
    pub(super) fn take(&mut self, ends: Ends) -> Option<TimeWait> {
        self.by_ends.remove(&ends).map(|(wait, _)| wait)
    }

    fn get_mut(&mut self, now: Time, ends: Ends) -> Option<&mut TimeWait> {
        self.by_ends.get_mut(&ends).map(|(wait, _)| wait).filter(|wait| now < wait.until())
    }

    /// True if a segment between these ends may be for a subflow in TIME-WAIT.
    pub(super) fn has(&self, ends: Ends) -> bool {
        self.by_ends.contains_key(&ends)
    }

    /// Returns whether a subflow between these ends may begin.
    pub(super) fn place(&self, now: Time, ends: Ends) -> Place {
        match self.by_ends.get(&ends).filter(|(wait, _)| now < wait.until()) {
            None => Place::Free,
            Some((wait, _)) if wait.admits_new(now) => Place::Again,
            Some(_) => Place::Taken,
        }
    }

    /// Forgets the next subflow whose time is over at `now`, or that is one too many, and returns its ends.
    fn forget_one(&mut self, now: Time, most: usize) -> Option<Ends> {
        while let Some(&(due, ends)) = self.order.front() {
            let too_many = self.order.len() > most;
            if now < due && !too_many {
                return None;
            }
            self.order.pop_front();
            match self.by_ends.get_mut(&ends) {
                // It was forgotten before, and perhaps noted again since then.
                Some((_, noted)) if *noted != due => {}
                None => {}
                // A repeated FIN has made it last longer.
                Some((wait, noted)) if now < wait.until() && !too_many => {
                    *noted = wait.until();
                    self.order.push_back((wait.until(), ends));
                }
                Some(_) => {
                    self.by_ends.remove(&ends);
                    return Some(ends);
                }
            }
        }
        None
    }
}

impl<O: Observer> Endpoint<O> {
    /// Returns the number of subflows in TIME-WAIT of connections that have ended.
    pub fn time_waits(&self) -> usize {
        self.time_waits.len()
    }

    /// Notes a subflow in TIME-WAIT of a connection that has ended.
    pub(super) fn note_time_wait(&mut self, ends: Ends, wait: TimeWait) {
        self.time_waits.insert(ends, wait);
        self.forget_time_waits(Time::ZERO);
    }

    /// Forgets the subflows whose time in TIME-WAIT is over at `now`, and those that are too many.
    pub(super) fn forget_time_waits(&mut self, now: Time) {
        while let Some((local, remote)) = self.time_waits.forget_one(now, MOST) {
            self.demux.note_moved(local, remote, false);
        }
    }

    /// Handles a segment for a subflow in TIME-WAIT of a connection that has ended. Returns false if there is none, or if the segment may
    /// open another one in its place.
    #[cold]
    pub(super) fn is_late(&mut self, now: Time, segment: &Segment) -> bool {
        let ends = (segment.destination, segment.source);
        let heard = self.hears(segment);
        let Some(wait) = self.time_waits.get_mut(now, ends) else { return false };
        match wait.receive(now, segment) {
            None if heard => false,
            None | Some(Late::Answered | Late::Restarts) => {
                let (answer, path) = (wait.answer(now, ends.0, ends.1), wait.path());
                self.reply(path, answer);
                true
            }
            Some(Late::Ignored) => true,
            Some(Late::Ends) => {
                self.time_waits.take(ends);
                self.demux.note_moved(ends.0, ends.1, false);
                true
            }
        }
    }

    /// True if a SYN finds a listener or the connection that it joins.
    fn hears(&self, syn: &Segment) -> bool {
        match crate::connection::find_join(&syn.options) {
            Some(Join::Syn { token, .. }) => self.demux.by_token(token).is_some(),
            Some(_) => false,
            None => self.listeners.contains_key(&syn.destination.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;

    fn ends(port: u16) -> Ends {
        let ip = core::net::IpAddr::from([10, 0, 0, 1]);
        (Address::new(ip, port), Address::new(ip, 80))
    }

    fn wait(until: u64) -> TimeWait {
        TimeWait::example(Time::from_secs(until), Duration::from_secs(60))
    }

    #[test]
    fn those_noted_first_are_forgotten_where_there_are_too_many() {
        let mut waits = TimeWaits::default();
        for port in 1..=5 {
            waits.insert(ends(port), wait(100));
        }
        let forgotten: Vec<Option<Ends>> = (0..3).map(|_| waits.forget_one(Time::ZERO, 3)).collect();
        assert_eq!(forgotten, [Some(ends(1)), Some(ends(2)), None]);
        assert_eq!(waits.len(), 3);
    }

    // A host that uses a port again and again does not fill the queue with its entries.
    #[test]
    fn ends_that_are_noted_again_have_one_entry_when_the_old_ones_are_due() {
        let mut waits = TimeWaits::default();
        for second in 0..1000 {
            waits.take(ends(1));
            waits.insert(ends(1), wait(second + 60));
            assert_eq!(waits.forget_one(Time::from_secs(second), MOST), None);
        }
        assert!(waits.order.len() <= 61, "{}", waits.order.len());
        assert_eq!(waits.forget_one(Time::from_secs(1059), MOST), Some(ends(1)));
        assert_eq!((waits.len(), waits.order.len()), (0, 0));
    }
}
