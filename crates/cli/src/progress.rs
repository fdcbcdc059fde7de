//! Progress on standard error, for anything that takes more than a second.

use std::io::IsTerminal;
use std::sync::{Mutex, OnceLock};
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
    /// The number of units that were done before, such as the points of an interrupted sweep, and the time until then.
    before: OnceLock<(usize, Duration)>,
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
        Progress { begun: Instant::now(), units, state: Mutex::new(state), before: OnceLock::new() }
    }

    /// Reports that `done` of `total` runs are complete.
    pub(crate) fn update(&self, done: usize, total: usize) {
        let elapsed = self.begun.elapsed();
        // A first report of one unit is one of work, not of earlier results.
        let (before, then) =
            *self.before.get_or_init(|| if done <= 1 { (0, Duration::ZERO) } else { (done, elapsed) });
        self.report(
            done,
            total,
            remaining(elapsed.saturating_sub(then), done.saturating_sub(before), total.saturating_sub(done)),
        );
    }

    /// The same where units differ in length: the part `part` of all the work is done.
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
                State::Bar(bar(total, self.units))
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
                    bar.set_message(to_go(left));
                }
            }
            State::Lines(last) if last.elapsed() >= PAUSE => {
                *last = Instant::now();
                let left = left.map_or(String::new(), to_go);
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

/// Returns the time for `left` units if `done` took `elapsed`; none before one is done.
fn remaining(elapsed: Duration, done: usize, left: usize) -> Option<Duration> {
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * left as f64 / done as f64).ok()
}

/// Returns the end of a report: the remaining time in words.
fn to_go(left: Duration) -> String {
    match left.as_secs() {
        s @ 0..=99 => format!(", about {s} s to go"),
        s => format!(", about {} min to go", s.div_ceil(60)),
    }
}

/// Returns the bar. Its message is the remaining time.
fn bar(total: usize, units: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(&format!("{{bar:40}} {{pos}} of {{len}} {units}{{msg}}"))
    {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_left_before_one_unit_is_done() {
        let s = Duration::from_secs;
        assert_eq!(remaining(s(9), 0, 24), None);
        assert_eq!(remaining(s(9), 0, 0), None);
        assert_eq!(remaining(s(9), 3, 21).map(to_go).unwrap(), ", about 63 s to go");
        assert_eq!(remaining(s(9), 1, 23).map(to_go).unwrap(), ", about 4 min to go");
    }
}
