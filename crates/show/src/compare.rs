//! A comparison as text: a table for each condition, the notes below it, and the verdict.

mod classes;

use anabranch_lab::baseline::SinglePath;
use anabranch_lab::compare::Comparison;
use anabranch_lab::figures;
use anabranch_lab::measure::{Format, Record, Shown, TableKind, table_columns};
use anabranch_lab::report::Setting;
use anabranch_lab::report::verdict::Verdict;
use anabranch_lab::scenario::{Experiment, Scenario, Start, Transport};
use anabranch_lab::spoken;
use anabranch_lab::starts::{OtherStart, StartChange};
use anabranch_lab::stats::Interval;

use crate::table::{Align, Table, statements, wrap, wrap_behind};
use crate::terminal;
use crate::terminal::{BAD, GOOD, paint};

/// Returns the comparison as text. `gaps` asks for the column of the longest gap, which scenarios with changes of links have
/// anyway.
pub fn text(scenario: &Scenario, comparison: &Comparison, gaps: bool) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        let traffic = &condition.experiment.traffic;
        if scenario.conditions.len() > 1 {
            text.push_str(&format!("{}\n", crate::visible::line(&condition.name)));
        }
        let rows = comparison.rows.iter().filter(|row| row.condition == condition.name);
        let bulk = traffic.size.mean().is_none();
        let reference = comparison.reference.as_deref();
        let has_classes = !condition.experiment.classes.is_empty();
        let leaders = leaders(comparison, &condition.name, None);
        let gaps = gaps || condition.experiment.changes();
        text.push_str(&if has_classes {
            classes::tables(comparison, condition, gaps)
        } else {
            let kind = if bulk { TableKind::Bulk } else { TableKind::Transfers };
            let rows: Vec<&Record> = rows.collect();
            let names = rows.iter().map(|row| row_name(row, &leaders)).collect();
            Rows { kind, names: ("scheduler", names), rows, reference, gaps }.text()
        });
        if let anabranch_lab::scenario::FlowSize::Web { max: Some(max) } = traffic.size
            && !has_classes
        {
            let mean = traffic.size.mean().unwrap_or_default();
            text.push_str(&format!(
                "web-like sizes up to {max} have a mean of {}\n",
                figures::size(mean as u64)
            ));
        }
        let setting = comparison.conditions.iter().find(|setting| setting.name == condition.name);
        let bulk = bulk && !has_classes;
        for note in setting
            .map(|setting| notes(scenario, comparison, setting, bulk, &condition.experiment))
            .unwrap_or_default()
        {
            text.push_str(&wrap_behind("  ", &note, terminal::text_width()));
        }
        text.push_str(&crate::usage::table(&comparison.usage, &condition.name));
        text.push('\n');
    }
    let cost = &comparison.performance;
    let counted = |runs: u32| spoken::counted(u64::from(runs), "run");
    let same = comparison.conditions.iter().all(|setting| setting.runs == comparison.runs);
    let of = |(at, setting): (usize, &Setting)| match at {
        0 => format!("{} of each contender with {}", counted(setting.runs), setting.name),
        _ => format!("{} with {}", setting.runs, setting.name),
    };
    // Conditions with different numbers of runs have their own lines.
    let runs = match same {
        true => format!("{} each", counted(comparison.runs)),
        false => {
            let all: Vec<String> = comparison.conditions.iter().enumerate().map(of).collect();
            text.push_str(&wrap(&all.join(", "), terminal::text_width()));
            String::new()
        }
    };
    let sentence = format!(
        "{runs}{}seed {}; {} s of network time in {} s, {} million packet-hops a second",
        if runs.is_empty() { "" } else { ", " },
        comparison.head.seed,
        figures::about(cost.simulated_s),
        figures::about(cost.wall_s),
        figures::about(cost.packet_hops as f64 / cost.wall_s.max(1e-9) / 1e6),
    );
    text.push_str(&wrap(&sentence, terminal::text_width()));
    text.push('\n');
    text.push_str(&statements(&comparison.verdict, terminal::text_width()));
    text
}

