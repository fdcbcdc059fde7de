//! The figures of recorded runs.

use anabranch_recording::StoredOutage;
use anabranch_recording::view::{Column, FlowView, RunView, Stream, View};

use anabranch_units::Duration;

use super::classes::title;
use super::{Contenders, conditions, distribution};
use crate::chart::{Axis, Chart, Key, Mark, Panel, Sample, Stroke, Symbol, Unit};
use crate::style::{self, DIM, NOTE, TEXT, WARN};
use crate::{PlotError, Selection, ticks};

const NS: f64 = 1e9;

pub(super) fn chart(view: &View, name: &str, selection: &Selection) -> Result<Chart, PlotError> {
    let contenders = Contenders::new(view.runs.iter().map(|run| run.scheduler.as_str()), selection)?;
    let conditions = conditions(view.runs.iter().map(|run| run.condition.as_str()), selection)?;
    let mut runs: Vec<&RunView> = view
        .runs
        .iter()
        .filter(|run| contenders.place(&run.scheduler).is_some() && conditions.contains(&run.condition))
        .collect();
    runs.sort_by_key(|run| {
        let condition = conditions.iter().position(|condition| *condition == run.condition);
        (condition, contenders.place(&run.scheduler))
    });
    check_interval(&runs, selection)?;
    let all = All { view, runs, contenders, conditions, selection };
    let mut chart = match name {
        "sequence" => all.sequence(),
        "cwnd" => all.windows(),
        "rtt" => all.round_trips(),
        "queue" => all.queues(),
        "reordering" => all.reordering(),
        "paths" => all.paths(),
        "goodput" => all.goodput(),
        "completion" => all.completion(),
        _ => all.jain(),
    };
    if view.is_partial() {
        let why = view.facts.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        let lost = match view.lost.len() {
            0 => String::new(),
            _ => format!("; without tables: {}", view.lost.join(", ")),
        };
        chart.warning = Some(format!("Partial: this recording was interrupted{why}{lost}."));
    }
    Ok(chart)
}

/// Refuses an interval in which no run has any time.
fn check_interval(runs: &[&RunView], selection: &Selection) -> Result<(), PlotError> {
    let end = Duration(runs.iter().map(|run| run.end_ns).max().unwrap_or_default());
    let from = selection.from.unwrap_or_default();
    if selection.to.is_some_and(|to| to <= from) {
        return Err(PlotError::new("--from must be before --to"));
    }
    if !from.is_zero() && from >= end {
        return Err(PlotError::new(format!(
            "--from {from} is not before the end of the recording, which is from 0 s to {end}"
        )));
    }
    Ok(())
}

/// Returns the reason why a figure is empty.
pub(super) fn nothing(view: &View, name: &str, selection: &Selection) -> String {
    let is_shown = |run: &&RunView| {
        (selection.schedulers.is_empty() || selection.schedulers.contains(&run.scheduler))
            && selection.condition.as_ref().is_none_or(|condition| *condition == run.condition)
    };
    let runs: Vec<&RunView> = view.runs.iter().filter(is_shown).collect();
    let flows = || runs.iter().flat_map(|run| &run.flows);
    match name {
        "completion" if runs.iter().all(|run| timed(run).next().is_none()) => {
            let mut kinds: Vec<&str> = flows().filter_map(|flow| flow.kind.as_deref()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            format!(
                "transfers alone have completion times in a recording, and its traffic is {}",
                kinds.join(", ")
            )
        }
        "completion" if runs.iter().all(|run| timed(run).all(|flow| flow.size_bytes.is_none())) => {
            "bulk flows have no completion times".to_owned()
        }
        "completion" => "no flow finished".to_owned(),
        "jain" if runs.iter().all(|run| run.flows.len() < 2) => {
            "Jain's index compares the flows of a run, and there is one; record several, such as by --flows 4"
                .to_owned()
        }
        "jain" if flows().any(|flow| flow.traffic.is_some() || !flow.is_transfer()) => {
            "Jain's index compares transfers of one class, and this recording has classes of traffic"
                .to_owned()
        }
        "jain" | "goodput" | "paths" => "no flow delivered data".to_owned(),
        "queue" => "no link with a queue was recorded".to_owned(),
        "reordering" => "no segment arrived".to_owned(),
        _ => "no connection of these contenders was recorded".to_owned(),
    }
}

struct All<'a> {
    view: &'a View,
    runs: Vec<&'a RunView>,
    contenders: Contenders,
    conditions: Vec<String>,
    selection: &'a Selection,
}

