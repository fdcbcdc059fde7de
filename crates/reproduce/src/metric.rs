//! Measures of a run.

use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The quantity of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quantity {
    Done,
    Acked,
    Goodput,
    Share,
    Used,
    Segments,
    Most,
    Repeated,
    Lost,
    Timeouts,
    Opportunistic,
    Penalisations,
    Jain,
    Unfinished,
    Benefit,
    Degraded,
    Interval,
    Wait,
    WaitMost,
    Latency,
    Srtt,
    SrttGap,
    Window,
    /// Packets in a cycle of the window simulation.
    PerCycle,
    WindowMost,
    Free,
    Gap,
    Burst,
    Jump,
    Guard,
    Pauses,
    Sequence,
    Data,
    DataAcked,
    Flight,
}

impl Quantity {
    /// True if a figure may show its course in one run.
    pub(crate) fn has_course(self) -> bool {
        self.is_state() || self.has_only_course() || self == Quantity::Timeouts
    }

    /// True if it is one only over time, with no value of a run.
    pub(crate) fn has_only_course(self) -> bool {
        matches!(self, Quantity::Sequence | Quantity::Data | Quantity::DataAcked | Quantity::Flight)
    }

    /// True if it is a place in a stream.
    pub(crate) fn is_place(self) -> bool {
        matches!(self, Quantity::Sequence | Quantity::Data | Quantity::DataAcked)
    }

    /// True if a value lasts until the next one.
    pub(crate) fn is_state(self) -> bool {
        matches!(self, Quantity::Window | Quantity::Flight | Quantity::Free | Quantity::Srtt)
            || self == Quantity::DataAcked
    }

    /// True if its course is one of a subflow.
    pub(crate) fn is_of_path(self) -> bool {
        self == Quantity::Sequence || self.is_state() && self != Quantity::DataAcked
    }

    /// True if a single path has a value of it.
    pub(crate) fn has_paths(self) -> bool {
        use Quantity::{
            Acked, Benefit, Degraded, Done, Gap, Guard, Interval, Jain, Jump, Most, Opportunistic, Pauses,
            Penalisations, SrttGap, Unfinished, Used,
        };
        !matches!(
            self,
            Done | Acked
                | Used
                | Most
                | Opportunistic
                | Penalisations
                | Jain
                | Unfinished
                | Benefit
                | Degraded
        ) && !matches!(self, Interval | SrttGap | Gap | Jump | Guard | Pauses)
    }

    /// True if a figure may show its distribution over packets or seconds.
    pub(crate) fn has_samples(self) -> bool {
        matches!(self, Quantity::Wait | Quantity::Goodput)
    }

