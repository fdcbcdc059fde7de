//! The path manager `anabranch`: a further subflow is opened at once where it helps, and otherwise only if the connection
//! lasts longer than predicted.
//!
//! The initiator knows its paths from earlier connections, and how much data it expects. The [prediction](crate::prediction)
//! says how much the subflows that are there will have delivered by the time at which the first data could arrive over a
//! further one. If that is everything, the further one is held back.
//!
//! * The pairs of addresses are those of [`FullMesh`].
//! * An unknown path is opened at once, and so it becomes known. So are all if the first one, or the amount, is not known.
//! * Once a subflow that helps has ended or its address is down, nothing is held back any more.
//!
//! Which path is the first one is the decision of whoever opens the connection.

use std::collections::VecDeque;

use anabranch_units::Duration;
use core::net::IpAddr;

use super::{FullMesh, HostAddress, PathCommand, PathEvent, PathManager};
use crate::known::KnownPath;
use crate::prediction::{PathState, completion};

/// A subflow that does not help is held back for this multiple of the predicted time of the connection.
const LATER: f64 = 1.25;

/// What the path manager knows of a connection beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JoinRules {
    /// The path of each local address, in the order of the host's configuration. `None`, or none at all: not known.
    pub paths: Vec<Option<KnownPath>>,
    /// The bytes that the connection is expected to carry in its larger direction; `None`: not known.
    pub expected: Option<u64>,
    /// True if most of them come from the peer.
    pub from_peer: bool,
    /// The initial window in bytes.
    pub initial_window: u32,
    /// The payload of a segment in bytes.
    pub mss: u32,
}

/// A subflow and the time of its first possible transmission, in seconds since joins may begin.
#[derive(Clone, Copy, Debug)]
struct Sender {
    state: PathState,
    begin: f64,
}

impl Sender {
    /// Returns the bytes that it has delivered at `time`.
    fn delivered(&self, time: f64) -> f64 {
        self.state.delivered(time - self.begin)
    }
}

/// The path manager of one connection.
#[derive(Clone, Debug)]
pub struct Anabranch {
    rules: JoinRules,
    mesh: FullMesh,
    local: Vec<IpAddr>,
    /// The subflows that carry the connection, with their local addresses.
    senders: Vec<(IpAddr, Sender)>,
    /// Requests for subflows that are held back.
    held: Vec<PathCommand>,
    /// True if a subflow has ended: nothing is held back from then on.
    lost: bool,
    commands: VecDeque<PathCommand>,
}

impl Anabranch {
    /// Returns a path manager for a host with these addresses.
    pub fn new(rules: JoinRules, addresses: &[HostAddress]) -> Anabranch {
        Anabranch {
            rules,
            mesh: FullMesh::new(addresses),
            local: addresses.iter().map(|own| own.ip).collect(),
            senders: Vec::new(),
            held: Vec::new(),
            lost: false,
            commands: VecDeque::new(),
        }
    }

    /// Returns the subflow over the path of a local address, if that is known. It begins so many round trips after joins may.
    fn sender(&self, local: IpAddr, round_trips: f64) -> Option<Sender> {
        let at = self.local.iter().position(|own| *own == local)?;
        let known = self.rules.paths.get(at).copied().flatten()?;
        let state = PathState {
            base_rtt: known.rtt,
            rtt: known.rtt,
            free: f64::from(self.rules.initial_window),
            flight: 0.0,
            acks: (0.0, 0.0),
            backlog: 0.0,
            rate: known.rate,
            ssthresh: f64::INFINITY,
            growth: 1.0,
            limit: f64::INFINITY,
            loss: known.loss,
            mss: f64::from(self.rules.mss),
        };
        Some(Sender { state, begin: round_trips * known.rtt })
    }

    /// Returns the bytes that all subflows have delivered at `time`.
    fn delivered(&self, time: f64) -> f64 {
        self.senders.iter().map(|(_, sender)| sender.delivered(time)).sum()
    }

    /// Returns the time at which the subflows have delivered `bytes`.
    fn completion(&self, bytes: f64) -> f64 {
        completion(bytes, |time| self.delivered(time))
    }

    /// Notes the first subflow. Its first flight has left a round trip before joins may begin, for they wait for its
    /// acknowledgement; the peer's left half a round trip before.
    fn on_first(&mut self, local: IpAddr) {
        let since = if self.rules.from_peer { -0.5 } else { -1.0 };
        self.senders.extend(self.sender(local, since).map(|sender| (local, sender)));
    }

