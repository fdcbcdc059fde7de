//! Recorded delivery opportunities, in the sense of mahimahi.
//!
//! Source: R. Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, and the
//! behaviour of its `mm-link`. A trace is a text with one whole number of milliseconds per line. Each line is
//! a time at which [`Trace::OPPORTUNITY_BYTES`] can be delivered; equal lines are several opportunities.
//! Unused opportunities are lost. After the last line the trace starts over, with the last timestamp as the
//! new zero.

mod rates;

use core::fmt;

use anabranch_units::{Duration, Rate};

/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// A list of delivery opportunities that repeats. Share it in an `Arc`.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    /// In milliseconds, never decreasing; the last one is the period and not zero.
    at_ms: Box<[u32]>,
    label: Box<str>,
}

/// The reason that a text or a list is not a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no timestamp.
    Empty,
    /// A line has no timestamp.
    BlankLine {
        /// Line number, counted from 1.
        line: usize,
    },
    /// A line is not a whole number of milliseconds up to 4294967295.
    NotANumber {
        /// Line number, counted from 1.
        line: usize,
        /// The line, truncated.
        text: String,
    },
    /// A timestamp is smaller than the one before it.
    Decreasing {
        /// Line number, counted from 1.
        line: usize,
        /// The timestamp on that line, in milliseconds.
        ms: u32,
        /// The timestamp before it, in milliseconds.
        previous_ms: u32,
    },
    /// The last timestamp, which is the length of the trace, is zero.
    ZeroLength,
    /// The header of a recording of rates names no time and rate with their units.
    Header {
        /// The header, truncated.
        text: String,
    },
    /// A line of a recording of rates has no time or no rate.
    Row {
        /// Line number, counted from 1.
        line: usize,
        /// The line, truncated.
        text: String,
    },
    /// A time of a recording of rates is not later than the one before it.
    NotIncreasing {
        /// Line number, counted from 1.
        line: usize,
    },
    /// A recording has no two rates, or none above zero.
    FewRates,
    /// A recording of rates has more opportunities than a trace can have.
    TooLong,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Empty => {
                f.write_str("the trace is empty; it needs at least one line with a time in milliseconds")
            }
            TraceError::BlankLine { line } => {
                write!(f, "line {line} is blank; every line must hold one time in milliseconds")
            }
            TraceError::NotANumber { line, text } => write!(
                f,
                "line {line}: `{text}` is not a time; expected a whole number of milliseconds from 0 to {}",
                u32::MAX
            ),
            TraceError::Decreasing { line, ms, previous_ms } => {
                write!(f, "line {line}: {ms} ms comes after {previous_ms} ms; the times must never decrease")
            }
            TraceError::Header { text } => write!(
                f,
                "line 1: `{text}` names no time and rate with their units; write a header such as `time_s,rate_mbps`"
            ),
            TraceError::Row { line, text } => {
                write!(
                    f,
                    "line {line}: `{text}` has no time of at most a day and no rate of at most 1 Tbit/s"
                )
            }
            TraceError::NotIncreasing { line } => {
                write!(f, "line {line} is not later than the one before it; the times must increase")
            }
            TraceError::FewRates => {
                f.write_str("the recording needs two lines after its header, and a rate above 0")
            }
            TraceError::TooLong => {
                f.write_str("the recording is too long: it has more than 50 million packets")
            }
            TraceError::ZeroLength => {
                f.write_str("the trace lasts 0 ms; its last line, which is its length, must be at least 1")
            }
        }
    }
}

impl core::error::Error for TraceError {}

impl Trace {
    /// The capacity of one opportunity, in bytes.
    pub const OPPORTUNITY_BYTES: u64 = 1500;

