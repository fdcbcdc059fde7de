//! Progress on standard error, for anything that takes more than a second.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// The time of the first report.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between lines if standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(5);

/// Reports progress: a bar on a terminal, occasional lines elsewhere.
pub(crate) struct Progress {
    begun: Instant,
    /// The name of a unit of work.
    units: &'static str,
    state: Mutex<State>,
}

enum State {
    /// No output, with `--quiet`.
    Off,
    Silent,
    Bar(ProgressBar),
    Lines(Instant),
}

impl Progress {
    /// Returns the progress of work that begins now.
    pub(crate) fn new() -> Progress {
        Progress::of("runs")
    }

    /// The same for work that is counted in `units`.
    pub(crate) fn of(units: &'static str) -> Progress {
        let state = if output::is_quiet() { State::Off } else { State::Silent };
        Progress { begun: Instant::now(), units, state: Mutex::new(state) }
    }

    /// Reports that `done` of `total` runs are complete.
    pub(crate) fn update(&self, done: usize, total: usize) {
        self.report(done, total, None);
    }

    /// The same where units differ in length, of which the part `part` of all the work is done.
    pub(crate) fn update_part(&self, done: usize, total: usize, part: f64) {
        let left = self.begun.elapsed().as_secs_f64() * (1.0 - part) / part;
        self.report(done, total, Duration::try_from_secs_f64(left).ok());
    }

    fn report(&self, done: usize, total: usize, left: Option<Duration>) {
        let Ok(mut state) = self.state.lock() else { return };
        if matches!(*state, State::Silent) {
            if self.begun.elapsed() < PATIENCE || done == total {
                return;
            }
            *state = if std::io::stderr().is_terminal() {
                State::Bar(bar(total, self.begun, self.units, left.is_some()))
            } else {
                State::Lines(Instant::now() - PAUSE)
            };
        }
        match &mut *state {
            State::Off | State::Silent => {}
            // With several threads the numbers may arrive out of order.
            State::Bar(bar) => {
                bar.set_length(total as u64);
                bar.set_position(bar.position().max(done as u64));
                if let Some(left) = left {
                    bar.set_message(about(left));
                }
            }
            State::Lines(last) if last.elapsed() >= PAUSE => {
                *last = Instant::now();
                let left = left.map_or(String::new(), |left| format!(", {} to go", about(left)));
                output::print_error(&format!("{done} of {total} {} done{left}\n", self.units));
            }
            State::Lines(_) => {}
        }
    }

    /// Removes the bar, and returns the duration of the work.
    pub(crate) fn finish(self) -> Duration {
        if let Ok(State::Bar(bar)) = self.state.into_inner() {
            bar.finish_and_clear();
        }
        self.begun.elapsed()
    }
}

/// Returns a duration in words.
fn about(left: Duration) -> String {
    match left.as_secs() {
        s @ 0..=99 => format!("about {s} s"),
        s => format!("about {} min", s.div_ceil(60)),
    }
}

/// Returns the bar; `own` if the time that is left is not computed by the number of units.
fn bar(total: usize, begun: Instant, units: &str, own: bool) -> ProgressBar {
    let left = if own { "{msg}" } else { "{eta}" };
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr())
        .with_elapsed(begun.elapsed());
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{bar:40}} {{pos}} of {{len}} {units}, {left} to go"))
    {
        bar.set_style(style);
    }
    bar
}
