//! Advice as text.

use anabranch_lab::advise::{Advice, Answer, Application, EXPLAINED_RUNS, Margin, MarginEnd, Quantity};
use anabranch_lab::figures::{self, digits, signed_percent};
use anabranch_lab::report::Record;
use anabranch_lab::spoken;

use crate::table::{Align, Table, wrap, wrap_behind};
use crate::terminal::{self, BAD, GOOD, paint};

/// Returns the advice: the answer, the candidates, the margins, and the steps to take.
pub fn text(advice: &Advice) -> String {
    let width = terminal::text_width();
    let mut text = match advice.condition.as_str() {
        "" => wrap(&sentence(advice), width),
        name => wrap(&format!("With {name}: {}", sentence(advice)), width),
    };
    if let Some(sentence) = beyond(advice) {
        text.push_str(&wrap(&sentence, width));
    }
    text.push('\n');
    text.push_str(&candidates(advice));
    let runs = advice.judgement.runs.min(EXPLAINED_RUNS);
    text.push_str(&format!("\nWhere the time went, in the first {runs} of these runs:\n"));
    for reason in &advice.reasons {
        text.push_str(&wrap_behind("  * ", &reason.sentence, width));
    }
    text.push_str(&margins(advice, width));
    text.push_str("\nWhat to do:\n");
    for action in &advice.actions {
        text.push_str(&wrap_behind("  * ", action, width));
    }
    text
}

fn sentence(advice: &Advice) -> String {
    let single = single(advice);
    let (best, start) = (&advice.best.name, &advice.start);
    let measure = measure(advice);
    let figure = advice.difference_pct.map_or(String::new(), |difference| {
        let (amount, range) = spoken::amount(difference.mean, difference.ci95, "below", "above");
        let range = if range.is_empty() { range } else { format!(" {range}") };
        format!("{amount} TCP's {single}{range}")
    });
    let with = if advice.beyond.is_some() { "With a stock kernel " } else { "" };
    let role = match advice.application {
        Application::Kernel => "the best candidate for a stock kernel",
        Application::Anabranch => "one of the best candidates",
    };
    let of = format!("the {measure} of {best}, {role}, starting on {start}, is {figure}");
    match advice.answer {
        Answer::Pays => format!(
            "{}: the {measure} of {best}, starting on {start}, is {figure}.",
            paint(GOOD, "Multipath TCP pays")
        ),
        Answer::Small => format!(
            "{with}Multipath TCP makes no difference that counts as a gain ({} %): {of}.",
            digits(advice.min_gain_pct)
        ),
        Answer::Equal => format!("{with}Multipath TCP and TCP are practically equal: {of}."),
        Answer::Costs => format!("{with}{}: {of}.", paint(BAD, "Multipath TCP does not pay")),
        Answer::Undecided => format!(
            "These runs cannot tell whether Multipath TCP pays{}: {of}.",
            if with.is_empty() { "" } else { " with a stock kernel" }
        ),
        Answer::Incomplete => format!("There is no advice. {}", advice.judgement.verdict),
    }
}

/// The gain that an application on this stack would have beyond the advised way to send.
fn beyond(advice: &Advice) -> Option<String> {
    let beyond = advice.beyond.as_ref()?;
    let difference =
        advice.judgement.row_of_class(&beyond.name, advice.traffic.as_deref())?.vs_reference_pct?;
    let amount = spoken::amount(difference.mean, None, "below", "above").0;
    Some(format!(
        "The {} of {} is {amount} TCP's, but an application on a stock kernel cannot have it; one that is built on this stack can (--application anabranch).",
        measure(advice),
        beyond.name,
    ))
}

fn measure(advice: &Advice) -> String {
    match &advice.traffic {
        Some(class) => format!("{} of {class}", advice.measure),
        None if advice.bulk => "goodput".to_owned(),
        None => "mean completion time".to_owned(),
    }
}

/// The single path of TCP, and its congestion control if that is not the scenario's.
fn single(advice: &Advice) -> String {
    let with = advice.single_congestion.as_ref().map_or(String::new(), |name| format!("with {name} "));
    format!("{with}on {}", advice.single_path.as_deref().unwrap_or("the best path"))
}

