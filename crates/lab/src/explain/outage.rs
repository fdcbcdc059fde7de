//! Outages as causes: the waits of a flow while a path was down, and until it carried data again.
//!
//! The chain of waits names the mechanism of each wait, such as a retransmission timeout. This pass gives to an outage those
//! waits that it has caused, and divides them exactly. A wait belongs to an outage
//!
//! * from the loss of data on the link that was down until that data was delivered in order by a later transmission: all
//!   waits of the stream, since the receiver waited for this data;
//! * from the first packet of the flow that the outage has dropped on a path until the path has delivered data that was sent
//!   after it: the waits for subflows on that path;
//! * while the link is down and keeps its packets, which it would have transmitted: their queueing and serialisation, and,
//!   without a loss, the waits for subflows on that path.

use anabranch_units::{Duration, Time};

use super::cause::Cause;
use super::chain::Charge;
use super::story::{Story, Waits};
use crate::scenario::Path;

/// A time in which a path was down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Outage {
    /// The position of the path.
    pub path: usize,
    pub from: Time,
    /// Its end; [`Time::NEVER`] if there was none.
    pub until: Time,
}

/// A packet of the flow that a link dropped because it was down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drop {
    pub at: Time,
    pub link: usize,
}

/// The outages of the links of a run, and the packets of a flow that they have dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages {
    /// By link: the times at which it went down and came up.
    pub downs: Vec<Vec<(Time, Time)>>,
    /// In order of time.
    pub drops: Vec<Drop>,
}

/// A time in which waits belong to an outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    from: Time,
    until: Time,
    outage: Outage,
    /// Which waits.
    scope: Scope,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// All waits of the stream.
    Stream,
    /// The waits for subflows on the path.
    Path,
    /// Those for its links.
    Links,
}

/// True for waits of the sender or the receiver that end when a path carries data.
fn is_wait(cause: Cause) -> bool {
    match cause {
        Cause::Handshake
        | Cause::SendBuffer
        | Cause::ReceiveWindow
        | Cause::CongestionWindow
        | Cause::Pacing
        | Cause::Scheduler
        | Cause::Retransmission
        | Cause::HeadOfLine => true,
        Cause::Application | Cause::Queueing | Cause::Serialisation | Cause::Propagation | Cause::Outage => {
            false
        }
    }
}

impl Outages {
    /// Returns the outage of `link` at `at`, on one of `paths`.
    fn of(&self, paths: &[Path], link: usize, at: Time) -> Option<Outage> {
        let (from, until) =
            *self.downs.get(link)?.iter().rfind(|(from, until)| *from <= at && at <= *until)?;
        Some(Outage { path: path_of(paths, link)?, from, until })
    }