/// A line over time.
struct Series<'a> {
    t_ns: &'a Column,
    values: &'a Column,
    stroke: Stroke,
}

fn key(text: &str, sample: Sample) -> Key {
    Key { text: text.to_owned(), sample }
}

impl All<'_> {
    /// Returns the times that are shown: all runs of a condition have the same.
    fn range(&self, condition: &str) -> (f64, f64) {
        let runs = self.view.runs.iter().filter(|run| run.condition == condition);
        let end = runs.map(|run| run.end_ns).max().unwrap_or_default() as f64 / NS;
        let from = self.selection.from.map_or(0.0, |from| from.as_secs_f64());
        let to = self.selection.to.map_or(end, |to| to.as_secs_f64());
        (from, if to > from { to } else { from + 1e-6 })
    }

    fn time(&self, condition: &str) -> Axis {
        Axis::new("Time", Unit::Seconds, self.range(condition))
    }

    fn title(&self, run: &RunView, of_flow: bool) -> String {
        let mut title = run.scheduler.clone();
        if self.conditions.len() > 1 {
            title = format!("{}: {title}", run.condition);
        }
        if of_flow && run.flows.len() > 1 {
            let flow = run.streams.first().and_then(|stream| run.flows.get(stream.flow));
            title = format!("{title}, flow {}", flow.map_or("", |flow| flow.name.as_str()));
        }
        if run.complete { title } else { title + " (interrupted)" }
    }

    /// Returns the title of a panel with all runs of a condition.
    fn condition(&self, condition: &str) -> String {
        if self.conditions.len() > 1 { condition.to_owned() } else { String::new() }
    }

    /// Returns the names of all subflows. The place of a subflow gives its colour.
    fn subflows(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for subflow in
            self.runs.iter().flat_map(|run| run.streams.iter().take(1)).flat_map(|stream| &stream.subflows)
        {
            if !names.contains(&subflow.name.as_str()) {
                names.push(&subflow.name);
            }
        }
        names
    }

    /// Returns a shade for each time in which a path of these runs is down, as far as it is in view.
    fn outages<'a>(&self, runs: impl IntoIterator<Item = &'a RunView>, x: &Axis, y: &Axis) -> Vec<Mark> {
        let mut marks = Vec::new();
        let mut seen: Vec<&StoredOutage> = Vec::new();
        for run in runs {
            for outage in &run.outages {
                let is_same =
                    |other: &&StoredOutage| other.path == outage.path && other.from_ns == outage.from_ns;
                if seen.iter().any(is_same) {
                    continue;
                }
                seen.push(outage);
                let from = (outage.from_ns as f64 / NS).max(x.range.0);
                let until = outage.until_ns.map_or(x.range.1, |until| until as f64 / NS).min(x.range.1);
                if from < until {
                    let place = run.paths.iter().position(|path| *path == outage.path).unwrap_or_default();
                    let fill = style::outage(place).to_owned();
                    marks.push(Mark::Rect {
                        x: (from, until),
                        y: y.range,
                        fill,
                        edge: None,
                        text: String::new(),
                    });
                }
            }
        }
        marks
    }

    /// Returns a key for each path that is down at a time in view.
    fn outage_keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for run in &self.runs {
            let (from, to) = self.range(&run.condition);
            for outage in &run.outages {
                let until = outage.until_ns.map_or(f64::INFINITY, |until| until as f64 / NS);
                if outage.from_ns as f64 / NS >= to || until <= from {
                    continue;
                }
                let place = run.paths.iter().position(|path| *path == outage.path).unwrap_or_default();
                let text = format!("{} down", path_name(&outage.path));
                let new = key(&text, Sample::Area(style::outage(place).to_owned()));
                if !keys.contains(&new) {
                    keys.push(new);
                }
            }
        }
        keys
    }

    fn sequence(&self) -> Chart {
        let names = self.subflows();
        let (mut retransmitted, mut reinjected) = (false, false);
        let mut panels = Vec::new();
        for run in &self.runs {
            let Some(stream) = run.streams.first().filter(|stream| !stream.sent.t_ns.is_empty()) else {
                continue;
            };
            panels.push(self.sequence_of(run, stream, &names));
            let has = |kind| stream.sent.kind.0.contains(&kind);
            retransmitted |= has(1);
            reinjected |= has(2);
        }
        let mut keys: Vec<Key> = names
            .iter()
            .enumerate()
            .map(|(at, name)| key(name, Sample::Line(Stroke::solid(style::path(at), 2.0), None)))
            .collect();
        keys.push(key("DATA_ACK", Sample::Line(Stroke::solid(TEXT, 0.8), None)));
        keys.push(key("window edge", Sample::Line(EDGE, None)));
        if retransmitted {
            keys.push(key("retransmitted", Sample::Symbol(Symbol::Cross, WARN, false)));
        }
        if reinjected {
            keys.push(key("reinjected", Sample::Symbol(Symbol::Diamond, NOTE, true)));
        }
        keys.extend(self.outage_keys());
        Chart { panels, keys, warning: None }
    }

    fn sequence_of(&self, run: &RunView, stream: &Stream, names: &[&str]) -> Panel {
        let time = self.time(&run.condition);
        let (from, to) = ((time.range.0 * NS) as i64, (time.range.1 * NS) as i64);
        let sent = &stream.sent;
        let rows: Vec<usize> =
            (0..sent.t_ns.len()).filter(|row| (from..=to).contains(&sent.t_ns.0[*row])).collect();
        let low = rows.iter().map(|row| sent.from.0[*row]).min();
        let high = rows.iter().map(|row| sent.to.0[*row]).max();
        let acked = stream.acks.t_ns.0.partition_point(|t| *t <= to);
        let before = stream.acks.t_ns.0.partition_point(|t| *t < from);
        let ack = |at: usize| at.checked_sub(1).and_then(|at| stream.acks.ack.0.get(at)).copied();
        let low = low.into_iter().chain(ack(before)).min().unwrap_or_default() as f64;
        let high = high.into_iter().chain(ack(acked)).max().unwrap_or_default() as f64;
        let margin = (0.04 * (high - low)).max(1.0);
        let y = Axis::new("Data offset", Unit::Bytes, ((low - margin).max(0.0), high + margin));
        let mut marks = self.outages([run], &time, &y);
        marks.extend([
            line(&stream.acks.t_ns, &stream.acks.edge, EDGE, (from, to), 1.0),
            line(&stream.acks.t_ns, &stream.acks.ack, Stroke::solid(TEXT, 0.8), (from, to), 1.0),
        ]);
        // New data below, the rare events above all.
        for kind in 0..4 {
            for (place, subflow) in stream.subflows.iter().enumerate() {
                let own = rows
                    .iter()
                    .filter(|row| sent.kind.0[**row] == kind && sent.subflow.0[**row] == place as i64);
                let bars: Vec<(f64, f64, f64)> = own
                    .map(|row| {
                        (sent.t_ns.0[*row] as f64 / NS, sent.from.0[*row] as f64, sent.to.0[*row] as f64)
                    })
                    .collect();
                if bars.is_empty() {
                    continue;
                }
                let colour = names.iter().position(|name| *name == subflow.name).unwrap_or(place);
                let (colour, symbol) = match kind {
                    1 => (WARN, Some((Symbol::Cross, false))),
                    2 => (NOTE, Some((Symbol::Diamond, true))),
                    _ => (style::path(colour), None),
                };
                if let Some((symbol, hollow)) = symbol.filter(|_| bars.len() <= MOST_SYMBOLS) {
                    let points = bars.iter().map(|(t, low, high)| (*t, (low + high) / 2.0)).collect();
                    marks.push(Mark::Points { points, symbol, colour, size: 4.0, hollow, opacity: 1.0 });
                }
                let slot = if kind == 0 { (place, stream.subflows.len()) } else { (0, 0) };
                marks.push(Mark::Segments { bars, stroke: Stroke::solid(colour, 0.8), slot });
            }
        }
        Panel { title: self.title(run, true), x: time, y, marks }
    }

    /// Returns a panel for each run with lines over time; `of` returns the lines of a run.
    fn over_time<'a>(
        &'a self,
        label: &str,
        unit: Unit,
        scale: f64,
        of_flow: bool,
        of: impl Fn(&'a RunView) -> Vec<Series<'a>>,
    ) -> Vec<Panel> {
        let mut panels = Vec::new();
        for run in self.runs.iter().copied() {
            let series = of(run);
            let time = self.time(&run.condition);
            let range = ((time.range.0 * NS) as i64, (time.range.1 * NS) as i64);
            let marks: Vec<Mark> = series
                .into_iter()
                .map(|each| line(each.t_ns, each.values, each.stroke, range, scale))
                .collect();
            let values = marks.iter().flat_map(|mark| match mark {
                Mark::Line { points, .. } => points.iter().map(|point| point.1).collect(),
                _ => Vec::new(),
            });
            let y = Axis::up_to(label, unit.clone(), values.collect::<Vec<_>>());
            let is_empty = |mark: &Mark| matches!(mark, Mark::Line { points, .. } if points.is_empty());
            if !marks.iter().all(is_empty) {
                panels.push((run, Panel { title: self.title(run, of_flow), x: time, y, marks }));
            }
        }
        // One scale for all, so that panels can be compared.
        let most = panels.iter().map(|(_, panel)| panel.y.range.1).fold(0.0, f64::max);
        let scaled = panels.into_iter().map(|(run, mut panel)| {
            panel.y.range.1 = most;
            panel.marks.splice(0..0, self.outages([run], &panel.x, &panel.y));
            panel
        });
        scaled.collect()
    }

    fn subflow_lines<'a>(
        &self,
        run: &'a RunView,
        names: &[&str],
        column: impl Fn(&'a anabranch_recording::view::Subflow) -> &'a Column,
        width: f64,
    ) -> Vec<Series<'a>> {
        let subflows = run.streams.iter().take(1).flat_map(|stream| &stream.subflows);
        let line = |subflow: &'a anabranch_recording::view::Subflow| {
            let place = names.iter().position(|name| *name == subflow.name).unwrap_or_default();
            let stroke = style::path_stroke(place, width);
            Series { t_ns: &subflow.t_ns, values: column(subflow), stroke }
        };
        subflows.map(line).collect()
    }

    fn subflow_keys(&self) -> Vec<Key> {
        let names = self.subflows();
        names
            .iter()
            .enumerate()
            .map(|(at, name)| key(name, Sample::Line(style::path_stroke(at, 1.4), None)))
            .collect()
    }

    fn windows(&self) -> Chart {
        let names = self.subflows();
        let panels = self.over_time("Congestion window", Unit::Bytes, 1.0, true, |run| {
            let mut all = self.subflow_lines(run, &names, |subflow| &subflow.inflight_bytes, 0.4);
            all.iter_mut().for_each(|series| series.stroke.dash = &[]);
            all.extend(self.subflow_lines(run, &names, |subflow| &subflow.cwnd_bytes, 1.2));
            all
        });
        let mut keys = self.subflow_keys();
        keys.push(key("thin: in flight", Sample::Line(Stroke::solid(DIM, 0.4), None)));
        keys.extend(self.outage_keys());
        Chart { panels, keys, warning: None }
    }

    fn round_trips(&self) -> Chart {
        let names = self.subflows();
        let panels = self.over_time("Smoothed RTT", Unit::Seconds, 1e-6, true, |run| {
            self.subflow_lines(run, &names, |subflow| &subflow.srtt_us, 1.2)
        });
        Chart {
            panels,
            keys: self.subflow_keys().into_iter().chain(self.outage_keys()).collect(),
            warning: None,
        }
    }

    fn queues(&self) -> Chart {
        let mut links: Vec<&str> = Vec::new();
        for queue in self.runs.iter().flat_map(|run| &run.queues) {
            if !links.contains(&queue.link.as_str()) {
                links.push(&queue.link);
            }
        }
        let place = |link: &str| links.iter().position(|known| *known == link).unwrap_or_default();
        let panels = self.over_time("Queue", Unit::Bytes, 1.0, false, |run| {
            let series = run.queues.iter().map(|queue| Series {
                t_ns: &queue.t_ns,
                values: &queue.bytes,
                stroke: style::path_stroke(place(&queue.link), 1.0),
            });
            series.collect()
        });
        let keys = links.iter().enumerate();
        let keys = keys.map(|(at, link)| key(link, Sample::Line(style::path_stroke(at, 1.2), None)));
        Chart { panels, keys: keys.chain(self.outage_keys()).collect(), warning: None }
    }

    /// Returns a panel for each condition with a curve for each contender.
    fn curves(
        &self,
        x: impl Fn(&[&RunView], &str) -> Axis,
        y: impl Fn(&[Vec<(f64, f64)>]) -> Axis,
        curve: impl Fn(&RunView) -> Vec<(f64, f64)>,
    ) -> Chart {
        let mut panels = Vec::new();
        for condition in &self.conditions {
            let runs: Vec<&RunView> =
                self.runs.iter().copied().filter(|run| run.condition == *condition).collect();
            let curves: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| curve(run)).collect();
            if curves.iter().all(Vec::is_empty) {
                continue;
            }
            let (x, y) = (x(&runs, condition), y(&curves));
            let marks = runs.iter().zip(curves).map(|(run, points)| {
                let stroke = self.contenders.style(&run.scheduler).map(|style| style.stroke(1.2));
                Mark::Line { points, stroke: stroke.unwrap_or(Stroke::solid(TEXT, 1.2)), step: true }
            });
            panels.push(Panel { title: self.condition(condition), x, y, marks: marks.collect() });
        }
        Chart { panels, keys: self.contenders.keys(), warning: None }
    }

    fn reordering(&self) -> Chart {
        let axis = |condition: &str| {
            let runs = self.runs.iter().filter(|run| run.condition == condition);
            let most =
                runs.filter_map(|run| run.reordering.steps.last()).map(|(delay, _)| *delay as f64 / NS);
            // Without any reordering there is still an axis.
            Axis::up_to("Out-of-order delay", Unit::Seconds, most.chain([1e-3]))
        };
        let curve = |run: &RunView| -> Vec<(f64, f64)> {
            let steps = run.reordering.steps.iter();
            let steps = steps.map(|(delay, share)| (*delay as f64 / NS, 100.0 * share));
            // A curve holds its last value, which without any reordering is its only one.
            let end =
                run.reordering.steps.last().map(|(_, share)| (axis(&run.condition).range.1, 100.0 * share));
            steps.chain(end).collect()
        };
        self.curves(
            |_, condition| axis(condition),
            |curves| {
                let least = curves
                    .iter()
                    .filter_map(|curve| curve.first())
                    .map(|first| first.1)
                    .fold(100.0, f64::min);
                let low = (10.0 * ((least - 5.0) / 10.0).floor()).max(0.0);
                Axis::new("Segments", Unit::Percent, (low, 100.0))
            },
            curve,
        )
    }

    fn goodput(&self) -> Chart {
        let curve = |run: &RunView| -> Vec<(f64, f64)> {
            let goodput = &run.goodput;
            let bins = (0..goodput.bytes.len())
                .map(|at| ((at as u64 * goodput.bin_ns) as f64 / NS, goodput.bps(at, run.end_ns)));
            let end = (run.end_ns as f64 / NS, 0.0);
            let has_any = goodput.bytes.iter().any(|bytes| *bytes > 0);
            if has_any { bins.chain([end]).collect() } else { Vec::new() }
        };
        let mut chart = self.curves(
            |_, condition| self.time(condition),
            |curves| {
                Axis::up_to("Goodput", Unit::BitsPerSecond, curves.iter().flatten().map(|point| point.1))
            },
            curve,
        );
        let shown = |condition: &&String| {
            self.runs
                .iter()
                .any(|run| run.condition == **condition && run.goodput.bytes.iter().any(|bytes| *bytes > 0))
        };
        for (condition, panel) in self.conditions.iter().filter(shown).zip(&mut chart.panels) {
            let runs = self.runs.iter().copied().filter(|run| run.condition == *condition);
            panel.marks.splice(0..0, self.outages(runs, &panel.x, &panel.y));
        }
        chart.keys.extend(self.outage_keys());
        chart
    }

    /// Returns the completion times of the contender's transfers, with a panel for each class of traffic that has some.
    fn completion(&self) -> Chart {
        let mut classes: Vec<Option<&str>> = Vec::new();
        for flow in self.runs.iter().flat_map(|run| timed(run)) {
            if !classes.contains(&flow.traffic.as_deref()) {
                classes.push(flow.traffic.as_deref());
            }
        }
        let mut all = Chart::default();
        for class in classes {
            let single = self.runs.iter().all(|run| timed_of(run, class).count() < 2);
            let mut chart = if single { self.single(class) } else { self.distributions(class) };
            for panel in &mut chart.panels {
                panel.title = title([&panel.title, class.unwrap_or_default()]);
            }
            all.panels.append(&mut chart.panels);
            if all.keys.is_empty() {
                all.keys = chart.keys;
            }
        }
        all
    }

    fn distributions(&self, class: Option<&str>) -> Chart {
        let curve = |run: &RunView| -> Vec<(f64, f64)> {
            let mut times: Vec<f64> =
                timed_of(run, class).filter_map(|flow| flow.fct_ns).map(|fct| fct as f64 / NS).collect();
            times.sort_by(f64::total_cmp);
            distribution(&times, timed_of(run, class).count())
        };
        self.curves(
            |runs, _| {
                let times = runs.iter().flat_map(|run| timed_of(run, class)).filter_map(|flow| flow.fct_ns);
                let times = times.map(|fct| fct as f64 / NS);
                Axis::up_to("Completion time", Unit::Seconds, times.collect::<Vec<_>>())
            },
            |_| Axis::new("Flows", Unit::Percent, (0.0, 100.0)),
            curve,
        )
    }

    /// The completion times of runs with one flow each.
    fn single(&self, class: Option<&str>) -> Chart {
        let time = |run: &RunView| Some(timed_of(run, class).next()?.fct_ns? as f64 / NS);
        let x = Axis::up_to("Completion time", Unit::Seconds, self.runs.iter().filter_map(|run| time(run)));
        let (one, unit) = ticks::multiple(&x);
        let panels = self.rows(&x, |row, run| {
            let time = time(run)?;
            Some(vec![self.bar(row, run, time, format!("{} {unit}", rounded(time / one)))])
        });
        Chart { panels, keys: Vec::new(), warning: None }
    }

    /// Returns the bar of a run in its row.
    fn bar(&self, row: usize, run: &RunView, value: f64, text: String) -> Mark {
        let fill = self.contenders.style(&run.scheduler).map_or(TEXT, |style| style.colour).to_owned();
        Mark::Rect { x: (0.0, value), y: (row as f64 - 0.28, row as f64 + 0.28), fill, edge: None, text }
    }

    /// Returns a panel for each condition with a row for each contender.
    fn rows(&self, x: &Axis, marks: impl Fn(usize, &RunView) -> Option<Vec<Mark>>) -> Vec<Panel> {
        let mut panels = Vec::new();
        for condition in &self.conditions {
            let (mut names, mut all) = (Vec::new(), Vec::new());
            for run in self.runs.iter().filter(|run| run.condition == *condition) {
                if let Some(marks) = marks(names.len(), run) {
                    names.push(run.scheduler.clone());
                    all.extend(marks);
                }
            }
            if !names.is_empty() {
                let (title, y) = (self.condition(condition), Axis::names(names));
                panels.push(Panel { title, x: x.clone(), y, marks: all });
            }
        }
        panels
    }

    fn paths(&self) -> Chart {
        let mut names: Vec<&str> = Vec::new();
        for name in self.runs.iter().flat_map(|run| &run.paths) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let x = Axis::new("Share of the bytes", Unit::Percent, (0.0, 100.0));
        let panels = self.rows(&x, |row, run| {
            let all: u64 = run.bytes_by_path.iter().sum();
            let shares = run.paths.iter().zip(&run.bytes_by_path).map(|(path, bytes)| {
                let place = names.iter().position(|name| name == path).unwrap_or_default();
                (place, 100.0 * *bytes as f64 / all as f64)
            });
            (all > 0).then(|| stack(row, shares.map(|(place, share)| (style::path(place), share))))
        });
        Chart { panels, keys: path_keys(&names), warning: None }
    }

    fn jain(&self) -> Chart {
        let x = Axis::new("Jain's index of the flows' goodput", Unit::None, (0.0, 1.0));
        let panels = self.rows(&x, |row, run| {
            let jain = run.jain?;
            Some(vec![self.bar(row, run, jain, format!("{jain:.3}"))])
        });
        Chart { panels, keys: Vec::new(), warning: None }
    }
}

