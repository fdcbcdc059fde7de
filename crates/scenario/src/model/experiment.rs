//! An experiment: the network, the traffic, and the questions that both answer together.

use anabranch_link::{Change, MiddleboxConfig};
use anabranch_stack::config::Profile;
use anabranch_units::{Duration, Time};

use super::class::{TrafficClass, Via, main_class};
use super::endpoints::Endpoints;
use super::graph::{Graph, Link, Pair, Path, Signal};
use super::phases::PhaseChoice;
use super::tariff::Tariff;
use super::traffic::{Direction, Traffic};

/// The experiment, without the contenders.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The sender and receiver.
    pub profile: Profile,
    /// The hosts, the routers and the links.
    pub graph: Graph,
    /// The client and the server of each flow: [`Traffic::pairs`], followed by the pairs of other flows.
    pub pairs: Vec<Pair>,
    /// The position of the path that the initial subflow takes.
    pub initial: usize,
    /// The way in which that path was chosen.
    pub initial_choice: InitialChoice,
    /// The addresses of the server and the rules of both hosts; none for one address and a full mesh.
    pub endpoints: Option<Endpoints>,
    /// True if addresses and headers are IPv6.
    pub ipv6: bool,
    /// The traffic. With several classes: the pairs and the direction of the network, and the size of the main class.
    pub traffic: Traffic,
    /// The classes of the traffic; empty if it consists of transfers of one kind.
    pub classes: Vec<TrafficClass>,
    /// The time limit of a run.
    pub deadline: Duration,
    /// Small random shifts of each run.
    pub phases: PhaseChoice,
}

/// The way in which the path of the initial subflow was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialChoice {
    /// By default: the first one that is listed.
    #[default]
    First,
    /// By its name in the scenario.
    Given,
    /// The best by a host's estimate beforehand ([`estimate`](crate::estimate)).
    Best,
    /// By a race: the first one listed, and after a delay the next one too; the first answer decides. The position is
    /// the first one's.
    Race,
}

impl InitialChoice {
    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            InitialChoice::First => "first",
            InitialChoice::Given => "given",
            InitialChoice::Best => "best",
            InitialChoice::Race => "race",
        }
    }
}

/// A time in which a path of the flows is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The position of the path.
    pub path: usize,
    /// Its beginning.
    pub from: Time,
    /// Its end; [`Time::NEVER`] if there is none.
    pub until: Time,
}

impl Experiment {
    /// Returns the outages of the paths of the flows, by path and time: a path is down while a link of its first route is, in
    /// either direction.
    pub fn outages(&self) -> Vec<Outage> {
        let mut all = Vec::new();
        for (path, of) in self.paths().iter().enumerate() {
            let mut downs: Vec<(Time, Time)> = Vec::new();
            for &link in of.data.first().into_iter().chain(of.acks.first()).flatten() {
                let mut from = None;
                for step in &self.graph.links[link].config.timeline {
                    match step.change {
                        Change::Down => from = from.or(Some(step.at)),
                        Change::Up => downs.extend(from.take().map(|from| (from, step.at))),
                        _ => {}
                    }
                }
                downs.extend(from.map(|from| (from, Time::NEVER)));
            }
            downs.sort_unstable();
            let mut merged: Vec<Outage> = Vec::new();
            for (from, until) in downs {
                match merged.last_mut().filter(|last| from <= last.until) {
                    Some(last) => last.until = last.until.max(until),
                    None => merged.push(Outage { path, from, until }),
                }
            }
            all.append(&mut merged);
        }
        all
    }

    /// True if a path may carry data at some time from `at` on: this one, or without `path` any of the flows.
    pub fn is_up_after(&self, at: Time, path: Option<usize>) -> bool {
        let outages = self.outages();
        let for_good = |path: usize| {
            outages.iter().any(|one| one.path == path && one.from <= at && one.until == Time::NEVER)
        };
        match path {
            Some(path) => !for_good(path),
            None => (0..self.paths().len()).any(|path| !for_good(path)),
        }
    }