    /// Returns the subflow from `local` if it is opened now, and the time of its first data. A listener may send on it when
    /// the third packet of the handshake has arrived, the initiator when the fourth has (RFC 8684 section 3.2).
    fn candidate(&self, local: IpAddr) -> Option<(Sender, f64)> {
        let sender = self.sender(local, if self.rules.from_peer { 1.5 } else { 2.0 })?;
        Some((sender, sender.begin + sender.state.arrival(f64::from(self.rules.mss))))
    }

    /// Passes on the commands of the mesh: subflows from the nearest to the farthest, each one at once or held back.
    fn decide(&mut self) {
        let mut wanted = Vec::new();
        while let Some(command) = self.mesh.poll() {
            match command {
                PathCommand::SubflowCreate { local, .. } => wanted.push((self.candidate(local), command)),
                other => self.commands.push_back(other),
            }
        }
        let time = |candidate: &Option<(Sender, f64)>| candidate.map_or(0.0, |(_, first)| first);
        wanted.sort_by(|a, b| time(&a.0).total_cmp(&time(&b.0)));
        let expected = self.rules.expected.filter(|_| !self.lost && !self.senders.is_empty());
        for (candidate, mut command) in wanted {
            if let PathCommand::SubflowCreate { local, after, .. } = &mut command
                && let Some((sender, first)) = candidate
                && let Some(bytes) = expected
            {
                if self.delivered(first) < bytes as f64 {
                    self.senders.push((*local, sender));
                } else {
                    *after = Duration::from_secs_f64((LATER * self.completion(bytes as f64)).min(1e6));
                    self.held.push(command);
                }
            }
            self.commands.push_back(command);
        }
    }

    /// True if the subflow from `local` carries the connection.
    fn helps(&self, local: IpAddr) -> bool {
        self.senders.iter().any(|(own, _)| *own == local)
    }

    /// Forgets the subflow from `local`, if it is held back.
    fn forget(&mut self, local: IpAddr) {
        self.held
            .retain(|held| !matches!(held, PathCommand::SubflowCreate { local: own, .. } if *own == local));
    }

    /// Opens everything that is held back.
    fn release(&mut self) {
        self.lost = true;
        for mut command in core::mem::take(&mut self.held) {
            if let PathCommand::SubflowCreate { after, .. } = &mut command {
                *after = Duration::ZERO;
            }
            self.commands.push_back(command);
        }
    }
}

impl PathManager for Anabranch {
    fn on_event(&mut self, event: &PathEvent) {
        match *event {
            PathEvent::Established { initiator: true, local, .. } => self.on_first(local.ip),
            PathEvent::SubflowEstablished { local, .. } => self.forget(local.ip),
            PathEvent::SubflowClosed { local, .. } if self.helps(local.ip) => self.release(),
            PathEvent::LocalDown(ip) => {
                self.forget(ip);
                if self.helps(ip) {
                    self.release();
                }
            }
            _ => {}
        }
        self.mesh.on_event(event);
        self.decide();
    }

