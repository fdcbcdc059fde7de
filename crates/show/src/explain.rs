//! An explanation as text: bars, a table and sentences.

use anabranch_lab::explain::{Cause, Change, Explanation, Row};
use anabranch_lab::figures::about;
use anabranch_lab::scenario::{Kind, Scenario};
use anabranch_lab::spoken;
use anstyle::{AnsiColor, Style};

use crate::table::{Align, Table, wrap_behind};
use crate::terminal::{self, columns, paint};

/// The letter of a cause in bars and tables, and its colour.
const fn sign(cause: Cause) -> (char, AnsiColor) {
    match cause {
        Cause::Handshake => ('H', AnsiColor::Cyan),
        Cause::Application => ('A', AnsiColor::White),
        Cause::SendBuffer => ('B', AnsiColor::BrightYellow),
        Cause::ReceiveWindow => ('W', AnsiColor::BrightMagenta),
        Cause::CongestionWindow => ('C', AnsiColor::Yellow),
        Cause::Pacing => ('P', AnsiColor::BrightCyan),
        Cause::Scheduler => ('S', AnsiColor::Magenta),
        Cause::Queueing => ('Q', AnsiColor::BrightRed),
        Cause::Serialisation => ('T', AnsiColor::Blue),
        Cause::Propagation => ('D', AnsiColor::Green),
        Cause::Retransmission => ('R', AnsiColor::Red),
        Cause::HeadOfLine => ('O', AnsiColor::BrightBlue),
        Cause::Outage => ('X', AnsiColor::BrightBlack),
    }
}

/// The least share in percent that a table shows.
const LEAST_SHARE: f64 = 0.05;
/// The width of the times next to a bar.
const TIME_WIDTH: usize = 10;

/// Returns the explanation: bars, a table and sentences for each condition.
pub fn text(scenario: &Scenario, explanation: &Explanation, bytes: bool) -> String {
    let mut text = String::new();
    for condition in &scenario.conditions {
        let rows: Vec<&Row> =
            explanation.rows.iter().filter(|row| row.of.condition == condition.name).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        if !condition.name.is_empty() {
            text.push_str(&format!("{}\n", crate::visible::line(&condition.name)));
        }
        // In the order of the scenario.
        let mut classes: Vec<Option<&String>> = Vec::new();
        for row in &rows {
            let class = row.of.traffic.as_ref();
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        for (place, class) in classes.into_iter().enumerate() {
            let rows: Vec<&Row> =
                rows.iter().filter(|row| row.of.traffic.as_ref() == class).copied().collect();
            if let Some(class) = class {
                let gap = if place > 0 { "\n" } else { "" };
                let mut all = condition.experiment.classes.iter();
                let kind = all.find(|one| one.name == *class).map(|one| &one.kind);
                let span = kind.map_or("", |kind| span(kind, bytes));
                text.push_str(&format!("{gap}{}{span}\n", crate::visible::line(class)));
            }
            text.push_str(&bars(&rows, bytes, terminal::text_width()));
            text.push('\n');
            text.push_str(&table(&rows, bytes, terminal::text_width()));
            text.push('\n');
            for row in rows {
                text.push_str(&wrap_behind("* ", &sentence(row, bytes), terminal::text_width()));
            }
        }
    }
    text
}

/// The time of each part of a class, after its name.
const fn span(kind: &Kind, bytes: bool) -> &'static str {
    match kind {
        _ if bytes => "",
        Kind::Requests(_) => ": from each request to the last byte of its response",
        Kind::Video(_) => ": from the request of each segment to its last byte",
        Kind::OnOff(_) => ": from the writing of the last block of each burst to its delivery",
        Kind::Transfer { .. } | Kind::Datagrams(_) => "",
    }
}

/// The time of each cause, and its share in percent.
fn parts(row: &Row, bytes: bool) -> Vec<(Cause, f64, f64)> {
    let parts = if bytes { &row.bytes } else { &row.parts };
    parts.iter().map(|part| (part.cause, part.mean_s, part.share_pct)).collect()
}

fn mean(row: &Row, bytes: bool) -> Option<f64> {
    if bytes { row.byte_mean_s } else { row.mean_s }
}

