//! The flows of a run with classes of traffic.

use anabranch_sim::FlowSpec;
use anabranch_sim::traffic::{FlowSource, Sizes, Starts};
use anabranch_units::{Duration, RandomStream, Time};

use super::{Choice, Class, Owned, Owner, Prepared, RunError, Task, impossible};
use super::{endpoints, joins, scatter};
use crate::scenario::lower_bound::Limits;
use crate::scenario::{Direction, Experiment, Kind, Pair, Path, Start, TrafficClass, Via};

/// Returns the experiment with its data in the other direction.
pub(super) fn reversed(experiment: &Experiment) -> Experiment {
    let mut other = experiment.clone();
    other.traffic.direction = match experiment.traffic.direction {
        Direction::Upload => Direction::Download,
        Direction::Download => Direction::Upload,
    };
    other.pairs.iter_mut().for_each(turn);
    other
}

fn turn(pair: &mut Pair) {
    for Path { data, acks, .. } in &mut pair.paths {
        core::mem::swap(data, acks);
    }
}

/// True if a class of transfers has the opposite direction to the network's data.
pub(super) fn have_reverse_transfers(experiment: &Experiment) -> bool {
    let against = |class: &TrafficClass| class.direction != experiment.traffic.direction;
    experiment.classes.iter().any(|class| against(class) && matches!(class.kind, Kind::Transfer { .. }))
}

/// Returns the starts of a class's flows.
fn starts(experiment: &Experiment, class: &TrafficClass) -> Starts {
    match &class.start {
        Start::Together(at) => Starts::Together { at: *at, count: class.flows as usize },
        Start::At(times) => Starts::At(times.clone()),
        Start::Every { from, gap } => {
            Starts::Gaps { from: *from, gap: gap.clone(), count: class.flows as usize }
        }
        Start::Poisson { from, load } => {
            let against = class.direction != experiment.traffic.direction;
            let rate = |pair: &usize| {
                let mut pair = experiment.pairs[*pair].clone();
                if against {
                    turn(&mut pair);
                }
                experiment.graph.max_flow(&pair, |link| Some(link.mean_rate()))
            };
            let rate = class.pairs.iter().map(rate).fold(0, u64::saturating_add);
            let mean = match &class.kind {
                Kind::Transfer { size, .. } => size.mean().unwrap_or(0.0),
                _ => 0.0,
            };
            Starts::Poisson {
                from: *from,
                until: Time::NEVER,
                mean_gap: Duration::from_secs_f64(mean * 8.0 / (rate as f64 * load)).max(Duration(1)),
                max_count: Some(class.flows as usize),
            }
        }
    }
}

impl Prepared<'_> {
    /// Returns the limits for the direction of a class, with the position of the direction; none if there is no lower
    /// bound for its kind.
    pub(super) fn way(&self, group: usize) -> Option<(usize, &[Limits])> {
        let experiment = &self.condition.experiment;
        let Some(class) = experiment.classes.get(group) else { return Some((0, &self.limits)) };
        match (&class.kind, class.direction == experiment.traffic.direction) {
            (Kind::Transfer { .. }, true) => Some((0, &self.limits)),
            (Kind::Transfer { .. }, false) => Some((1, &self.reversed)),
            _ => None,
        }
    }

    /// Returns the path choice for the flows of the class `group`.
    fn choose_for(&self, task: &Task, group: usize, pair: usize) -> Choice {
        let measured = self.class_paths.get(task.contender).and_then(|paths| paths.get(group));
        match measured.filter(|_| task.by_class) {
            Some(path) => Choice::Fixed(*path),
            None => self.choose(task, pair),
        }
    }

    /// Returns the latest end of a run: the deadline after the time at which the last flow would end by itself.
    pub(super) fn end_of_classes(&self, specs: &[FlowSpec]) -> Time {
        let experiment = &self.condition.experiment;
        let last = specs.iter().map(|spec| spec.start).max().unwrap_or(Time::ZERO);
        let longest = experiment.classes.iter().map(|class| class.kind.span()).max().unwrap_or_default();
        last + longest + experiment.deadline
    }

    /// Returns the flows of a run, and the owner of each. The random streams of a class have its name, so that another
    /// class does not change its draws.
    pub(super) fn class_flows(&self, task: Task) -> Result<(Vec<FlowSpec>, Vec<Owner>), RunError> {
        let experiment = &self.condition.experiment;
        let shortest = self.shortest_rtt();
        let latest = self.phases.map_or(Duration::ZERO, |phases| phases.start_limit(shortest));
        let latest_join = self.phases.map_or(Duration::ZERO, |phases| phases.join_limit(shortest));
        let (mut specs, mut owners) = (Vec::new(), Vec::new());
        let mut reactions = RandomStream::new(task.draws.seed, "reaction");
        for (group, traffic) in experiment.classes.iter().enumerate() {
            let name = &traffic.name;
            let mut phase = RandomStream::new(task.draws.seed, &format!("phase.start.{name}"));
            let mut join_phase = RandomStream::new(task.draws.seed, &format!("phase.join.{name}"));
            let config = match traffic.via {
                Via::Contender => &self.condition.configs[task.contender],
                Via::Tcp(_) | Via::Udp(_) => &self.condition.plain,
            };
            let choose = |pair: &usize| match traffic.via {
                Via::Contender => self.choose_for(&task, group, *pair),
                Via::Tcp(Some(path)) | Via::Udp(Some(path)) => Choice::Fixed(path),
                Via::Tcp(None) => self.best(config, *pair),
                Via::Udp(None) => Choice::Fixed(experiment.initial),
            };
            let mut choices: Vec<Choice> = traffic.pairs.iter().map(choose).collect();
            let sizes = match &traffic.kind {
                Kind::Transfer { size, .. } => size.sizes(),
                _ => Sizes::Bulk,
            };
            let source =
                FlowSource { name: format!("class.{name}"), sizes, starts: starts(experiment, traffic) };
            let expected = match &traffic.kind {
                Kind::Transfer { size, .. } => size.mean(),
                _ => None,
            };
            let class = if traffic.via == Via::Contender { Class::Contender } else { Class::Other };
            for (index, drawn) in source.draw(task.draws.seed).map_err(impossible)?.into_iter().enumerate() {
                let turn = index % traffic.pairs.len();
                let place = traffic.pairs[turn];
                let path = self.existing(place, choices[turn].path(drawn.size));
                let path = self.first_path(place, path, drawn.start, config);
                let pair = &self.topology.pairs[place];
                let flow_name = format!("{name} {}", index + 1);
                let mut spec =
                    pair.flow_by(path, flow_name, drawn.size, config.clone()).starting(drawn.start);
                if !latest.is_zero() {
                    spec.start += Duration(phase.below(latest.0));
                }
                if !latest_join.is_zero() {
                    spec.client_config.join_delay = Duration(join_phase.below(latest_join.0));
                }
                spec.hint = traffic.size_known;
                spec.application = traffic.kind.application();
                spec.stop = traffic.kind.is_bulk().then(|| traffic.kind.span());
                if traffic.direction == Direction::Download {
                    spec = spec.download();
                }
                self.delay(&mut spec, &mut reactions);
                endpoints::adapt(&mut spec, experiment, pair, path);
                joins::adapt(&mut spec, experiment, &experiment.pairs[place], pair, expected);
                scatter::adapt(&mut spec, &experiment.graph, &experiment.pairs[place].paths[path]);
                specs.push(spec);
                owners.push(Some(Owned { class, group, pair: place, path }));
            }
        }
        Ok((specs, owners))
    }
}
