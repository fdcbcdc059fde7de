//! The explanation of a contender in words.

use super::cause::Cause;
use super::row::{Change, Row};
use crate::figures::signed_percent;
use crate::report::Difference;
use crate::spoken::{amount, signed, spoken};

impl Row {
    /// The largest cause and the advised change, in words.
    pub(super) fn words(&self) -> String {
        let name = &self.of.scheduler;
        let mut head = match (&self.largest, self.mean_s) {
            (Some(largest), Some(mean)) => {
                format!("{name}: {}.", went(largest.cause, largest.path.as_deref(), largest.mean_s, mean))
            }
            _ => format!("{name}: nothing was delivered, so there is nothing to explain."),
        };
        if self.fallbacks > 0 {
            let flows = if self.of.n == 1 {
                "The flow".to_owned()
            } else {
                format!("{} of {} flows", self.fallbacks, self.of.n)
            };
            head += &format!(" {flows} gave up Multipath TCP, and continued as TCP on one path.");
        }
        for outage in &self.outages {
            let until = outage.until_s.map_or("on".to_owned(), |until| format!("to {until} s"));
            let of = format!("The outage of {} from {} s {until}", spoken(&outage.path), outage.from_s);
            if outage.mean_s > 0.0 {
                head += &format!(" {of} cost {}.", milliseconds(outage.mean_s));
            }
            if outage.stopped > 0 {
                let of = if outage.mean_s > 0.0 { "It".to_owned() } else { of };
                let flows =
                    if outage.stopped == 1 { "one flow" } else { &format!("{} flows", outage.stopped) };
                head += &match outage.until_s {
                    None => format!(" {of} was not over when {flows} ended undelivered."),
                    Some(_) => format!(" {of} stopped {flows}, which delivered nothing more."),
                };
            }
        }
        if let Some(excess) = &self.excess {
            let (least, and) = match excess.at_least {
                true => ("at least ", "; up to the last delivered byte, it spends"),
                false => ("", ", and spends"),
            };
            head += &format!(
                " It takes {least}{} more than {}{and} {} more on {}.",
                milliseconds(excess.total_s),
                excess.than,
                milliseconds(excess.cause_s),
                phrase(excess.cause, excess.path.as_deref())
            );
        }
        let tried = || self.changes.iter().map(|change| self.tried(change)).collect::<Vec<_>>().join("; ");
        let tail = match self.advised() {
            Some(best) => format!(" With {}, {}.", best.what, self.effect(best)),
            None if self.changes.is_empty() => String::new(),
            None if self.changes.iter().any(|change| change.helps.is_none()) => {
                let one = self.changes.iter().all(|change| change.has_no_interval());
                let runs = if one { "One run cannot" } else { "These runs cannot" };
                format!(" {runs} tell whether a change helps; tried: {}.", tried())
            }
            None => format!(" No change that was tried helps: {}.", tried()),
        };
        head + &tail
    }

    /// The effect of a change that helps, in words.
    fn effect(&self, change: &Change) -> String {
        let own = self.of.n - self.of.completed;
        let noun = self.noun;
        let finish = match own.saturating_sub(change.unfinished) {
            0 => None,
            _ if change.unfinished == 0 => Some(format!("every {noun} finishes")),
            1 => Some(format!("one more {noun} finishes")),
            more => Some(format!("{more} more {noun}s finish")),
        };
        let measure = match finish {
            None => format!("the {}", self.measure),
            Some(_) => format!("the {} of those that finish anyway", self.measure),
        };
        let time = change.effect_pct.map(|Difference { mean, ci95 }| {
            let (size, interval) = amount(mean, ci95, "", "");
            let gap = if interval.is_empty() { "" } else { " " };
            match size.ends_with("times") {
                true => format!("{measure} is {size} as high{gap}{interval}"),
                false => format!("{measure} changes by {} %{gap}{interval}", signed(mean)),
            }
        });
        match (finish, time) {
            (Some(finish), Some(time)) => format!("{finish}, and {time}"),
            (finish, time) => finish.or(time).unwrap_or_default(),
        }
    }

    /// A change with its effect, in short.
    pub fn tried(&self, change: &Change) -> String {
        let own = self.of.n - self.of.completed;
        let doubt = if change.helps.is_none() && !change.has_no_interval() { ", undecided" } else { "" };
        let time = change.effect_pct.map(|effect| match amount(effect.mean, None, "", "").0 {
            size if size.ends_with("times") => format!("{size} the {}{doubt}", self.measure),
            _ => format!("{} %{doubt}", signed_percent(effect.mean)),
        });
        let count = |count: usize| match count {
            1 => format!("1 {}", self.noun),
            count => format!("{count} {}s", self.noun),
        };
        let stuck = match change.unfinished {
            0 if own > 0 => Some(format!("every {} finishes", self.noun)),
            stuck if stuck > 0 => Some(format!("{} not finished", count(stuck))),
            _ => None,
        };
        let effects: Vec<String> = stuck.into_iter().chain(time).collect();
        match effects.is_empty() {
            true => change.what.clone(),
            false => format!("{} ({})", change.what, effects.join(", ")),
        }
    }

    /// The largest cause of a byte's time in words; none if nothing was delivered.
    pub fn of_bytes(&self) -> Option<String> {
        let mean = self.byte_mean_s?;
        let largest = self.bytes.iter().rev().max_by(|a, b| a.mean_s.total_cmp(&b.mean_s))?;
        Some(format!(
            "{}: of a byte, {}.",
            self.of.scheduler,
            went(largest.cause, None, largest.mean_s, mean)
        ))
    }
}

impl Change {
    /// True if its effect has no interval.
    fn has_no_interval(&self) -> bool {
        self.effect_pct.is_none_or(|effect| effect.ci95.is_none())
    }
}

/// The part of a time that has a cause, in words.
fn went(cause: Cause, path: Option<&str>, part: f64, whole: f64) -> String {
    let share = 100.0 * part / whole;
    format!(
        "{} of {} ({share:.0} %) went into {}",
        milliseconds(part),
        milliseconds(whole),
        phrase(cause, path)
    )
}

/// A cause in words, and the path that has most of it.
fn phrase(cause: Cause, path: Option<&str>) -> String {
    let words = match cause {
        Cause::Handshake => "establishing the connection",
        Cause::Application => "waiting for the application to write",
        Cause::SendBuffer => "waiting for space in the send buffer",
        Cause::ReceiveWindow => "waiting for the receive window",
        Cause::CongestionWindow => "waiting for the congestion window",
        Cause::Pacing => "pacing or Nagle's algorithm",
        Cause::Scheduler => "waiting by decision of the scheduler",
        Cause::Queueing => "queueing behind other packets",
        Cause::Serialisation => "transmission at the rate of the links",
        Cause::Propagation => "propagation",
        Cause::Retransmission => "waiting for retransmissions of lost data",
        Cause::HeadOfLine => "waiting for earlier bytes",
        Cause::Outage => "waiting because a path was down",
    };
    let concerns_paths =
        !matches!(cause, Cause::Application | Cause::SendBuffer | Cause::ReceiveWindow | Cause::Scheduler);
    match path.filter(|_| concerns_paths) {
        Some(path) => format!("{words}, mostly on {}", spoken(path)),
        None => words.to_owned(),
    }
}

fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let decimals = if ms >= 100.0 {
        0
    } else if ms >= 10.0 {
        1
    } else {
        2
    };
    format!("{ms:.decimals$} ms")
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