/// TCP and the judged candidates, the advised one first.
fn candidates(advice: &Advice) -> String {
    let row = |name: &str| advice.judgement.row_of_class(name, advice.traffic.as_deref());
    let sum = advice.judgement.conditions.first().map(|setting| setting.ideal_sum_bps);
    let mut rows: Vec<(String, &Record)> = Vec::new();
    if let Some(tcp) = row("tcp") {
        rows.push((format!("tcp {}", single(advice)), tcp));
    }
    rows.extend(advice.candidates.iter().filter_map(|one| Some((one.name.clone(), row(&one.name)?))));
    // Requests, bursts and videos have no bound.
    let has_ideal = advice.bulk || rows.iter().any(|(_, row)| row.vs_lower_bound.is_some());
    let mut table = Table::new()
        .column("way to send", Align::Left)
        .column("congestion", Align::Left)
        .column(if advice.bulk { "Mbit/s" } else { "mean ms" }, Align::Decimal)
        .column("vs tcp, %", Align::Right);
    if has_ideal {
        table = table.optional(if advice.bulk { "% of sum" } else { "x bound" }, Align::Decimal, 2);
    }
    let mut table = table.optional("bytes by path, %", Align::Left, 1);
    for (name, row) in rows {
        let value = match advice.bulk {
            true => row.goodput_bps.map(|rate| rate / 1e6),
            false => row.fct_s.mean.map(|mean| mean * 1e3),
        };
        let difference = match row.vs_reference_pct {
            Some(difference) if row.scheduler != "tcp" => difference.ci95.map_or_else(
                || signed_percent(difference.mean),
                |interval| {
                    let [mean, low, high] = [difference.mean, interval.0, interval.1].map(signed_percent);
                    format!("{mean} [{low}, {high}]")
                },
            ),
            _ if row.scheduler == "tcp" => "0".to_owned(),
            _ => "-".to_owned(),
        };
        let total = row.bytes_by_path.iter().sum::<u64>().max(1) as f64;
        let shares: Vec<String> =
            row.bytes_by_path.iter().map(|bytes| format!("{:.0}", 100.0 * *bytes as f64 / total)).collect();
        let number = |value: Option<f64>| value.map_or("-".to_owned(), digits);
        let of_ideal = match advice.bulk {
            true => row.goodput_bps.zip(sum).map(|(rate, sum)| 100.0 * rate / sum),
            false => row.vs_lower_bound,
        };
        let congestion = row.congestion.clone();
        let mut cells = vec![name, congestion, number(value), difference];
        cells.extend(has_ideal.then(|| number(of_ideal)));
        cells.push(shares.join("/"));
        table.row(cells);
    }
    table.render(terminal::width())
}

/// How far the setting may change; empty if that was not measured.
fn margins(advice: &Advice, width: usize) -> String {
    if advice.margins.is_empty() {
        return String::new();
    }
    let is_open = |end: &MarginEnd| matches!(end, MarginEnd::Open(_));
    let lines = |open: bool| -> Vec<String> {
        advice.margins.iter().filter_map(|margin| margin_line(margin, &|end| is_open(end) == open)).collect()
    };
    // The margins apply to the best candidate: another one may pay where it does not.
    let of = format!("For {}, starting on {}, the answer", advice.best.name, advice.start);
    let (changes, open) = (lines(false), lines(true));
    let ends = advice.margins.iter().flat_map(|margin| [margin.end_below(), margin.end_above()]);
    let unclear = match ends.flatten().any(|end| matches!(end, MarginEnd::Between(..))) {
        true => " (between two values, these runs cannot tell)",
        false => "",
    };
    let mut text = String::from("\n");
    let mut list = |head: &str, lines: Vec<String>| {
        text.push_str(&wrap(head, width));
        for line in lines {
            text.push_str(&wrap_behind("  * ", &line, width));
        }
    };
    match (changes.is_empty(), open.is_empty()) {
        (true, true) => list(
            &format!(
                "{of} is the same for an eighth, a quarter, half, twice, four and eight times each rate, round-trip time and size, and for losses up to 5 %."
            ),
            changes,
        ),
        (true, false) => {
            list(&format!("{of} is not known to change. These runs cannot tell whether it changes if"), open);
        }
        (false, true) => list(&format!("{of} changes if{unclear}"), changes),
        (false, false) => {
            list(&format!("{of} changes if{unclear}"), changes);
            list("These runs cannot tell whether it changes if", open);
        }
    }
    text
}

/// The chosen ends of the margin of a quantity; none if it has none of them.
fn margin_line(margin: &Margin, chosen: &dyn Fn(&MarginEnd) -> bool) -> Option<String> {
    let of = margin.path.as_ref().map_or(String::new(), |path| format!(" of {path}"));
    let show = |value| quantity(margin.quantity, value);
    let ends = [(margin.end_below(), "below"), (margin.end_above(), "above")];
    let part = |(end, word): (Option<MarginEnd>, &str)| {
        let end = end.filter(|end| chosen(end))?;
        Some(match end {
            MarginEnd::Open(value) if show(value) == show(margin.value) => {
                format!("is any {}", if word == "below" { "lower" } else { "higher" })
            }
            MarginEnd::Clear(value) | MarginEnd::Open(value) => format!("is {word} {}", show(value)),
            MarginEnd::Between(holds, other) => {
                let (least, most) = (holds.min(other), holds.max(other));
                let (least, most) = (show(least), show(most));
                let unit = most.find(' ').map_or("", |space| &most[space..]);
                format!("is {word} {} to {most}", least.strip_suffix(unit).unwrap_or(&least))
            }
        })
    };
    let parts: Vec<String> = ends.into_iter().filter_map(part).collect();
    let now = match margin.quantity {
        Quantity::Loss if margin.value == 0.0 => "none".to_owned(),
        _ => show(margin.value),
    };
    (!parts.is_empty())
        .then(|| format!("the {}{of} {} (now {now})", margin.quantity.noun(), parts.join(" or ")))
}