/// A stacked bar for each contender; the longest one has the whole width.
fn bars(rows: &[&Row], bytes: bool, width: usize) -> String {
    let names = rows.iter().map(|row| columns(&row.of.scheduler)).max().unwrap_or(0);
    let longest = rows.iter().map(|row| mean(row, bytes).unwrap_or(0.0)).fold(0.0, f64::max);
    let cells = width.saturating_sub(names + TIME_WIDTH + 3).max(10);
    let mut text = String::new();
    for row in rows {
        let time = mean(row, bytes).map_or("-".to_owned(), |mean| format!("{} ms", about(mean * 1e3)));
        text.push_str(&format!("{:<names$} {time:>TIME_WIDTH$}  ", row.of.scheduler));
        let (mut before, mut filled) = (0.0, 0);
        for (cause, seconds, _) in parts(row, bytes) {
            before += seconds;
            // Rounded sums, so that the whole bar has the right length.
            let end = if longest > 0.0 { (before / longest * cells as f64).round() as usize } else { 0 };
            let (letter, colour) = sign(cause);
            let bar: String = core::iter::repeat_n(letter, end.saturating_sub(filled)).collect();
            if !bar.is_empty() {
                text.push_str(&paint(Style::new().fg_color(Some(colour.into())), &bar));
            }
            filled = end.max(filled);
        }
        text.push('\n');
    }
    text
}

/// The parts in milliseconds and percent, with a column for each contender; several tables if they do not fit.
fn table(rows: &[&Row], bytes: bool, width: usize) -> String {
    let shown = |cause: Cause| {
        let share =
            |row: &&Row| parts(row, bytes).iter().any(|part| part.0 == cause && part.2 >= LEAST_SHARE);
        rows.iter().any(share)
    };
    let causes: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| shown(*cause)).collect();
    let make = |rows: &[&Row]| {
        let mut table = Table::new().column("", Align::Left).column(unit(rows, bytes), Align::Left);
        for row in rows {
            table = table.column(&row.of.scheduler, Align::Decimal).column("%", Align::Right);
        }
        for cause in &causes {
            let (letter, colour) = sign(*cause);
            let style = Style::new().fg_color(Some(colour.into()));
            let mut cells = vec![paint(style, &letter.to_string()), cause.name().to_owned()];
            for row in rows {
                let part = parts(row, bytes).into_iter().find(|part| part.0 == *cause);
                let (_, seconds, share) = part.unwrap_or((*cause, 0.0, 0.0));
                cells.push(if seconds > 0.0 { about(seconds * 1e3) } else { "-".to_owned() });
                cells.push(if seconds > 0.0 { format!("{share:.0}") } else { String::new() });
            }
            table.row(cells);
        }
        let mut cells = vec![String::new(), "in all".to_owned()];
        for row in rows {
            let mean = mean(row, bytes);
            cells.push(mean.map_or("-".to_owned(), |mean| about(mean * 1e3)));
            cells.push(mean.map_or(String::new(), |_| "100".to_owned()));
        }
        table.row(cells);
        table.render(usize::MAX)
    };
    let mut text = String::new();
    let mut rest = rows;
    while !rest.is_empty() {
        // As many contenders as fit, at least one.
        let fits = |count: &usize| make(&rest[..*count]).lines().all(|line| columns(line) <= width);
        let count = (1..=rest.len()).rev().find(fits).unwrap_or(1);
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&make(&rest[..count]));
        rest = &rest[count..];
    }
    text
}

/// The unit of the times.
fn unit(rows: &[&Row], bytes: bool) -> &'static str {
    let of_class = rows.iter().any(|row| row.of.traffic.is_some());
    match (bytes, of_class) {
        (true, _) => "a byte, ms",
        (false, true) => "each, ms",
        (false, false) => "a flow, ms",
    }
}