/// Returns the simulated setting, as notes below a table.
fn notes(
    scenario: &Scenario,
    comparison: &Comparison,
    setting: &Setting,
    bulk: bool,
    experiment: &Experiment,
) -> Vec<String> {
    let mut notes = Vec::new();
    let main = experiment.main_class();
    let unit = experiment.classes.iter().find(|class| Some(class.name.as_str()) == main);
    let unit = unit.map_or("flows", |class| class.kind.unit());
    let paths = &setting.single_paths;
    if let Some(best) = paths.iter().find(|path| path.chosen) {
        let value = |path: &SinglePath| match (bulk, path.mean_s) {
            // Where nothing finished, the rate tells.
            _ if path.completed == 0 && best.completed == 0 => {
                let rate = figures::digits(path.goodput_bps.unwrap_or(0.0) / 1e6);
                format!("finished 0 of {} {unit}, {rate} Mbit/s", path.n)
            }
            // A mean with the time until the deadline is no measurement.
            _ if path.completed < path.n => format!("finished {} of {} {unit}", path.completed, path.n),
            (false, Some(mean)) => format!("{} ms", figures::digits(mean * 1e3)),
            _ => format!("{} Mbit/s", figures::digits(path.goodput_bps.unwrap_or(0.0) / 1e6)),
        };
        let others = paths.iter().filter(|path| !path.chosen).take(MOST_PATHS);
        let others: Vec<String> =
            others.map(|path| format!("{} {}", path_name(&path.path), value(path))).collect();
        let more = match paths.len() - 1 - others.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let by = main.map_or(String::new(), |name| format!(" for {name}"));
        let figures = |path: &SinglePath| (path.completed, path.n, path.mean_s, path.goodput_bps);
        let role = match paths.iter().all(|path| figures(path) == figures(best)) {
            true => format!("the first of {} equal single paths", paths.len()),
            false if best.completed == 0 => {
                format!("of {} single paths the one that delivered most", paths.len())
            }
            false => format!("the best of {} single paths", paths.len()),
        };
        notes.push(format!(
            "tcp uses {}, {role}{by}: {} in selection runs; {}{more}",
            path_name(&best.path),
            value(best),
            others.join(", "),
        ));
        // Classes with another best path. The one above is measured for all.
        let others = setting.class_paths.iter().filter(|class| class.path != best.path);
        let others: Vec<String> =
            others.map(|class| format!("{} on {}", class.traffic, path_name(&class.path))).collect();
        if !others.is_empty() {
            notes.push(format!(
                "tcp takes the best single path of each class: {}, and the others on {}",
                others.join(", "),
                path_name(&best.path),
            ));
        }
    }
    if bulk {
        // The goodput of a path is the goodput of all its flows, if they are there at the same time.
        let flows = |path: &SinglePath| path.n as f64 / f64::from(path.runs.max(1));
        let total = |path: &SinglePath| Some(path.goodput_bps? * flows(path));
        let sum: f64 = paths.iter().filter_map(total).sum();
        let condition = scenario.conditions.iter().find(|condition| condition.name == setting.name);
        let together = condition
            .is_some_and(|condition| matches!(condition.experiment.traffic.start, Start::Together(_)));
        let measured = match paths.is_empty() || !together {
            true => String::new(),
            false => format!("; single paths alone add up to {}", figures::digits(sum / 1e6)),
        };
        let ideal = figures::digits(setting.ideal_sum_bps / 1e6);
        notes.push(format!("ideal sum of the paths: {ideal} Mbit/s of payload{measured}"));
    }
    let mut parts =
        vec![format!("profile {}", setting.profile), format!("cc {}", congestion(scenario, setting))];
    if main.is_none() {
        parts.push(setting.direction.to_owned());
    }
    let same = setting.queues.iter().all(|queue| *queue == setting.queues[0]);
    let of_path = |(queue, path): (&String, &String)| format!("{queue} ({})", path_name(path));
    let queues = match same {
        true => format!("queue {}", setting.queues[0]),
        false => {
            let each: Vec<String> = setting.queues.iter().zip(&setting.paths).map(of_path).collect();
            format!("queues {}", each.join(", "))
        }
    };
    let shared = match setting.shared_queues.as_slice() {
        [] => String::new(),
        shared => format!(", on the shared link {}", shared.join(", ")),
    };
    parts.push(format!("{queues}{shared}"));
    if setting.queues.len() > 1 {
        let best = match setting.initial_choice.as_str() {
            "best" => " (initial = best)",
            "race" => ", or on the one that answers first (initial = race)",
            _ => "",
        };
        parts.push(format!("first subflow on {}{best}", path_name(&setting.initial)));
    }
    notes.push(parts.join("; "));
    let rows: Vec<&Record> = comparison.rows.iter().filter(|row| row.condition == setting.name).collect();
    notes.extend(other_starts(setting, &rows));
    notes.push(match &setting.phases {
        None => "phases: off".to_owned(),
        Some(limits) => format!(
            "each run draws phases: starts up to {} ms later, joins {} ms, delays +-{} ms, host jitter {} us{}",
            plain(limits.start_s * 1e3),
            plain(limits.join_s * 1e3),
            plain(limits.delay_s * 1e3),
            plain(limits.jitter_s * 1e6),
            if limits.traces { ", traces from random points" } else { "" },
        ),
    });
    if setting.independent_traces > 1 {
        notes.push(format!(
            "traces start at {} independent moments; trace-start = \"together\" for each starts them at the same one",
            setting.independent_traces
        ));
    }
    if let Some(unseen) = setting.unseen.as_ref().filter(|unseen| unseen.dominates) {
        let rarer = match unseen.one_in {
            0 | 1 => String::new(),
            one_in => format!(" in less than 1 of {one_in} runs"),
        };
        let class = unseen.traffic.as_ref().map_or(String::new(), |class| format!(" for {class}"));
        notes.push(format!(
            "most of the width of the intervals is for an event that these runs may lack, such as a timeout{rarer}; it may \
             change the mean of {}{class} by {} %",
            unseen.scheduler,
            figures::about(unseen.most_pct),
        ));
    }
    notes
}