/// Returns the contender's transfers.
fn timed(run: &RunView) -> impl Iterator<Item = &FlowView> {
    run.flows.iter().filter(|flow| flow.own && flow.is_transfer())
}

/// Returns the timed flows of a class of traffic; without classes all flows have none.
fn timed_of<'a>(run: &'a RunView, class: Option<&'a str>) -> impl Iterator<Item = &'a FlowView> {
    timed(run).filter(move |flow| flow.traffic.as_deref() == class)
}

/// Returns a number with four digits.
fn rounded(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32 + 1;
    format!("{value:.*}", usize::try_from(4 - whole).unwrap_or_default())
}

const EDGE: Stroke = Stroke { colour: DIM, width: 0.6, dash: &[2.5, 1.5] };
/// With more, symbols would hide each other: only lines are drawn.
const MOST_SYMBOLS: usize = 60;

/// Returns the name of a path; without one it has its number.
pub(super) fn path_name(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_digit()) { format!("path {name}") } else { name.to_owned() }
}

/// Returns the names of paths as a legend of areas.
pub(super) fn path_keys(names: &[&str]) -> Vec<Key> {
    let key = |(at, name): (usize, &&str)| Key {
        text: path_name(name),
        sample: Sample::Area(style::path(at).to_owned()),
    };
    names.iter().enumerate().map(key).collect()
}