    /// Returns the names of those that `has` accepts.
    pub(crate) fn names(has: impl Fn(Quantity) -> bool) -> String {
        let own = QUANTITIES.iter().filter(|(quantity, ..)| has(*quantity));
        own.map(|(_, name, _, _)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// Names, units, and whether a recorder is needed.
const QUANTITIES: &[(Quantity, &str, &str, bool)] = &[
    (Quantity::Done, "done", "ms", false),
    (Quantity::Acked, "acked", "ms", false),
    (Quantity::Goodput, "goodput", "Mbit/s", false),
    (Quantity::Share, "share", "%", false),
    (Quantity::Used, "subflows-used", "", false),
    (Quantity::Segments, "segments", "", false),
    (Quantity::Most, "segments-most", "", false),
    (Quantity::Repeated, "repeated", "%", false),
    (Quantity::Lost, "lost", "%", false),
    (Quantity::Timeouts, "timeouts", "", false),
    (Quantity::Opportunistic, "opportunistic", "", false),
    (Quantity::Penalisations, "penalisations", "", false),
    (Quantity::Jain, "jain", "", false),
    (Quantity::Unfinished, "unfinished", "", false),
    (Quantity::Benefit, "benefit", "", false),
    (Quantity::Degraded, "degraded", "", false),
    (Quantity::Interval, "interval", "ms", true),
    (Quantity::Wait, "wait", "ms", true),
    (Quantity::WaitMost, "wait-most", "ms", true),
    (Quantity::Latency, "latency", "ms", true),
    (Quantity::Srtt, "srtt", "ms", true),
    (Quantity::SrttGap, "srtt-gap", "ms", true),
    (Quantity::Window, "window", "segments", true),
    (Quantity::PerCycle, "rate", "packets", false),
    (Quantity::WindowMost, "window-most", "segments", true),
    (Quantity::Free, "free", "segments", true),
    (Quantity::Gap, "gap", "segments", true),
    (Quantity::Burst, "burst", "segments", true),
    (Quantity::Jump, "jump", "segments", true),
    (Quantity::Guard, "guard", "ms", true),
    (Quantity::Pauses, "pauses", "", true),
    (Quantity::Sequence, "sequence", "KB", true),
    (Quantity::Data, "data", "KB", true),
    (Quantity::DataAcked, "data-acked", "KB", true),
    (Quantity::Flight, "flight", "segments", true),
];

/// A measure of a run: a quantity, possibly of one path, of a span of time, or of the competing TCPs:
/// `goodput`, `goodput.2` on the second path, `goodput@20..40` in these seconds, `beside.goodput`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    pub(crate) quantity: Quantity,
    /// True for the competing TCPs instead of the contender's flows.
    pub(crate) beside: bool,
    /// The position of a path.
    pub(crate) path: Option<usize>,
    /// The span of time in seconds.
    pub(crate) span: Option<(f64, f64)>,
}

impl Metric {
    /// Parses a measure.
    ///
    /// # Errors
    /// If there is no such measure.
    pub fn parse(text: &str) -> Result<Metric, String> {
        let wrong = || {
            let names: Vec<&str> = QUANTITIES.iter().map(|(_, name, _, _)| *name).collect();
            format!(
                "there is no measure `{text}`; there are {}, each also as `NAME.PATH`, `NAME@FROM..TO` in \
                 seconds, and `beside.NAME`",
                names.join(", ")
            )
        };
        let (rest, beside) = text.strip_prefix("beside.").map_or((text, false), |rest| (rest, true));
        let (rest, span) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, span)) => {
                let ends = span.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                (rest, Some(ends.filter(|(a, b): &(f64, f64)| a < b).ok_or_else(wrong)?))
            }
        };
        let (name, path) = match rest.split_once('.') {
            None => (rest, None),
            Some((name, path)) => {
                let path: usize = path.parse().map_err(|_| wrong())?;
                (name, Some(path.checked_sub(1).ok_or_else(wrong)?))
            }
        };
        let known = QUANTITIES.iter().find(|(_, other, _, _)| *other == name).ok_or_else(wrong)?;
        Ok(Metric { quantity: known.0, beside, path, span })
    }

    fn row(self) -> &'static (Quantity, &'static str, &'static str, bool) {
        QUANTITIES.iter().find(|(quantity, ..)| *quantity == self.quantity).unwrap_or(&QUANTITIES[0])
    }

    /// Returns its name without path, span and `beside`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the position of its path; none for all paths.
    pub fn path(self) -> Option<usize> {
        self.path
    }

    /// Returns the reason that a run has no value of it, if it has none.
    pub(crate) fn fault(self) -> Option<String> {
        let name = self.name();
        if self.path.is_some() && !self.quantity.has_paths() {
            return Some(format!("`{name}` is of all paths together: there is no `{self}`"));
        }
        let is_missing = self.quantity.has_only_course();
        is_missing.then(|| format!("a run has no value of `{name}`: only a figure with `course` has it"))
    }

    /// True if it is of the whole run, and of the contender's own flows.
    pub fn is_whole(self) -> bool {
        !self.beside && self.span.is_none()
    }

    /// Returns its unit; empty for counts.
    pub fn unit(self) -> &'static str {
        self.row().2
    }

    /// True if the run needs a recorder.
    pub(crate) fn is_observed(self) -> bool {
        self.row().3 || self.span.is_some()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.beside {
            f.write_str("beside.")?;
        }
        f.write_str(self.row().1)?;
        if let Some(path) = self.path {
            write!(f, ".{}", path + 1)?;
        }
        if let Some((from, to)) = self.span {
            write!(f, "@{from}..{to}")?;
        }
        Ok(())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metric, D::Error> {
        let text = String::deserialize(deserializer)?;
        Metric::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_read_as_they_are_written() {
        for text in ["done", "goodput.2", "beside.goodput@30..570", "share.1", "srtt.2@10..20", "interval"] {
            assert_eq!(Metric::parse(text).map(|metric| metric.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["speed", "goodput.0", "goodput.x", "goodput@5", "goodput@9..3", ""] {
            assert!(Metric::parse(wrong).is_err(), "{wrong}");
        }
    }
}
