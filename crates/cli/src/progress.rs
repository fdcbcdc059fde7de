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
        let Ok(mut state) = self.state.lock() else { return };
        if matches!(*state, State::Silent) {
            if self.begun.elapsed() < PATIENCE || done == total {
                return;
            }
            *state = if std::io::stderr().is_terminal() {
                State::Bar(bar(total, self.begun, self.units))
            } else {
                State::Lines(Instant::now() - PAUSE)
            };
        }
        match &mut *state {
            State::Off | State::Silent => {}
            // With several threads the numbers may arrive out of order.
            State::Bar(bar) => bar.set_position(bar.position().max(done as u64)),
            State::Lines(last) if last.elapsed() >= PAUSE => {
                *last = Instant::now();
                output::print_error(&format!("{done} of {total} {} done\n", self.units));
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

fn bar(total: usize, begun: Instant, units: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr())
        .with_elapsed(begun.elapsed());
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{bar:40}} {{pos}} of {{len}} {units}, {{eta}} to go"))
    {
        bar.set_style(style);
    }
    bar
}