/// True if the interval of a change contains 0.
fn is_unclear(change: &StartChange) -> bool {
    let interval = change.difference_pct.and_then(|difference| difference.ci95);
    interval.is_some_and(|interval| interval.contains(0.0) && interval.half_width() > 0.0)
}

/// Returns the effects of starting on other paths. `rows` are the comparison's.
fn other_starts(setting: &Setting, rows: &[&Record]) -> Vec<String> {
    let is_rescue = |change: &StartChange| {
        let row = rows.iter().find(|row| row.scheduler == change.scheduler);
        change.completed == change.n && row.is_some_and(|row| row.completed < row.n)
    };
    let change = |change: &StartChange| {
        let name = &change.scheduler;
        match change.difference_pct {
            _ if change.completed < change.n => {
                format!("{name} finishes {} of {} flows", change.completed, change.n)
            }
            _ if is_rescue(change) => format!("{name} finishes every flow"),
            None => format!("{name} cannot be compared"),
            Some(difference) => {
                let unclear = if is_unclear(change) { " (unclear)" } else { "" };
                format!("{name} {} %{unclear}", spoken::signed(difference.mean))
            }
        }
    };
    let line = |start: &OtherStart| {
        let all = |is: &dyn Fn(&StartChange) -> bool| start.changes.iter().all(is);
        let changes = if all(&is_rescue) {
            "every flow finishes".to_owned()
        } else if all(&|change| change.completed == 0) {
            "no flow finishes".to_owned()
        } else if all(&|change| is_unclear(change) && !is_rescue(change)) {
            "no clear difference".to_owned()
        } else {
            start.changes.iter().map(change).collect::<Vec<_>>().join(", ")
        };
        let runs = spoken::counted(u64::from(start.runs), "run");
        format!("first subflow on {} instead: {changes} ({runs})", path_name(&start.path))
    };
    let mut lines: Vec<String> = setting.other_starts.iter().take(MOST_PATHS).map(line).collect();
    if setting.other_starts.len() > MOST_PATHS {
        lines.push(format!("and {} other starts, with --json", setting.other_starts.len() - MOST_PATHS));
    }
    lines
}

/// The largest number of other single paths listed below a table.
const MOST_PATHS: usize = 3;

