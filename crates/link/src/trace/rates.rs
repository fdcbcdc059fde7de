//! Traces from recordings of a rate: CSV with a time and a rate on each line, and their units in the header.

use super::{Trace, TraceError};

/// The bits of an opportunity, times the nanoseconds of a second: what a link of 1 bit/s needs them for, in nanoseconds.
const OPPORTUNITY: u128 = Trace::OPPORTUNITY_BYTES as u128 * 8 * 1_000_000_000;

/// The most opportunities of a trace: an hour at 166 Mbit/s.
const MOST: usize = 50_000_000;

/// The units of times, in nanoseconds.
const TIMES: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("min", 6e10)];

/// The units of rates, in bit/s. A `/` is not needed.
const RATES: [(&str, f64); 8] = [
    ("bit/s", 1.0),
    ("bps", 1.0),
    ("kbit/s", 1e3),
    ("kbps", 1e3),
    ("mbit/s", 1e6),
    ("mbps", 1e6),
    ("gbit/s", 1e9),
    ("gbps", 1e9),
];

/// The greatest time and rate.
const MOST_NS: f64 = 86_400e9;
const MOST_BPS: f64 = 1e12;

impl Trace {
    /// True if `text` begins with the header of a recording of rates.
    pub fn is_rates(text: &str) -> bool {
        text.lines().next().is_some_and(|line| line.contains(','))
    }

    /// Parses a recording of rates: a header such as `time_s,rate_mbps` or `time (ms), rate (kbit/s)`, and a line for each
    /// time, increasing, and the rate from then on. Times count from the first one. The last rate holds for as long as the
    /// one before it. The opportunities are at the milliseconds by which the link has carried 1500 bytes more, and there is one
    /// at the end, which completes the last packet.
    ///
    /// # Errors
    /// A [`TraceError`] that names the first wrong line.
    ///
    /// ```
    /// use anabranch_link::Trace;
    ///
    /// // 12 Mbit/s are one opportunity in a millisecond, and 6 Mbit/s one in two.
    /// let trace = Trace::parse_rates("time_ms,rate_mbps\n0,12\n4,6\n")?;
    /// assert_eq!(trace.timestamps_ms(), [1, 2, 3, 4, 6, 8]);
    /// # Ok::<(), anabranch_link::TraceError>(())
    /// ```
    pub fn parse_rates(text: &str) -> Result<Trace, TraceError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let (_, header) = lines.next().ok_or(TraceError::Empty)?;
        let columns = Columns::of(header).ok_or_else(|| TraceError::Header { text: shortened(header) })?;
        let mut rows: Vec<(u64, u64)> = Vec::new();
        let mut first = None;
        for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
            let (time, rate) =
                columns.row(text).ok_or_else(|| TraceError::Row { line, text: shortened(text) })?;
            let time = time - *first.get_or_insert(time);
            if !(0.0..=MOST_NS).contains(&time) || !(0.0..=MOST_BPS).contains(&rate) {
                return Err(TraceError::Row { line, text: shortened(text) });
            }
            let time = time as u64;
            if rows.last().is_some_and(|(before, _)| *before >= time) {
                return Err(TraceError::NotIncreasing { line });
            }
            rows.push((time, rate as u64));
        }
        let [.., (before, _), (last, _)] = rows[..] else { return Err(TraceError::FewRates) };
        let ends = rows[1..].iter().map(|row| row.0).chain([last + (last - before)]);
        let mut at_ms = Vec::new();
        let mut carried: u128 = 0;
        let mut end_ns = 0;
        for ((start, rate), end) in rows.iter().zip(ends) {
            let rate = u128::from(*rate);
            let mut now = u128::from(*start);
            // An opportunity is complete at this time, at this rate.
            let complete = |carried: u128, now: u128| match rate {
                0 => u128::MAX,
                rate => now + (OPPORTUNITY - carried).div_ceil(rate),
            };
            let mut at = complete(carried, now);
            while at <= u128::from(end) {
                (carried, now) = (0, at);
                at_ms.push(millis(at));
                if at_ms.len() > MOST {
                    return Err(TraceError::TooLong);
                }
                at = complete(carried, now);
            }
            carried += (u128::from(end) - now) * rate;
            end_ns = end;
        }
        let end = millis(end_ns.into());
        if at_ms.is_empty() && carried == 0 {
            return Err(TraceError::FewRates);
        }
        if at_ms.last() != Some(&end) {
            at_ms.push(end);
        }
        Trace::from_millis(at_ms)
    }
}

