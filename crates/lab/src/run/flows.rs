//! The flows of a run: their starts, their sizes and their first paths. `classes.rs` has the flows of classes of traffic.

use anabranch_sim::FlowSpec;
use anabranch_sim::topology::HostPair;
use anabranch_sim::traffic::{Drawn, FlowSource, Starts};
use anabranch_stack::config::SimConfig;
use anabranch_units::{Bytes, Duration, RandomStream, Time};

use super::{Class, Prepared, RunError, Task, impossible};
use super::{endpoints, joins, scatter};
use crate::network::Draws;
use crate::scenario::lower_bound::LowerBound;
use crate::scenario::{Direction, Experiment, InitialChoice, Start, Transport, estimate};

/// The owner of a flow; a background flow has none.
pub(super) type Owner = Option<Owned>;

/// The owner of a counted flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    pub(super) class: Class,
    pub(super) group: usize,
    pub(super) pair: usize,
    pub(super) path: usize,
}

/// The path choice of a plain TCP.
pub(super) enum Choice {
    Fixed(usize),
    Best { bounds: Vec<LowerBound>, fastest: usize },
}

impl Choice {
    pub(super) fn path(&mut self, size: Option<Bytes>) -> usize {
        match (self, size) {
            (Choice::Fixed(path), _) => *path,
            (Choice::Best { fastest, .. }, None) => *fastest,
            (Choice::Best { bounds, .. }, Some(size)) => {
                let times = bounds.iter_mut().map(|bound| bound.completion(size.0));
                times.enumerate().min_by_key(|(_, time)| *time).map_or(0, |(path, _)| path)
            }
        }
    }
}

/// Returns the source of the flows of an experiment.
pub(super) fn source(experiment: &Experiment, name: &str, flows: u32) -> FlowSource {
    let traffic = &experiment.traffic;
    let starts = match &traffic.start {
        Start::Together(at) => Starts::Together { at: *at, count: flows as usize },
        Start::At(times) => Starts::At(times.clone()),
        Start::Every { from, gap } => Starts::Gaps { from: *from, gap: gap.clone(), count: flows as usize },
        Start::Poisson { from, load } => {
            let mean = |pair| experiment.graph.max_flow(pair, |link| Some(link.mean_rate()));
            let rate = experiment.flow_pairs().iter().map(mean).fold(0, u64::saturating_add);
            let gap = traffic.size.mean().unwrap_or(0.0) * 8.0 / (rate as f64 * load);
            Starts::Poisson {
                from: *from,
                until: Time::NEVER,
                mean_gap: Duration::from_secs_f64(gap).max(Duration(1)),
                max_count: Some(flows as usize),
            }
        }
    };
    FlowSource { name: name.to_owned(), sizes: traffic.size.sizes(), starts }
}