/// The explanation of a contender in words, with the other changes.
fn sentence(row: &Row, bytes: bool) -> String {
    let mut text = row.sentence.clone();
    if let Some(of_bytes) = row.of_bytes().filter(|_| bytes) {
        let noun = row.noun;
        let own = text.strip_prefix(&format!("{}: ", row.of.scheduler)).unwrap_or(&text);
        text = format!("{of_bytes} Of a {noun}, {own}");
    }
    let best = row.advised();
    let others: Vec<&Change> =
        row.changes.iter().filter(|change| best.is_none_or(|best| best.what != change.what)).collect();
    if best.is_some() && !others.is_empty() {
        let others: Vec<String> = others.iter().map(|change| row.tried(change)).collect();
        text.push_str(&format!(" Also tried: {}.", others.join("; ")));
    }
    if let Some(gap) = row.longest_gap_s.filter(|_| !row.outages.is_empty()) {
        let gap = about(gap * 1e3);
        text.push_str(&match row.noun {
            // Its gaps begin with its first byte.
            "flow" => format!(" After the first byte, the longest gap in delivery was {gap} ms."),
            _ => format!(" The longest gap in delivery was {gap} ms."),
        });
    }
    if row.of.completed < row.of.n {
        let missing = row.of.n - row.of.completed;
        let all = spoken::counted(row.of.n as u64, row.noun);
        let verb = if missing == 1 { "was" } else { "were" };
        text.push_str(&format!(" {missing} of {all} {verb} not delivered completely."));
    }
    text
}

#[cfg(test)]
mod tests {
    use anabranch_lab::explain::{OutagePart, SCHEMA, Subject, TimePart};
    use anabranch_lab::head::Head;

    use super::*;