    /// True if a link changes during the run, goes down or comes up.
    pub fn changes(&self) -> bool {
        self.graph.links.iter().any(|link| !link.config.timeline.is_empty() || !link.signals.is_empty())
    }

    /// Returns the paths of the flows, as results name them: the paths of the pair that has most.
    pub fn paths(&self) -> &[Path] {
        let flows = &self.pairs[..self.traffic.pairs];
        // The first of several.
        flows.iter().rev().max_by_key(|pair| pair.paths.len()).map_or(&[], |pair| &pair.paths)
    }

    /// Returns the name of the main class of traffic, by which the path of `tcp` is chosen; none without classes.
    pub fn main_class(&self) -> Option<&str> {
        main_class(&self.classes).map(|at| self.classes[at].name.as_str())
    }

    /// True if some flow of a contender is sent by the side that listens.
    pub fn has_downloads(&self) -> bool {
        match self.classes.as_slice() {
            [] => self.traffic.direction == Direction::Download,
            classes => classes
                .iter()
                .any(|class| class.via == Via::Contender && class.direction == Direction::Download),
        }
    }

    /// Returns the pair of hosts of each flow.
    pub fn flow_pairs(&self) -> &[Pair] {
        &self.pairs[..self.traffic.pairs]
    }

    /// Checks that there are one client and one server with a fixed route for each path, so that their
    /// network can be emulated.
    ///
    /// # Errors
    /// The reason that it cannot be emulated.
    pub fn has_fixed_paths(&self) -> Result<(), String> {
        if self.pairs.len() > 1 {
            return Err(format!(
                "its flows are between {} pairs of hosts, and the emulator has one client and one server",
                self.pairs.len()
            ));
        }
        match self.pairs[0].paths.iter().find(|path| self.graph.has_equal_cost_routes(path)) {
            Some(path) => Err(format!(
                "path {} has several routes of equal cost, and the emulator has one; give it by a `[[route]]`",
                path.name
            )),
            None => self.pairs[0].paths.iter().try_for_each(|path| match path {
                Path { middlebox: MiddleboxConfig { proxy: Some(_), .. }, name, .. } => Err(format!(
                    "path {name} has a TCP proxy, which exists in the simulator only; run a proxy program in the emulated network, or \
                     leave `proxy` out"
                )),
                Path { tariff: Tariff { becomes_backup: true, .. }, name, .. } => Err(format!(
                    "path {name} becomes a backup beyond its quota, in the simulator only; run `ip mptcp endpoint change` in the \
                     emulated network, or leave `over-quota` out"
                )),
                _ => Ok(()),
            }),
        }
    }

    /// Returns the changes of the client's interfaces that its host notices, each with the position of its path, in the
    /// order of their times.
    pub fn signals(&self) -> Vec<(usize, Signal)> {
        let mut all = Vec::new();
        for (position, path) in self.paths().iter().enumerate() {
            all.extend(self.interface(path).iter().map(|signal| (position, *signal)));
        }
        all.sort_by_key(|(position, signal)| (signal.at, *position));
        all
    }

    /// Returns the changes that the client notices of its interface on a path.
    pub fn interface(&self, path: &Path) -> &[Signal] {
        // The link by which packets leave the interface.
        let (out, _) = self.routes(path, Direction::Upload);
        let first = out.first().and_then(|route| route.first());
        first.map_or(&[][..], |&link| &self.graph.links[link].signals)
    }