/// Formats a number with at most three decimals, or one significant digit if it is less than that.
fn plain(value: f64) -> String {
    match (value * 1e3).round() / 1e3 {
        0.0 => format!("{}", format!("{value:.0e}").parse().unwrap_or(value)),
        rounded => format!("{rounded}"),
    }
}

/// Returns the name of a path, with the word "path" if it is only a number.
fn path_name(name: &str) -> String {
    if name.chars().all(|c| c.is_ascii_digit()) { format!("path {name}") } else { name.to_owned() }
}

/// Returns the congestion control, and the plain TCPs' if it differs.
fn congestion(scenario: &Scenario, setting: &Setting) -> String {
    let of = |multipath: bool| {
        let mut names: Vec<&str> = Vec::new();
        for (contender, name) in scenario.contenders.iter().zip(&setting.congestion) {
            if matches!(contender.transport, Transport::Multipath(_)) == multipath
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names.join("/")
    };
    match (of(true), of(false)) {
        (multipath, tcp) if tcp.is_empty() || tcp == multipath => multipath,
        (multipath, tcp) if multipath.is_empty() => tcp,
        (multipath, tcp) => format!("{multipath} (tcp: {tcp})"),
    }
}

/// Returns the name of a row; a plain TCP without a configured path is followed by its path.
fn row_name(row: &Record, leaders: &[&str]) -> String {
    let name = match &row.path {
        Some(path) if !row.scheduler.contains('@') && !row.scheduler.contains(' ') => {
            format!("{} on {}", row.scheduler, path_name(path))
        }
        _ => row.scheduler.clone(),
    };
    if leaders.contains(&row.scheduler.as_str()) { paint(GOOD, &name) } else { name }
}

/// Returns the number of flows that ended in time, and the total.
fn done(row: &Record) -> String {
    let text = format!("{}/{}", row.completed, row.n);
    if row.completed < row.n { paint(BAD, &text) } else { text }
}

/// Returns the best contenders under the condition `name` by the measure of its table: one, or several that
/// cannot be distinguished.
fn leaders<'a>(comparison: &'a Comparison, name: &str, traffic: Option<&str>) -> Vec<&'a str> {
    let of = |verdict: &&Verdict| verdict.condition == name && verdict.traffic.as_deref() == traffic;
    let verdict = comparison.verdicts.iter().find(of);
    let names = verdict.map(|verdict| verdict.best.iter().take(1).chain(&verdict.tied));
    names.into_iter().flatten().map(String::as_str).collect()
}

fn difference(row: &Record, reference: Option<&str>) -> String {
    match &row.vs_reference_pct {
        Some(_) if Some(row.scheduler.as_str()) == reference => "0".to_owned(),
        Some(difference) => match difference.ci95 {
            Some(Interval(low, high)) => {
                let [mean, low, high] = [difference.mean, low, high].map(figures::signed_percent);
                format!("{mean} [{low}, {high}]")
            }
            None => figures::signed_percent(difference.mean),
        },
        None => "-".to_owned(),
    }
}

fn shares(row: &Record) -> String {
    let all: u64 = row.bytes_by_path.iter().sum();
    let share = |bytes: &u64| format!("{:.0}", 100.0 * *bytes as f64 / all.max(1) as f64);
    row.bytes_by_path.iter().map(share).collect::<Vec<_>>().join("/")
}

fn headers(reference: Option<&str>) -> String {
    reference.map_or("vs reference".to_owned(), |name| format!("vs {name}, %"))
}

/// The rows of a printed table.
struct Rows<'a> {
    /// The table that it is.
    kind: TableKind,
    /// The title of the first column, and the names of the rows in it.
    names: (&'static str, Vec<String>),
    rows: Vec<&'a Record>,
    reference: Option<&'a str>,
    /// True if the columns on request are shown.
    gaps: bool,
}