impl Prepared<'_> {
    /// Draws the delays of the programs of a flow from `stream`.
    pub(super) fn delay(&self, spec: &mut FlowSpec, stream: &mut RandomStream) {
        let mut draw = |(least, most): (Duration, Duration)| match most > least {
            true => least + Duration(stream.below((most - least).0)),
            false => least,
        };
        spec.reaction = draw(self.reaction);
        if spec.direction == anabranch_sim::Direction::Download {
            spec.answering = draw(self.answering);
        }
    }

    /// Returns the flows of a run, and the owner of each.
    pub(super) fn flows(&self, task: Task) -> Result<(Vec<FlowSpec>, Vec<Owner>), RunError> {
        if !self.condition.experiment.classes.is_empty() {
            return self.class_flows(task);
        }
        let Task { contender: position, path, draws: Draws { seed, .. }, beside_alone, by_class: _ } = task;
        let experiment = &self.condition.experiment;
        let traffic = &experiment.traffic;
        let config = &self.condition.configs[position];
        let (mut specs, mut classes) = (Vec::new(), Vec::new());
        let latest = self.phases.map_or(Duration::ZERO, |phases| phases.start_limit(self.shortest_rtt()));
        let latest_join = self.phases.map_or(Duration::ZERO, |phases| phases.join_limit(self.shortest_rtt()));
        let mut phase = RandomStream::new(seed, "phase.start");
        let mut join_phase = RandomStream::new(seed, "phase.join");
        let mut reactions = RandomStream::new(seed, "reaction");
        let mut add = |place: usize,
                       path: usize,
                       name: String,
                       drawn: Drawn,
                       config: &SimConfig,
                       class: Option<(Class, usize)>| {
            let pair: &HostPair = &self.topology.pairs[place];
            let mut spec = pair.flow_by(path, name, drawn.size, config.clone()).starting(drawn.start);
            if !latest.is_zero() {
                spec.start += Duration(phase.below(latest.0));
            }
            if !latest_join.is_zero() {
                spec.client_config.join_delay = Duration(join_phase.below(latest_join.0));
            }
            spec.hint = traffic.size_known;
            if traffic.direction == Direction::Download {
                spec = spec.download();
            }
            self.delay(&mut spec, &mut reactions);
            endpoints::adapt(&mut spec, experiment, pair, path);
            joins::adapt(&mut spec, experiment, &experiment.pairs[place], pair, traffic.size.mean());
            scatter::adapt(&mut spec, &experiment.graph, &experiment.pairs[place].paths[path]);
            specs.push(spec);
            classes.push(class.map(|(class, group)| Owned { class, group, pair: place, path }));
        };
        let mut choices: Vec<Choice> = (0..traffic.pairs).map(|pair| self.choose(&task, pair)).collect();
        let drawn = match beside_alone {
            true => Vec::new(),
            false => source(experiment, "flows", traffic.flows).draw(seed).map_err(impossible)?,
        };
        for (index, flow) in drawn.into_iter().enumerate() {
            let pair = index % traffic.pairs;
            let path = self.existing(pair, choices[pair].path(flow.size));
            let path = self.first_path(pair, path, flow.start, config);
            add(pair, path, format!("{}", index + 1), flow, config, Some((Class::Contender, 0)));
        }
        for (kind, beside) in traffic.beside.iter().enumerate() {
            let plain = self.condition.beside_config(kind);
            let measured = beside.path.or(path.filter(|_| beside_alone)).or(self.beside);
            let choose = |pair: &usize| measured.map_or_else(|| self.best(&plain, *pair), Choice::Fixed);
            let mut choices: Vec<Choice> = beside.pairs.iter().map(choose).collect();
            // Only flows without a configured path choose the path.
            let chooses = beside_alone && beside.path.is_none();
            let class = if chooses { Class::Contender } else { Class::Beside };
            let (stream, of) = match &beside.name {
                Some(name) => (format!("beside.{name}"), name.as_str()),
                None => ("beside".to_owned(), "beside"),
            };
            let drawn = source(experiment, &stream, beside.flows).draw(seed).map_err(impossible)?;
            for (index, flow) in drawn.into_iter().enumerate() {
                let turn = index % beside.pairs.len();
                let pair = beside.pairs[turn];
                let path = self.existing(pair, choices[turn].path(flow.size));
                let name = format!("{of} {}", index + 1);
                add(pair, path, name, flow, &plain, Some((class, kind)));
            }
        }
        for (group, background) in traffic.background.iter().enumerate() {
            let plain = &self.condition.plain;
            for index in 0..background.flows {
                let drawn = Drawn { start: background.start, size: None };
                let name = format!("background {}.{}", group + 1, index + 1);
                add(background.pair, background.path, name, drawn, plain, None);
            }
        }
        Ok((specs, classes))
    }

    /// Returns the path choice of the contender's flows between the hosts of `pair`.
    pub(super) fn choose(&self, task: &Task, pair: usize) -> Choice {
        match (&self.scenario.contenders[task.contender].transport, task.path) {
            (Transport::Tcp { path: Some(path) }, _) => Choice::Fixed(*path),
            (Transport::Tcp { path: None }, Some(path)) => Choice::Fixed(path),
            (Transport::Tcp { path: None }, None) => self.best(&self.condition.configs[task.contender], pair),
            (Transport::Multipath(_), path) => {
                Choice::Fixed(path.unwrap_or(self.condition.experiment.initial))
            }
        }
    }

    /// Returns the shortest round-trip time of all paths.
    pub(super) fn shortest_rtt(&self) -> Duration {
        self.condition.experiment.shortest_rtt()
    }

    /// Returns the path at `position`, or the last one of a pair that has fewer.
    pub(super) fn existing(&self, pair: usize, position: usize) -> usize {
        position.min(self.condition.experiment.pairs[pair].paths.len() - 1)
    }

    /// Returns the path on which a connection of Multipath TCP begins that would begin on `path` of `pair`. While the client knows that the interface there is
    /// down, it is another one: of the remaining ones the best with `initial = "best"` and otherwise the first listed, and a backup last.
    pub(super) fn first_path(&self, pair: usize, path: usize, at: Time, config: &SimConfig) -> usize {
        let experiment = &self.condition.experiment;
        let paths = &experiment.pairs[pair].paths;
        if !config.mptcp || !experiment.is_noticed_down(&paths[path], at) {
            return path;
        }
        let estimates = match experiment.initial_choice {
            InitialChoice::Best => estimate::estimates(experiment, config),
            _ => Vec::new(),
        };
        let up = (0..paths.len()).filter(|other| !experiment.is_noticed_down(&paths[*other], at));
        up.min_by_key(|other| (paths[*other].backup, estimates.get(*other).copied())).unwrap_or(path)
    }

    /// Returns the path choice of a plain TCP between the hosts of `pair` without selection runs.
    pub(super) fn best(&self, config: &SimConfig, pair: usize) -> Choice {
        let experiment = &self.condition.experiment;
        let paths = &experiment.pairs[pair].paths;
        let bounds = (0..paths.len()).map(|path| self.limits[pair].one_path(config, path)).collect();
        // The first of the highest rate.
        let rate = |path: &usize| {
            let path = &paths[*path];
            (experiment.graph.path_rate(path), experiment.own_link(path).mean_rate())
        };
        let fastest = (0..paths.len()).rev().max_by_key(rate).unwrap_or(0);
        Choice::Best { bounds, fastest }
    }
}