/// Returns the parts of a bar in a row, one after the other.
pub(super) fn stack(row: usize, parts: impl Iterator<Item = (&'static str, f64)>) -> Vec<Mark> {
    let mut begin = 0.0;
    let edge = Stroke::solid("#ffffff", 0.5);
    let part = |(fill, size): (&'static str, f64)| {
        let x = (begin, begin + size);
        begin += size;
        let y = (row as f64 - 0.32, row as f64 + 0.32);
        Mark::Rect { x, y, fill: fill.to_owned(), edge: Some(edge.clone()), text: String::new() }
    };
    parts.filter(|(_, size)| *size > 0.0).map(part).collect()
}

/// Returns the values between two times as a line; negative values are missing.
fn line(t_ns: &Column, values: &Column, stroke: Stroke, (from, to): (i64, i64), scale: f64) -> Mark {
    let first = t_ns.0.partition_point(|t| *t <= from).saturating_sub(1);
    let last = (t_ns.0.partition_point(|t| *t <= to) + 1).min(t_ns.len());
    let value = |at: usize| if values.0[at] < 0 { f64::NAN } else { values.0[at] as f64 * scale };
    let points = (first.min(last)..last).map(|at| (t_ns.0[at] as f64 / NS, value(at))).collect();
    Mark::Line { points, stroke, step: true }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