    /// Returns the outages that have dropped packets of the flow, and had not ended when the run did, or after whose drops
    /// nothing more was delivered than until `last`.
    pub(super) fn unended(&self, paths: &[Path], last: Time) -> Vec<Outage> {
        let of = |drop: &Drop| {
            let outage = self.of(paths, drop.link, drop.at)?;
            (!outage.until.is_armed() || drop.at > last).then_some(outage)
        };
        let mut found: Vec<Outage> = self.drops.iter().filter_map(of).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Gives the waits of `charges`, which end at `end` and go back in time, to the outages that have caused them, by
    /// the `spells` of their stream.
    pub(super) fn attribute(charges: Vec<Charge>, end: Time, spells: &[Spell]) -> Vec<Charge> {
        if spells.is_empty() {
            return charges;
        }
        let mut found = Vec::with_capacity(charges.len());
        let mut to = end;
        for charge in charges {
            let from = Time(to.0 - charge.span.0);
            let applies = |spell: &&Spell| match spell.scope {
                Scope::Stream => is_wait(charge.cause),
                Scope::Path => is_wait(charge.cause) && charge.path == Some(spell.outage.path),
                Scope::Links => {
                    matches!(charge.cause, Cause::Queueing | Cause::Serialisation)
                        && charge.path == Some(spell.outage.path)
                }
            };
            // Back in time, the pieces between the ends of spells.
            let mut now = to;
            while now > from {
                let covering =
                    spells.iter().filter(applies).find(|spell| spell.from < now && now <= spell.until);
                let next = match covering {
                    Some(spell) => spell.from.max(from),
                    None => {
                        let ends = spells.iter().filter(applies).map(|spell| spell.until);
                        ends.filter(|until| *until < now).max().unwrap_or(from).max(from)
                    }
                };
                let span = now.since(next);
                found.push(match covering {
                    Some(spell) => Charge {
                        cause: Cause::Outage,
                        span,
                        outage: Some(spell.outage),
                        overflow: false,
                        ..charge
                    },
                    None => Charge { span, ..charge },
                });
                now = next;
            }
            to = from;
        }
        found
    }

    /// Returns the times in which waits of a stream belong to outages of `paths`, with the path of each subflow. Its last byte
    /// is delivered at `end`.
    pub(super) fn spells(
        &self,
        story: &Story,
        waits: &Waits,
        (paths, subflows): (&[Path], &[Option<usize>]),
        end: Time,
    ) -> Vec<Spell> {
        let mut spells = Vec::new();
        if self.downs.iter().all(Vec::is_empty) {
            return spells;
        }
        // Lost data, until it is delivered.
        if !self.drops.is_empty() {
            for (byte, delivered) in waits.missing_bytes() {
                let Some((mut number, _)) = waits.carrier(byte) else { continue };
                let mut lost = None;
                while let Some((earlier, one)) = story.earlier(number, byte) {
                    let link = one.hops.last().map(|hop| hop.link);
                    if let Some((at, _)) = one.dropped
                        && let Some(link) = link.filter(|link| self.has_dropped(at, *link))
                        && let Some(outage) = self.of(paths, link, at)
                    {
                        lost = Some((at, outage));
                    }
                    number = earlier;
                }
                if let Some((from, outage)) = lost {
                    spells.push(Spell { from, until: delivered, outage, scope: Scope::Stream });
                }
            }
        }
        // A path, from the first loss until it carries data again.
        let mut seen: Vec<Outage> = Vec::new();
        for drop in &self.drops {
            let Some(outage) = self.of(paths, drop.link, drop.at) else { continue };
            if seen.iter().any(|other| other.path == outage.path && other.from == outage.from) {
                continue;
            }
            seen.push(outage);
            let again = story
                .transmissions
                .iter()
                .filter(|one| one.sent >= drop.at && subflows.get(one.subflow) == Some(&Some(outage.path)));
            let until = again.filter_map(|one| one.arrived()).min().unwrap_or(end);
            spells.push(Spell { from: drop.at, until, outage, scope: Scope::Path });
        }
        for (link, downs) in self.downs.iter().enumerate() {
            let Some(path) = path_of(paths, link) else { continue };
            for &(from, until) in downs {
                let outage = Outage { path, from, until };
                spells.push(Spell { from, until: until.min(end), outage, scope: Scope::Links });
                if !seen.iter().any(|other| other.path == path && other.from == from) {
                    spells.push(Spell { from, until: until.min(end), outage, scope: Scope::Path });
                }
            }
        }
        spells
    }

    fn has_dropped(&self, at: Time, link: usize) -> bool {
        let first = self.drops.partition_point(|drop| drop.at < at);
        self.drops[first..].iter().take_while(|drop| drop.at == at).any(|drop| drop.link == link)
    }
}

/// Returns the path with this link.
fn path_of(paths: &[Path], link: usize) -> Option<usize> {
    paths.iter().position(|path| path.data.iter().chain(&path.acks).flatten().any(|other| *other == link))
}

/// Returns the sum of the waits for an outage.
pub(super) fn waited(charges: &[Charge]) -> impl Iterator<Item = (Outage, Duration)> {
    charges.iter().filter_map(|charge| Some((charge.outage?, charge.span)))
}
