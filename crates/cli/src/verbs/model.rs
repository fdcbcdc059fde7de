//! `anabranch model`

use anabranch_lab::output::{Model, State, TooManyStates};
use anabranch_lab::scenario::units;
use anabranch_stack::transfer_model::{ModelOptions, PathState};

use crate::args::{Show, whole};
use crate::failure::Failure;
use crate::table::{Align, Table, wrap};
use crate::{output, terminal};

/// Shows the predictions of DMPTCP's transfer model, round trip by round trip
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The congestion window at the start, in segments
    #[arg(long, value_name = "W", value_parser = whole::<u32>(1..=1_000_000))]
    cwnd: u32,
    /// The slow-start threshold, in segments; infinite by default
    #[arg(long, value_name = "S", value_parser = whole::<u32>(1..=1_000_000))]
    ssthresh: Option<u32>,
    /// The probability that a segment is lost: 0.05% or 0.0005
    #[arg(long, value_name = "P", default_value = "0", value_parser = units::parse_probability)]
    loss: f64,
    /// The number of round trips
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=100))]
    rounds: u32,
    /// The payload of a segment, in bytes
    #[arg(long, value_name = "B", default_value_t = 1400, value_parser = whole::<u32>(1..=65_535))]
    mss: u32,
    /// End slow start at the threshold instead of beyond it
    #[arg(long)]
    clip: bool,
    #[command(flatten)]
    pub show: Show,
}

/// The number of states of a round that are shown.
const SHOWN: usize = 6;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let options = ModelOptions { clip_at_ssthresh: args.clip, ..ModelOptions::default() };
    let start = PathState { cwnd: args.cwnd, ssthresh: args.ssthresh, loss: args.loss };
    let output = Model::new(options, start, args.rounds).map_err(|TooManyStates { most_rounds }| {
        Failure::Usage(format!(
            "this number of rounds has over a million states; give at most `--rounds {most_rounds}`"
        ))
    })?;
    if args.show.json { output::print_json(&output) } else { output::print(&text(args, &output)) }
}

fn text(args: &Args, output: &Model) -> String {
    let mut table = Table::new()
        .column("round", Align::Right)
        .column("segments", Align::Decimal)
        .column("KiB", Align::Decimal)
        .column("mean window", Align::Decimal)
        .wrapped("states (window, threshold: probability)");
    let kib = |segments: f64| segments * f64::from(args.mss) / 1024.0;
    for round in &output.rounds {
        let state = |state: &State| {
            let threshold = state.ssthresh.map_or("inf".to_owned(), |s| s.to_string());
            let probability = match state.probability {
                1.0 => "1".to_owned(),
                other => output::digits(other),
            };
            format!("({}, {threshold}: {probability})", state.cwnd)
        };
        let mut states: Vec<&State> = round.states.iter().collect();
        states.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let mut shown: Vec<String> = states.iter().take(SHOWN).map(|one| state(one)).collect();
        if states.len() > SHOWN {
            shown.push(format!("and {} more", states.len() - SHOWN));
        }
        table.row(vec![
            round.round.to_string(),
            output::digits(round.delivered_segments),
            output::digits(kib(round.delivered_segments)),
            output::digits(round.expected_cwnd),
            shown.join(" "),
        ]);
    }
    let total = output.rounds.last().map_or(0.0, |round| round.delivered_segments);
    let sentence = format!(
        "{} round trips deliver {} segments of {} B: {} KiB",
        args.rounds,
        output::digits(total),
        args.mss,
        output::digits(kib(total))
    );
    format!("{}\n{}", table.render(terminal::width()), wrap(&sentence, terminal::text_width()))
}