impl Rows<'_> {
    /// Returns the title of the column of delivered flows; none for datagrams, which are lost one by one.
    fn done(&self) -> Option<&'static str> {
        Some(match self.kind {
            TableKind::Transfers | TableKind::Plain | TableKind::PlainBulk => "done",
            TableKind::Datagrams => return None,
            _ => self.unit(),
        })
    }

    /// Returns the text of the table, with the columns of its measures.
    fn text(&self) -> String {
        let (title, names) = &self.names;
        let columns = table_columns(self.kind);
        let has_congestion = matches!(self.kind, TableKind::Transfers | TableKind::Bulk);
        let mut table = Table::new().column(title, Align::Left);
        if has_congestion {
            table = table.optional("cc", Align::Left, 6);
        }
        if let Some(done) = self.done() {
            table = table.column(done, Align::Right);
        }
        for (column, rank) in &columns {
            let (title, align) = match column.shown {
                Shown::Number(..) => (column.title.to_owned(), Align::Decimal),
                Shown::Difference => (headers(self.reference), Align::Right),
                Shown::Interval(..) | Shown::Shares => (column.title.to_owned(), Align::Right),
            };
            table = table.shown_if(self.gaps || !column.on_request, &title, align, *rank);
        }
        for (row, name) in self.rows.iter().zip(names) {
            let mut cells = vec![name.clone()];
            cells.extend(has_congestion.then(|| row.congestion.clone()));
            cells.extend(self.done().map(|_| done(row)));
            cells.extend(columns.iter().map(|(column, _)| cell(row, column.shown, self.reference)));
            table.row(cells);
        }
        let mut text = table.render(terminal::width());
        if let Some(remark) = self.remark() {
            text.push_str(&wrap_behind("  ", &remark, terminal::text_width()));
        }
        text
    }

    /// Returns the noun of the values over which a mean is taken, in the plural.
    fn unit(&self) -> &'static str {
        match self.kind {
            TableKind::Transfers | TableKind::Bulk | TableKind::Plain | TableKind::PlainBulk => "flows",
            TableKind::Requests => "responses",
            TableKind::Bursts => "bursts",
            TableKind::Videos => "videos",
            TableKind::Datagrams => "streams",
        }
    }

    /// Returns a remark on the differences that are clearly not the ratios of the means in the table: they are over the values
    /// that two contenders have in common.
    fn remark(&self) -> Option<String> {
        let is_bulk = matches!(self.kind, TableKind::Bulk | TableKind::PlainBulk);
        let mean = |row: &Record| if is_bulk { row.goodput_bps } else { row.fct_s.mean };
        let reference = self.rows.iter().find(|row| Some(row.scheduler.as_str()) == self.reference)?;
        let of_reference = mean(reference).filter(|mean| *mean > 0.0)?;
        let of = |row: &&Record| {
            let of_means = 100.0 * (mean(row)? / of_reference - 1.0);
            disagree(of_means, row.vs_reference_pct?.mean)
                .then(|| format!("{} for {}", figures::signed_percent(of_means), row.scheduler))
        };
        let all: Vec<String> = self.rows.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| {
            format!(
                "{} is over the {} that both have; the means of all give {}",
                headers(self.reference),
                self.unit(),
                anabranch_lab::scenario::list(&all.iter().map(String::as_str).collect::<Vec<_>>())
            )
        })
    }
}

/// True if two differences in percent are clearly not the same: their ratios to the reference differ by more than 5 %, or they
/// have opposite signs and are more than 1 % apart.
fn disagree(one: f64, other: f64) -> bool {
    let ratio = (100.0 + one) / (100.0 + other).max(1e-9);
    !(0.95..=1.05).contains(&ratio) || (one * other < 0.0 && (one - other).abs() > 1.0)
}

/// Returns a cell of a table.
fn cell(row: &Record, shown: Shown, reference: Option<&str>) -> String {
    match shown {
        Shown::Number(format, value) => value(row).map_or("-".to_owned(), |value| number(format, value)),
        Shown::Interval(format, value) => value(row).map_or("-".to_owned(), |Interval(low, high)| {
            format!("{}..{}", number(format, low), number(format, high))
        }),
        Shown::Difference => difference(row, reference),
        Shown::Shares => shares(row),
    }
}

fn number(format: Format, value: f64) -> String {
    match format {
        Format::Seconds | Format::Digits => figures::digits(value),
        Format::Millis => figures::digits(value * 1e3),
        Format::Mega => figures::digits(value / 1e6),
        Format::Percent => figures::about(value * 100.0),
        Format::About => figures::about(value),
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