    /// Parses a trace in mahimahi's format: one whole number of milliseconds per line, never decreasing, the
    /// last not zero. Blanks around a number (and so a carriage return) are permitted; blank lines are not.
    ///
    /// # Errors
    /// A [`TraceError`] that names the first wrong line.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut at_ms = Vec::new();
        for (index, raw) in text.lines().enumerate() {
            let (line, raw) = (index + 1, raw.trim());
            if raw.is_empty() {
                return Err(TraceError::BlankLine { line });
            }
            // `parse` by itself would accept a leading plus sign.
            let number = raw.bytes().all(|b| b.is_ascii_digit()).then(|| raw.parse().ok()).flatten();
            match number {
                Some(ms) => at_ms.push(ms),
                None => {
                    return Err(TraceError::NotANumber { line, text: raw.chars().take(40).collect() });
                }
            }
        }
        Trace::from_millis(at_ms)
    }

    /// Returns the trace with opportunities at these milliseconds, which must never decrease and end above
    /// zero.
    ///
    /// # Errors
    /// As for [`Trace::parse`]; the line number is the position in the list, counted from 1.
    pub fn from_millis(at_ms: Vec<u32>) -> Result<Trace, TraceError> {
        for (index, pair) in at_ms.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return Err(TraceError::Decreasing { line: index + 2, ms: pair[1], previous_ms: pair[0] });
            }
        }
        match at_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::ZeroLength),
            Some(_) => Ok(Trace { at_ms: at_ms.into_boxed_slice(), label: "".into() }),
        }
    }

    /// Returns the same trace with a label, by which a caller identifies recordings: a file name, or a hash
    /// of the text.
    #[must_use]
    pub fn labelled(self, label: &str) -> Trace {
        Trace { label: label.into(), ..self }
    }

    /// Returns the label; empty unless [`Trace::labelled`] set one.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the time after which the trace starts over: its last timestamp.
    pub fn period(&self) -> Duration {
        Duration(self.period_ns())
    }

    /// Returns the number of opportunities in one period.
    pub fn opportunities(&self) -> usize {
        self.at_ms.len()
    }

    /// Returns the times of the opportunities in one period, in milliseconds, in order.
    pub fn timestamps_ms(&self) -> &[u32] {
        &self.at_ms
    }

    /// Returns the mean rate over one period.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.at_ms.len() as u128 * u128::from(Self::OPPORTUNITY_BYTES) * 8;
        Rate((bits * 1_000_000_000 / u128::from(self.period_ns())) as u64)
    }

    /// Returns the bytes that could be delivered after `from` and up to and including `to`, both positions in
    /// the trace (which repeats): the bytes that a link with a never empty queue carries in that time.
    pub fn service_between(&self, from: Duration, to: Duration) -> u64 {
        self.count_until(to.0)
            .saturating_sub(self.count_until(from.0))
            .saturating_mul(Self::OPPORTUNITY_BYTES)
    }

    /// Returns the most bytes that any span of this length can deliver: the greatest
    /// [`service_between`](Trace::service_between) over all positions. Takes time linear in the trace.
    pub fn max_service(&self, window: Duration) -> u64 {
        let period = self.period_ns();
        let (whole, rest) = (window.0 / period, window.0 % period);
        let n = self.at_ms.len();
        let at = |i: usize| u64::from(self.at_ms[i % n]) * MS + (i / n) as u64 * period;
        // The best span starts just before an opportunity. Opportunities at the very end of it are then
        // one nanosecond too late.
        let (mut end, mut best) = (0, 0);
        for start in 0..n {
            while end < 2 * n && at(end) < at(start) + rest {
                end += 1;
            }
            best = best.max(end.saturating_sub(start));
        }
        (best as u64).saturating_add(whole.saturating_mul(n as u64)).saturating_mul(Self::OPPORTUNITY_BYTES)
    }

    /// Returns the number of opportunities at or before the position `ns`.
    pub(crate) fn count_until(&self, ns: u64) -> u64 {
        let (cycle, offset) = (ns / self.period_ns(), ns % self.period_ns());
        cycle * self.at_ms.len() as u64 + self.first_after(offset) as u64
    }

    /// Returns the index of the first opportunity of a cycle after `offset` nanoseconds; `offset` is below
    /// the period, so there is one.
    pub(crate) fn first_after(&self, offset: u64) -> usize {
        let ms = offset / MS;
        self.at_ms.partition_point(|&at| u64::from(at) <= ms)
    }

    /// Returns the result of [`first_after`](Trace::first_after) if it is known not to be before index
    /// `hint`: fast if it is near.
    pub(crate) fn first_after_from(&self, hint: usize, offset: u64) -> usize {
        let ms = offset / MS;
        let (mut low, mut step) = (hint, 1);
        loop {
            match self.at_ms.get(low + step - 1) {
                Some(&at) if u64::from(at) <= ms => {
                    low += step;
                    step *= 2;
                }
                _ => break,
            }
        }
        let high = (low + step - 1).min(self.at_ms.len());
        low + self.at_ms.get(low..high).unwrap_or(&[]).partition_point(|&at| u64::from(at) <= ms)
    }

    /// Returns the position of the opportunity `index` in its cycle, in nanoseconds.
    #[inline]
    pub(crate) fn offset_ns(&self, index: usize) -> u64 {
        u64::from(self.at_ms[index]) * MS
    }

    /// Returns the period in nanoseconds, never zero.
    #[inline]
    pub(crate) fn period_ns(&self) -> u64 {
        u64::from(self.at_ms[self.at_ms.len() - 1]) * MS
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("opportunities", &self.opportunities())
            .field("period", &self.period())
            .field("mean_rate", &self.mean_rate())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn reads_lines_with_either_line_ending_and_with_or_without_a_last_one() {
        for text in ["0\n1\n1\n5", "0\n1\n1\n5\n", "0\r\n1\r\n1\r\n5\r\n"] {
            let trace = Trace::parse(text).unwrap();
            assert_eq!((trace.opportunities(), trace.period()), (4, ms(5)));
            assert_eq!(trace.mean_rate(), Rate(4 * 12_000 * 200));
        }
    }

    #[test]
    fn a_wrong_text_is_refused_with_its_line() {
        assert_eq!(Trace::parse(""), Err(TraceError::Empty));
        assert_eq!(Trace::parse("1\n\n2\n"), Err(TraceError::BlankLine { line: 2 }));
        assert_eq!(Trace::parse("0\n0\n"), Err(TraceError::ZeroLength));
        assert_eq!(Trace::parse("1\n3\n2\n"), Err(TraceError::Decreasing { line: 3, ms: 2, previous_ms: 3 }));
        for wrong in ["x", "-1", "+1", "1.5", "4294967296", "1 2"] {
            let error = Trace::parse(&format!("1\n{wrong}\n")).unwrap_err();
            assert_eq!(error, TraceError::NotANumber { line: 2, text: wrong.into() });
            assert!(error.to_string().starts_with("line 2: "), "{error}");
        }
    }

    #[test]
    fn service_counts_the_end_and_not_the_start_and_wraps() {
        let trace = Trace::from_millis(vec![1, 1, 4, 5]).unwrap();
        assert_eq!(trace.service_between(ms(0), ms(1)), 3000);
        assert_eq!(trace.service_between(ms(1), ms(4)), 1500);
        assert_eq!(trace.service_between(ms(4), ms(6)), 3 * 1500);
        assert_eq!(trace.service_between(ms(0), ms(50)), 40 * 1500);
        assert_eq!(trace.service_between(ms(3), ms(2)), 0);
    }

    #[test]
    fn max_service_is_the_greatest_service_between() {
        let trace = Trace::from_millis(vec![0, 2, 3, 3, 3, 9, 10]).unwrap();
        let half = Duration::from_micros(500);
        for halves in 0..60 {
            let window = half * halves;
            // Starts just before a millisecond are among the best.
            let brute = (10..30_u64)
                .map(|start| Duration(start * MS - 1))
                .map(|start| trace.service_between(start, start + window))
                .max();
            assert_eq!(Some(trace.max_service(window)), brute, "window {window}");
        }
    }

    #[test]
    fn the_hinted_search_finds_what_the_plain_one_finds() {
        let trace = Trace::from_millis(vec![0, 0, 2, 3, 3, 3, 9, 10]).unwrap();
        for offset in (0..10 * MS).step_by(250_000) {
            let index = trace.first_after(offset);
            for hint in 0..=index {
                assert_eq!(trace.first_after_from(hint, offset), index);
            }
        }
    }
}