/// Returns the millisecond that ends at `ns` or after it.
fn millis(ns: u128) -> u32 {
    ns.div_ceil(1_000_000).min(u32::MAX.into()) as u32
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The columns of a recording.
struct Columns {
    time: usize,
    rate: usize,
    /// The units, in nanoseconds and in bit/s.
    units: (f64, f64),
}

impl Columns {
    fn of(header: &str) -> Option<Columns> {
        let (mut time, mut rate) = (None, None);
        for (at, cell) in header.split(',').enumerate() {
            let cell = cell.to_ascii_lowercase();
            let words: Vec<&str> = cell
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '/')
                .filter(|word| !word.is_empty())
                .collect();
            let [name, unit @ ..] = words.as_slice() else { continue };
            let unit = unit.concat().replace('/', "");
            let find = |units: &[(&str, f64)]| {
                units.iter().find(|(name, _)| name.replace('/', "") == unit).map(|(_, factor)| *factor)
            };
            match *name {
                "time" | "t" if time.is_none() => time = Some((at, find(&TIMES)?)),
                "rate" if rate.is_none() => rate = Some((at, find(&RATES)?)),
                _ => {}
            }
        }
        let ((time, time_unit), (rate, rate_unit)) = (time?, rate?);
        Some(Columns { time, rate, units: (time_unit, rate_unit) })
    }

    /// Returns the time in nanoseconds and the rate in bit/s of a line.
    fn row(&self, line: &str) -> Option<(f64, f64)> {
        let number = |at: usize| -> Option<f64> {
            let text = line.split(',').nth(at)?.trim();
            // `NaN` and `inf` are no numbers here.
            let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '.');
            text.parse().ok().filter(|value: &f64| is_number && value.is_finite())
        };
        Some((number(self.time)? * self.units.0, number(self.rate)? * self.units.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_until_the_next_time_and_the_last_one_as_long_as_the_one_before() {
        let trace = Trace::parse_rates("time_s,rate_mbit/s\n0,12\n1,24\n2,0\n").unwrap();
        assert_eq!(trace.period().as_secs_f64(), 3.0);
        let within = |from: u64, to: u64| {
            let at = |second| anabranch_units::Duration::from_secs(second);
            trace.service_between(at(from), at(to)) / 1500
        };
        assert_eq!((within(0, 1), within(1, 2)), (1000, 2000));
        // The one at the end.
        assert_eq!(within(2, 3), 1);
    }

    #[test]
    fn units_columns_and_the_first_time_are_read_from_the_text() {
        let plain = Trace::parse_rates("time_ms,rate_kbps\n0,1200\n1000,2400\n").unwrap();
        for text in [
            "time (s), rate (Mbit/s)\n0, 1.2\n1, 2.4\n",
            "rate_bps,loss,time_s\n1200000,0,1700000000\n2400000,0.1,1700000001\n",
            "t_s,rate_mbit_s\r\n5,1.2\r\n6,2.4\r\n",
            "Time [min],Rate [Gbps]\n0,0.0012\n0.016666666666666666,0.0024\n",
        ] {
            assert!(Trace::is_rates(text));
            assert_eq!(Trace::parse_rates(text).as_ref(), Ok(&plain), "{text}");
        }
        assert!(!Trace::is_rates("1\n2\n"));
    }

    #[test]
    fn each_fault_has_its_line() {
        let fault = |text: &str| Trace::parse_rates(text).unwrap_err().to_string();
        assert!(fault("time,rate\n0,1\n").contains("`time,rate`"), "{}", fault("time,rate\n0,1\n"));
        assert!(fault("time_s,speed_mbps\n0,1\n").contains("time_s,rate_mbps"));
        assert!(fault("time_s,rate_mbps\n0,1\nx,2\n").contains("line 3: `x,2`"));
        assert!(fault("time_s,rate_mbps\n0,1\n1,-2\n").contains("line 3"));
        assert!(fault("time_s,rate_mbps\n0,1\n1,NaN\n").contains("line 3"));
        assert!(fault("time_s,rate_mbps\n0,1\n1,2\n1,3\n").contains("line 4"));
        assert!(fault("time_s,rate_mbps\n0,1\n").contains("two"));
        assert!(fault("time_s,rate_mbps\n0,0\n1,0\n").contains("two"));
        assert!(fault("time_s,rate_gbps\n0,999\n40000,999\n").contains("too long"));
    }
}