    fn poll(&mut self) -> Option<PathCommand> {
        self.commands.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SubflowId;
    use crate::segment::Address;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    const MSS: f64 = 1420.0;

    /// The joins of a connection that carries `expected` bytes over paths of these round trips (ms) and rates (Mbit/s): the
    /// position of each, and the seconds for which it is held back.
    fn joins(paths: &[(f64, f64)], expected: Option<u64>, from_peer: bool) -> (Anabranch, Vec<(usize, f64)>) {
        let known = |&(rtt, rate): &(f64, f64)| {
            (rtt > 0.0).then_some(KnownPath { rtt: rtt / 1e3, rate: rate * 1e6 / 8.0, loss: 0.0 })
        };
        let rules = JoinRules {
            paths: paths.iter().map(known).collect(),
            expected,
            from_peer,
            initial_window: (10.0 * MSS) as u32,
            mss: MSS as u32,
        };
        let host = |at: usize| HostAddress { id: at as u8 + 1, ip: ip(at as u8 + 1), backup: false };
        let addresses: Vec<HostAddress> = (0..paths.len()).map(host).collect();
        let mut manager = Anabranch::new(rules, &addresses);
        manager.on_event(&PathEvent::Established {
            initiator: true,
            local: Address::new(ip(1), 5000),
            remote: Address::new(ip(99), 80),
            deny_join_initial: false,
        });
        let asked = opened(&mut manager);
        (manager, asked)
    }

    fn opened(manager: &mut Anabranch) -> Vec<(usize, f64)> {
        core::iter::from_fn(|| manager.poll())
            .map(|command| match command {
                PathCommand::SubflowCreate { local_id, after, .. } => {
                    (usize::from(local_id) - 1, after.as_secs_f64())
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// At 8 Mbit/s and 20 ms, 14.2 of 30 KB are the first flight, and the rest begins a round trip later and takes 15.8 ms. That is
    /// 45.8 ms after the first flight has left, 10 ms before joins may begin. Data of a path of 60 ms comes after 120 ms.
    #[test]
    fn a_join_that_comes_too_late_is_held_back_for_longer_than_the_flow_takes() {
        let paths = [(20.0, 8.0), (60.0, 8.0)];
        let (_, asked) = joins(&paths, Some(30_000), true);
        let [(1, after)] = asked[..] else { panic!("{asked:?}") };
        assert!((after / LATER - 0.0358).abs() < 0.0002, "{after}");
        assert_eq!(joins(&paths, Some(150_000), true).1, [(1, 0.0)]);
    }

    #[test]
    fn an_upload_can_use_a_join_half_a_round_trip_later_than_a_download() {
        let paths = [(20.0, 8.0), (60.0, 8.0)];
        // First data after 121.4 ms and 151.4 ms. The first subflow has carried a kilobyte each millisecond since 0 and -10 ms,
        // but for 5.8 ms of its first round trip.
        let helped = |from_peer: bool| {
            let held = |bytes: u64| joins(&paths, Some(bytes), from_peer).1[0].1 > 0.0;
            (1..).map(|step| step * 1000).find(|bytes| !held(*bytes)).unwrap()
        };
        let (down, up) = (helped(true), helped(false));
        assert!((115_000..=117_000).contains(&down), "{down}");
        assert!((down + 39_000..=down + 41_000).contains(&up), "{up}");
    }

    #[test]
    fn what_is_not_known_is_opened_at_once() {
        assert_eq!(joins(&[(20.0, 8.0), (60.0, 8.0)], None, true).1, [(1, 0.0)], "the amount");
        assert_eq!(joins(&[(20.0, 8.0), (0.0, 0.0)], Some(1000), true).1, [(1, 0.0)], "the further path");
        assert_eq!(joins(&[(0.0, 0.0), (60.0, 8.0)], Some(1000), true).1, [(1, 0.0)], "the first path");
    }

    /// The nearest further path helps, and with it the farthest no longer does.
    #[test]
    fn subflows_that_are_about_to_be_opened_count() {
        let asked = joins(&[(20.0, 2.0), (400.0, 8.0), (10.0, 80.0)], Some(400_000), true).1;
        let [(2, now), (1, later)] = asked[..] else { panic!("{asked:?}") };
        assert!(now == 0.0 && later > 0.0, "{asked:?}");
        let alone = joins(&[(20.0, 2.0), (400.0, 8.0)], Some(400_000), true).1;
        assert_eq!(alone, [(1, 0.0)]);
    }

    #[test]
    fn the_end_of_a_subflow_that_helps_opens_what_was_held_back() {
        let paths = [(20.0, 8.0), (60.0, 8.0), (80.0, 8.0)];
        let closed = |last: u8| PathEvent::SubflowClosed {
            id: SubflowId(0),
            local: Address::new(ip(last), 5000),
            remote: Address::new(ip(99), 80),
            reset: None,
        };
        let (mut manager, asked) = joins(&paths, Some(30_000), true);
        assert!(asked.len() == 2 && asked.iter().all(|(_, after)| *after > 0.0), "{asked:?}");
        manager.on_event(&closed(2));
        assert_eq!(opened(&mut manager), [], "a path that does not help");
        manager.on_event(&closed(1));
        assert_eq!(opened(&mut manager), [(1, 0.0), (2, 0.0)]);
        let (mut manager, _) = joins(&paths, Some(30_000), true);
        manager.on_event(&PathEvent::LocalDown(ip(2)));
        let removed = manager.poll();
        assert!(matches!(removed, Some(PathCommand::Remove { id: 2 })), "{removed:?}");
        manager.on_event(&PathEvent::LocalDown(ip(1)));
        let asked: Vec<PathCommand> = core::iter::from_fn(|| manager.poll()).collect();
        assert!(
            matches!(
                asked[..],
                [
                    PathCommand::SubflowCreate { local_id: 3, after: Duration::ZERO, .. },
                    PathCommand::Remove { id: 1 }
                ]
            ),
            "{asked:?}"
        );
    }
}
