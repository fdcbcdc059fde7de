//! The measures as a table of a page.

use crate::column::Measure;
use crate::measures::all;

/// Returns the table of all measures in Markdown, as `docs/results.md` has it.
pub fn markdown() -> String {
    let head = "| measure | unit | better | traffic | in | columns of a sweep | columns of samples | meaning |\n\
                |---|---|---|---|---|---|---|---|\n";
    all().fold(head.to_owned(), |page, measure| page + &row(measure))
}

fn row(measure: &Measure) -> String {
    let name = match measure.within {
        "" => measure.name.to_owned(),
        within => format!("{within}.{}", measure.name),
    };
    let records = match (measure.of_contenders, measure.of_flows) {
        (true, true) => "rows, flows",
        (true, false) => "rows",
        (false, true) => "flows",
        (false, false) => "",
    };
    let sweep = code(measure.sweep.iter().map(|column| column.name));
    let samples = code(measure.samples.iter().map(|column| column.name));
    let (unit, better, traffic) = (measure.unit.symbol(), measure.better.word(), measure.traffic.words());
    let meaning = measure.meaning.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("| `{name}` | {unit} | {better} | {traffic} | {records} | {sweep} | {samples} | {meaning} |\n")
}

fn code<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