    #[test]
    fn every_cause_has_a_letter_and_a_colour_of_its_own() {
        let mut signs: Vec<(char, String)> = Cause::ALL
            .iter()
            .map(|cause| sign(*cause))
            .map(|(letter, colour)| (letter, format!("{colour:?}")))
            .collect();
        signs.sort();
        for pair in signs.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
        let mut colours: Vec<String> = signs.into_iter().map(|sign| sign.1).collect();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), Cause::ALL.len());
    }

    #[test]
    fn other_changes_have_their_effects_and_doubts() {
        use anabranch_lab::report::Difference;
        use anabranch_lab::stats::Interval;
        let change = |what: &str, mean: f64, helps| Change {
            what: what.to_owned(),
            mean_s: Some(0.1),
            unfinished: 0,
            effect_pct: Some(Difference { mean, ci95: Some(Interval(mean - 2.0, mean + 2.0)) }),
            helps,
            setting: true,
        };
        let mut row = row();
        row.changes = vec![
            change("a larger window", -20.0, Some(true)),
            change("BBR", -1.0, None),
            change("no backup", 12.0, Some(false)),
        ];
        let tried = "It waits. Also tried: BBR (-1.0 %, undecided); no backup (+12.0 %).";
        assert_eq!(sentence(&row, false), tried);
        // Nothing is advised: the sentence has them already.
        row.changes.remove(0);
        assert_eq!(sentence(&row, false), "It waits.");
        let mut with = |n, completed| {
            (row.of.n, row.of.completed) = (n, completed);
            sentence(&row, false)
        };
        assert_eq!(with(30, 28), "It waits. 2 of 30 flows were not delivered completely.");
        assert_eq!(with(1, 0), "It waits. 1 of 1 flow was not delivered completely.");
    }

    #[test]
    fn a_bar_has_the_length_of_its_time_and_each_cause_its_share() {
        let with = |mean_s: f64, parts: &[(Cause, f64)]| {
            let part = |(cause, mean_s): &(Cause, f64)| TimePart {
                cause: *cause,
                mean_s: *mean_s,
                share_pct: 0.0,
                sum_ns: None,
                by_path: Vec::new(),
            };
            Row { mean_s: Some(mean_s), parts: parts.iter().map(part).collect(), ..row() }
        };
        let rows = [
            with(0.4, &[(Cause::Handshake, 0.1), (Cause::Serialisation, 0.2), (Cause::Propagation, 0.1)]),
            with(0.1, &[(Cause::Handshake, 0.1)]),
        ];
        // Five columns for the name, ten for the time, and three between.
        let text = bars(&rows.iter().collect::<Vec<_>>(), false, 5 + TIME_WIDTH + 3 + 40);
        let count = |line: &str, letter: char| line.chars().filter(|c| *c == letter).count();
        let plain = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(['H', 'T', 'D'].map(|letter| count(lines[0], letter)), [10, 20, 10], "{plain}");
        assert_eq!(['H', 'T', 'D'].map(|letter| count(lines[1], letter)), [10, 0, 0], "{plain}");
    }

    #[test]
    fn the_sentence_of_a_byte_comes_before_the_sentence_of_a_flow() {
        let part =
            |cause, mean_s| TimePart { cause, mean_s, share_pct: 0.0, sum_ns: None, by_path: Vec::new() };
        let row = Row {
            byte_mean_s: Some(0.02),
            bytes: vec![part(Cause::Propagation, 0.005), part(Cause::Queueing, 0.015)],
            sentence: "linux: it waits.".to_owned(),
            ..row()
        };
        let of_bytes = "linux: of a byte, 15.0 ms of 20.0 ms (75 %) went into queueing behind other packets.";
        assert_eq!(sentence(&row, true), format!("{of_bytes} Of a flow, it waits."));
        assert_eq!(sentence(&row, false), "linux: it waits.");
    }

    #[test]
    fn nothing_delivered_has_no_time() {
        let row = Row { mean_s: None, ..row() };
        assert!(bars(&[&row], false, 60).starts_with("linux          -  \n"), "{}", bars(&[&row], false, 60));
        let table = table(&[&row], false, 80);
        let last = table.lines().last().unwrap();
        assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["in", "all", "-"], "{table}");
    }

    #[test]
    fn the_gap_of_a_transfer_begins_with_its_first_byte() {
        let outage =
            OutagePart { path: "1".to_owned(), from_s: 0.0, until_s: Some(3.0), mean_s: 3.0, stopped: 0 };
        let mut row = Row { outages: vec![outage], longest_gap_s: Some(0.0152), ..row() };
        assert_eq!(
            sentence(&row, false),
            "It waits. After the first byte, the longest gap in delivery was 15.2 ms."
        );
        row.noun = "request";
        assert_eq!(sentence(&row, false), "It waits. The longest gap in delivery was 15.2 ms.");
        // Without an outage nobody asks for the gap.
        row.outages.clear();
        assert_eq!(sentence(&row, false), "It waits.");
    }

    #[test]
    fn classes_have_the_order_of_the_scenario() {
        let scenario = anabranch_lab::scenario::Document::parse(
            "test.toml",
            "path = [{ rate = '10 Mbit/s', rtt = '20 ms' }]
             schedulers = ['tcp']
             traffic = [
                 { name = 'web', kind = 'requests', size = '20 KB', think = '1 s', requests = 2 },
                 { name = 'film', kind = 'video', bitrate = '1 Mbit/s', duration = '8 s' },
             ]",
            ".",
        );
        let scenario = scenario.unwrap().scenario().unwrap();
        let row = |class: &str| {
            let mut row = row();
            row.of.traffic = Some(class.to_owned());
            row
        };
        let explanation = Explanation {
            head: Head::new(SCHEMA, &scenario),
            runs: 1,
            flow: None,
            rows: vec![row("web"), row("film")],
        };
        let text = text(&scenario, &explanation, false);
        let web = text.find("web: from each request to the last byte of its response").unwrap();
        assert!(
            text.find("film: from the request of each segment to its last byte").unwrap() > web,
            "{text}"
        );
    }

    fn row() -> Row {
        Row {
            of: Subject {
                scheduler: "linux".to_owned(),
                congestion: "cubic".to_owned(),
                condition: String::new(),
                traffic: None,
                path: None,
                n: 30,
                completed: 30,
            },
            measure: "mean completion time",
            noun: "flow",
            explained: 30,
            mean_s: Some(0.5),
            total_ns: 0,
            parts: Vec::new(),
            byte_mean_s: None,
            bytes: Vec::new(),
            outages: Vec::new(),
            longest_gap_s: None,
            fallbacks: 0,
            largest: None,
            excess: None,
            changes: Vec::new(),
            sentence: "It waits.".to_owned(),
        }
    }
}