    /// Returns the routes of a path for data in this direction, and for their acknowledgements: a path is described in the direction
    /// of the first class of traffic.
    pub fn routes<'a>(&self, path: &'a Path, direction: Direction) -> (&'a [Vec<usize>], &'a [Vec<usize>]) {
        match direction == self.traffic.direction {
            true => (&path.data, &path.acks),
            false => (&path.acks, &path.data),
        }
    }

    /// True if the client has noticed by this time that its interface on the path is down.
    pub fn is_noticed_down(&self, path: &Path, at: Time) -> bool {
        let noticed = self.interface(path).iter().filter(|signal| signal.at <= at);
        noticed.max_by_key(|signal| signal.at).is_some_and(|last| !last.up)
    }

    /// Returns the round-trip time without load of the path at `position`.
    pub fn rtt(&self, position: usize) -> Duration {
        self.graph.path_rtt(&self.paths()[position])
    }

    /// Returns the shortest round-trip time of all paths without load.
    pub fn shortest_rtt(&self) -> Duration {
        let paths = self.flow_pairs().iter().flat_map(|pair| &pair.paths);
        paths.map(|path| self.graph.path_rtt(path)).min().unwrap_or_default()
    }

    /// Returns the link of a path at the client's interface, in the direction of the data.
    pub fn own_link(&self, path: &Path) -> &Link {
        let route = path.data.first().map_or(&[][..], Vec::as_slice);
        let own = match self.traffic.direction {
            Direction::Upload => route.first(),
            Direction::Download => route.last(),
        };
        &self.graph.links[own.copied().unwrap_or(0)]
    }

    /// Returns the same link's counterpart, in the direction of the acknowledgements.
    pub fn own_ack_link(&self, path: &Path) -> &Link {
        let route = path.acks.first().map_or(&[][..], Vec::as_slice);
        let own = match self.traffic.direction {
            Direction::Upload => route.last(),
            Direction::Download => route.first(),
        };
        &self.graph.links[own.copied().unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_down_while_a_link_of_it_is() {
        let text = "path = [
            { rate = '10 Mbit/s', rtt = '20 ms' },
            { rate = '10 Mbit/s', rtt = '20 ms', change = [
                { at = '1 s', down = true }, { at = '2 s', up = true }, { at = '5 s', down = true },
            ] },
        ]";
        let scenario = crate::Document::parse("test", text, ".").unwrap().scenario().unwrap();
        let mut experiment = scenario.conditions[0].experiment.clone();
        let found = |experiment: &Experiment| -> Vec<(usize, f64, Option<f64>)> {
            let seconds = |outage: &Outage| {
                let until = outage.until.is_armed().then(|| outage.until.as_secs_f64());
                (outage.path, outage.from.as_secs_f64(), until)
            };
            experiment.outages().iter().map(seconds).collect()
        };
        assert_eq!(found(&experiment), [(1, 1.0, Some(2.0)), (1, 5.0, None)]);
        let second = |at| experiment.is_up_after(Time::from_secs(at), Some(1));
        assert_eq!([1, 4, 5].map(second), [true, true, false], "it is up again from 2 s to 5 s");
        assert!(experiment.is_up_after(Time::from_secs(9), None));
        // The acknowledgements come back later than the data.
        let acks = experiment.paths()[1].acks[0][0];
        experiment.graph.links[acks].config.timeline[1].at += anabranch_units::Duration::from_secs(1);
        assert_eq!(found(&experiment), [(1, 1.0, Some(3.0)), (1, 5.0, None)]);
        // An outage of the acknowledgements within one of the data.
        let data = experiment.paths()[1].data[0][0];
        let timeline = |experiment: &mut Experiment, link: usize, step: usize, at: u64| {
            experiment.graph.links[link].config.timeline[step].at = Time::from_secs(at);
        };
        timeline(&mut experiment, data, 1, 4);
        timeline(&mut experiment, acks, 0, 2);
        assert_eq!(found(&experiment), [(1, 1.0, Some(4.0)), (1, 5.0, None)]);
        // A link that is down goes down again: the outage has begun before.
        for link in [data, acks] {
            let again = experiment.graph.links[link].config.timeline[2].clone();
            experiment.graph.links[link].config.timeline.push(again);
            timeline(&mut experiment, link, 3, 7);
        }
        assert_eq!(found(&experiment), [(1, 1.0, Some(4.0)), (1, 5.0, None)]);
    }
}