fn quantity(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Rate => format!("{} Mbit/s", digits(value / 1e6)),
        Quantity::Rtt => format!("{} ms", digits(value * 1e3)),
        Quantity::Loss => format!("{} %", digits(value * 100.0)),
        Quantity::Size => figures::size(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_lab::advise::{Application, Candidate};
    use anabranch_lab::report::Difference;
    use anabranch_lab::stats::Interval;

    use super::*;
    use crate::made::{TWO, compared};

    /// Returns the line of a margin of the rate of wifi, now 10 Mbit/s, in Mbit/s; `holds` are the ends up to which the answer
    /// clearly holds, and `other` those from which it is clearly another one.
    fn line(holds: [Option<f64>; 2], other: [Option<f64>; 2], open: bool) -> Option<String> {
        let bps = |value: Option<f64>| value.map(|mega| mega * 1e6);
        let margin = Margin {
            quantity: Quantity::Rate,
            path: Some("wifi".to_owned()),
            value: 10e6,
            below: bps(other[0]),
            above: bps(other[1]),
            holds_down_to: bps(holds[0]),
            holds_up_to: bps(holds[1]),
        };
        margin_line(&margin, &|end| matches!(end, MarginEnd::Open(_)) == open)
    }

    #[test]
    fn a_margin_names_its_ends_from_the_lower_to_the_higher_value() {
        let rate = |ends: &str| Some(format!("the rate of wifi {ends} (now 10.0 Mbit/s)"));
        let clear = line([Some(5.2), Some(19.5)], [Some(5.0), Some(20.0)], false);
        assert_eq!(clear, rate("is below 5.00 Mbit/s or is above 20.0 Mbit/s"));
        // Between two values the runs cannot tell.
        let between = line([Some(8.0), Some(15.0)], [Some(5.0), Some(30.0)], false);
        assert_eq!(between, rate("is below 5.00 to 8.00 Mbit/s or is above 15.0 to 30.0 Mbit/s"));
        // An open end has its own list.
        let [holds, other] = [[Some(8.0), Some(15.0)], [None, Some(15.5)]];
        assert_eq!(line(holds, other, false), rate("is above 15.5 Mbit/s"));
        assert_eq!(line(holds, other, true), rate("is below 8.00 Mbit/s"));
        assert_eq!(line([None, None], [None, None], false), None);
    }

    #[test]
    fn an_end_at_the_present_value_is_any_lower_or_higher_one() {
        let open = line([Some(10.0), None], [None, None], true);
        assert_eq!(open.as_deref(), Some("the rate of wifi is any lower (now 10.0 Mbit/s)"));
    }

    #[test]
    fn quantities_have_the_units_of_a_scenario() {
        use Quantity::{Loss, Rate, Rtt, Size};
        let shown = [(Rate, 12.5e6), (Rtt, 0.025), (Loss, 0.025), (Size, 250e3)]
            .map(|(of, value)| quantity(of, value));
        assert_eq!(shown, ["12.5 Mbit/s", "25.0 ms", "2.50 %", "250 KB"]);
    }

    #[test]
    fn a_path_without_loss_has_none_now() {
        let margin = Margin {
            quantity: Quantity::Loss,
            path: Some("2".to_owned()),
            value: 0.0,
            below: None,
            above: Some(0.023),
            holds_down_to: None,
            holds_up_to: Some(0.0225),
        };
        let line = margin_line(&margin, &|_| true).unwrap();
        assert_eq!(line, "the loss of 2 is above 2.30 % (now none)");
    }

    fn advice(answer: Answer) -> Advice {
        let candidate =
            |name: &str| Candidate { name: name.to_owned(), scheduler: name.to_owned(), congestion: None };
        let (_, mut judgement) = compared(TWO);
        let of = |mean, low, high| Some(Difference { mean, ci95: Some(Interval(low, high)) });
        let blest = judgement.rows.iter_mut().find(|row| row.scheduler == "blest").unwrap();
        blest.vs_reference_pct = of(-11.3, -12.4, -5.3);
        Advice {
            condition: String::new(),
            answer,
            min_gain_pct: 5.0,
            application: Application::Kernel,
            best: candidate("min_rtt"),
            beyond: Some(candidate("blest")),
            start: "wifi".to_owned(),
            single_path: Some("lte".to_owned()),
            single_congestion: None,
            difference_pct: of(-7.26, -9.0, -6.0),
            traffic: None,
            measure: "mean completion time",
            bulk: false,
            screened: 8,
            candidates: vec![candidate("min_rtt"), candidate("blest")],
            judgement,
            reasons: Vec::new(),
            margins: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn traffic_without_a_lower_bound_has_no_column_of_it() {
        let mut found = advice(Answer::Pays);
        assert!(plain(&candidates(&found)).contains("x bound"));
        found.judgement.rows.iter_mut().for_each(|row| row.vs_lower_bound = None);
        let table = plain(&candidates(&found));
        assert!(!table.contains("x bound") && table.contains("bytes by path"), "{table}");
        // The cells are below their titles.
        assert!(table.lines().all(|line| !line.contains(" -  ")), "{table}");
    }

    #[test]
    fn goodput_is_a_percentage_of_the_sum_of_the_paths() {
        let mut found = advice(Answer::Pays);
        found.bulk = true;
        found.judgement.conditions[0].ideal_sum_bps = 15e6;
        found.judgement.rows.iter_mut().for_each(|row| row.goodput_bps = Some(12e6));
        let table = plain(&candidates(&found));
        let line = table.lines().find(|line| line.starts_with("min_rtt")).unwrap();
        assert!(table.contains("% of sum") && line.split_whitespace().any(|cell| cell == "80.0"), "{table}");
    }

    #[test]
    fn the_answer_has_the_measure_the_difference_and_the_tcp_with_which_it_is_compared() {
        let figure = "is 7.3 % below TCP's on lte (95 % interval -9.0 to -6.0 %).";
        let candidate = "of min_rtt, the best candidate for a stock kernel, starting on wifi,";
        let advice = |answer| Advice { beyond: None, ..advice(answer) };
        for (answer, expected) in [
            (
                Answer::Pays,
                format!(
                    "Multipath TCP pays: the mean completion time of min_rtt, starting on wifi, {figure}"
                ),
            ),
            (
                Answer::Small,
                format!(
                    "Multipath TCP makes no difference that counts as a gain (5.00 %): the mean completion time {candidate} {figure}"
                ),
            ),
            (
                Answer::Equal,
                format!(
                    "Multipath TCP and TCP are practically equal: the mean completion time {candidate} {figure}"
                ),
            ),
            (
                Answer::Costs,
                format!("Multipath TCP does not pay: the mean completion time {candidate} {figure}"),
            ),
            (
                Answer::Undecided,
                format!(
                    "These runs cannot tell whether Multipath TCP pays: the mean completion time {candidate} {figure}"
                ),
            ),
        ] {
            assert_eq!(plain(&sentence(&advice(answer))), expected);
        }
        let better = Advice { beyond: super::tests::advice(Answer::Costs).beyond, ..advice(Answer::Costs) };
        assert!(plain(&sentence(&better)).starts_with("With a stock kernel Multipath TCP does not pay: "));
        let mut bulk = advice(Answer::Pays);
        (bulk.bulk, bulk.single_congestion) = (true, Some("bbr".to_owned()));
        bulk.difference_pct = Some(Difference { mean: 95.3, ci95: None });
        let expected = "Multipath TCP pays: the goodput of min_rtt, starting on wifi, is 95.3 % above TCP's with bbr on lte.";
        assert_eq!(plain(&sentence(&bulk)), expected);
    }

    #[test]
    fn tcp_has_no_difference_from_itself_in_the_table() {
        let text = plain(&candidates(&advice(Answer::Pays)));
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let words = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words("tcp on lte")[5], "0", "{text}");
        assert!(line("blest").contains("-11.3 [-12.4, -5.3]"), "{text}");
        // Where nothing was delivered there is no difference.
        let mut none = advice(Answer::Incomplete);
        none.judgement.rows.iter_mut().for_each(|row| row.vs_reference_pct = None);
        let text = plain(&candidates(&none));
        let blest = text.lines().find(|line| line.starts_with("blest")).unwrap();
        assert_eq!(blest.split_whitespace().nth(3), Some("-"), "{text}");
    }

    #[test]
    fn a_better_way_to_send_that_a_stock_kernel_lacks_is_compared_with_tcp_too() {
        let mut advice = advice(Answer::Small);
        let expected = "The mean completion time of blest is 11.3 % below TCP's, but an application on a stock kernel cannot \
                        have it; one that is built on this stack can (--application anabranch).";
        assert_eq!(beyond(&advice).as_deref(), Some(expected));
        advice.beyond = None;
        assert_eq!(beyond(&advice), None);
    }
}
