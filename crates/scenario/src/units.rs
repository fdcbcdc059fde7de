//! Unit strings of scenarios and of the command line: `100 Mbit/s`, `20 ms`, `57 KB`, `0.05%`, `1 BDP`.
//!
//! The space between number and unit is optional, and case is ignored. Every error suggests a valid form.

use core::fmt;

use anabranch_link::QueueLimit;
use anabranch_units::{Bytes, Duration, Rate};

/// The problem of a text that should be a quantity, and a valid form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The problem.
    pub message: String,
    /// A valid form.
    pub help: String,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for UnitError {}

pub(crate) const RATES: &[(&str, f64)] = &[
    ("bit/s", 1.0),
    ("bps", 1.0),
    ("kbit/s", 1e3),
    ("kbps", 1e3),
    ("Mbit/s", 1e6),
    ("Mbps", 1e6),
    ("Gbit/s", 1e9),
    ("Gbps", 1e9),
    ("Tbit/s", 1e12),
    ("Tbps", 1e12),
];
pub(crate) const SPANS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
pub(crate) const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("bytes", 1.0),
    ("byte", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Units of a queue's length.
pub(crate) const PACKETS: [&str; 4] = ["packet", "packets", "pkt", "pkts"];

/// Splits `100 Mbit/s` into its number and its unit; none if it does not start with a number.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let digits =
        |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    end = digits(end);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    // An exponent needs digits, so that a unit may begin with an `e`.
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent_end = digits((end + 1 + sign).min(bytes.len()));
        if exponent_end > end + 1 + sign {
            end = exponent_end;
        }
    }
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Parses a number with one of these units, in the base unit, rounded to a whole number.
fn quantity(text: &str, what: &str, units: &[(&str, f64)], help: &str) -> Result<u64, UnitError> {
    let error = |message: String| UnitError { message, help: help.to_owned() };
    let Some((number, unit)) = split(text) else {
        return Err(error(format!("`{text}` is not {what}")));
    };
    if unit.is_empty() {
        return Err(error(format!("`{text}` has no unit")));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(error(format!("`{unit}` is not a unit of {}", what.trim_start_matches("a "))));
    };
    if number < 0.0 {
        return Err(error(format!("`{text}` is negative")));
    }
    let value = (number * factor).round();
    // Larger values are mistakes: 2^63 nanoseconds are 292 years.
    if !value.is_finite() || value >= 9.2e18 {
        return Err(error(format!("`{text}` is too large")));
    }
    Ok(value as u64)
}

/// Parses a rate, such as `100 Mbit/s`.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let help = "write for example `100 Mbit/s`; the units are bit/s, kbit/s, Mbit/s and Gbit/s";
    if let Some((number, unit)) = split(text)
        && let Some(prefix) = unit.strip_suffix("/s").or(unit.strip_suffix("ps"))
        && prefix.ends_with('B')
        && let Some((_, factor)) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(prefix))
    {
        return Err(UnitError {
            message: format!("`{text}` counts bytes, and rates are in bits"),
            help: format!("write `{}`", show_rate(Rate((number * factor * 8.0).max(0.0) as u64))),
        });
    }
    let rate = Rate(quantity(text, "a rate", RATES, help)?);
    if rate.0 == 0 {
        return Err(UnitError {
            message: "the rate is 0".to_owned(),
            help: "give at least 1 bit/s; a link that carries nothing is `down` in its changes".to_owned(),
        });
    }
    if rate.0 > 1_000_000_000_000_000 {
        return Err(UnitError {
            message: format!("`{text}` is too fast"),
            help: "give at most 1000 Tbit/s".to_owned(),
        });
    }
    Ok(rate)
}

/// Parses a duration, such as `20 ms`.
pub fn parse_span(text: &str) -> Result<Duration, UnitError> {
    let help = "write for example `20 ms`; the units are ns, us, ms, s, min and h";
    quantity(text, "a time", SPANS, help).map(Duration)
}

/// Parses a size, such as `57 KB`; 1 KB is 1000 bytes and 1 KiB is 1024.
pub fn parse_size(text: &str) -> Result<Bytes, UnitError> {
    let help = "write for example `57 KB`; the units are B, KB, MB, GB (of 1000) and KiB, MiB, GiB (of 1024)";
    quantity(text, "a size", SIZES, help).map(Bytes)
}

/// Parses a probability: a percentage such as `0.05%`, or a fraction such as `0.0005`.
pub fn parse_probability(text: &str) -> Result<f64, UnitError> {
    let error = |message: String| UnitError {
        message,
        help: "write a percentage such as `0.05%`, or a fraction such as 0.0005".to_owned(),
    };
    let value = match split(text) {
        Some((number, "%")) => number / 100.0,
        Some((number, "")) => number,
        Some((_, unit)) => return Err(error(format!("`{unit}` is not a unit of probability"))),
        None => return Err(error(format!("`{text}` is not a probability"))),
    };
    check_probability(value, text).map_err(|()| error(format!("`{text}` is not between 0 and 1 (100 %)")))
}

fn check_probability(value: f64, _text: &str) -> Result<f64, ()> {
    // Adding zero turns -0 into 0 for printing and hashing.
    if (0.0..=1.0).contains(&value) { Ok(value + 0.0) } else { Err(()) }
}

/// Parses a queue, such as `1 BDP`, `100 packets`, `250 KB` or `50 ms`.
pub fn parse_queue(text: &str) -> Result<QueueLimit, UnitError> {
    let help = "write for example `1 BDP`, `100 packets`, `250 KB`, `50 ms` or `unlimited`";
    let error = |message: String| UnitError { message, help: help.to_owned() };
    if text.trim().eq_ignore_ascii_case("unlimited") {
        return Ok(QueueLimit::Unlimited);
    }
    let Some((number, unit)) = split(text) else {
        return Err(error(format!("`{text}` is not a queue")));
    };
    let lower = unit.to_ascii_lowercase();
    let queue = match lower.as_str() {
        "" => return Err(error(format!("`{text}` has no unit"))),
        "bdp" => QueueLimit::Bdp(number),
        unit if PACKETS.contains(&unit) => {
            if number.fract() != 0.0 || !(0.0..=4e9).contains(&number) {
                return Err(error(format!("`{text}` is not a whole number of packets")));
            }
            QueueLimit::Packets(number as u32)
        }
        unit if SPANS.iter().any(|(name, _)| *name == unit) => QueueLimit::Time(parse_span(text)?),
        unit if SIZES.iter().any(|(name, _)| name.eq_ignore_ascii_case(unit)) => {
            QueueLimit::Bytes(parse_size(text)?.0)
        }
        _ => return Err(error(format!("`{unit}` is not a unit of a queue"))),
    };
    match queue {
        QueueLimit::Bdp(n) if n < 0.0 => Err(error(format!("`{text}` is negative"))),
        QueueLimit::Bdp(n) if !n.is_finite() => Err(error(format!("`{text}` is too large"))),
        queue if is_nothing(queue) => Err(UnitError {
            message: "the queue has no space".to_owned(),
            help: "it counts the packet in service, so give at least 1 packet, or the bytes of one"
                .to_owned(),
        }),
        queue => Ok(queue),
    }
}

fn is_nothing(queue: QueueLimit) -> bool {
    match queue {
        QueueLimit::Bdp(n) => n == 0.0,
        QueueLimit::Packets(n) => n == 0,
        QueueLimit::Bytes(n) => n == 0,
        QueueLimit::Time(span) => span.is_zero(),
        QueueLimit::Unlimited => false,
    }
}

/// Parses a load: a percentage such as `80%`, or a fraction such as `0.8`. It may exceed 1.
pub fn parse_load(text: &str) -> Result<f64, UnitError> {
    let help = "write for example `50%` or 0.5: the share of the paths' whole rate, up to 1000 %";
    let error = |message: String| UnitError { message, help: help.to_owned() };
    let load = match split(text) {
        Some((number, "%")) => number / 100.0,
        Some((number, "")) => number,
        Some((_, unit)) => return Err(error(format!("`{unit}` is not a unit of a load"))),
        None => return Err(error(format!("`{text}` is not a load"))),
    };
    if load > 0.0 && load <= 10.0 {
        Ok(load)
    } else {
        Err(error(format!("a load of {text} is out of range")))
    }
}

/// Formats a rate in the syntax of [`parse_rate`].
pub fn show_rate(rate: Rate) -> String {
    format!("{rate}")
}

/// Formats a probability as a percentage, with all of its digits.
pub fn show_percent(probability: f64) -> String {
    // 0.0005 * 100 is 0.05 except for rounding: 12 digits reproduce the written value.
    let text = format!("{:.10}", probability * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_with_and_without_a_space_are_the_same() {
        for text in ["100 Mbit/s", "100Mbit/s", "100mbit/s", "0.1 Gbit/s", "100000kbps", " 1e8 bit/s "] {
            assert_eq!(parse_rate(text), Ok(Rate::from_mbps(100)), "{text}");
        }
        for text in ["20 ms", "20ms", "0.02 s", "20_000 us", "20000µs"] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(20)), "{text}");
        }
        for (text, bytes) in [("57 KB", 57_000), ("57kb", 57_000), ("1KiB", 1024), ("1.5 MB", 1_500_000)] {
            assert_eq!(parse_size(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["0.05%", "0.05 %", "0.0005", "5e-4"] {
            assert!((parse_probability(text).unwrap() - 0.0005).abs() < 1e-15, "{text}");
        }
        assert_eq!(parse_queue("1 BDP"), Ok(QueueLimit::Bdp(1.0)));
        assert_eq!(parse_queue("100packets"), Ok(QueueLimit::Packets(100)));
        assert_eq!(parse_queue("250 KB"), Ok(QueueLimit::Bytes(250_000)));
        assert_eq!(parse_queue("50ms"), Ok(QueueLimit::Time(Duration::from_millis(50))));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let text = |error: UnitError| error.to_string();
        assert_eq!(
            text(parse_rate("10 MB/s").unwrap_err()),
            "`10 MB/s` counts bytes, and rates are in bits; write `80 Mbit/s`"
        );
        assert_eq!(
            text(parse_rate("10MBps").unwrap_err()),
            "`10MBps` counts bytes, and rates are in bits; write `80 Mbit/s`"
        );
        assert_eq!(
            text(parse_rate("10 kBps").unwrap_err()),
            "`10 kBps` counts bytes, and rates are in bits; write `80 kbit/s`"
        );
        assert_eq!(parse_rate("10 Mbps"), parse_rate("10 MBPS"));
        assert!(text(parse_rate("100").unwrap_err()).starts_with("`100` has no unit; write for example"));
        assert!(text(parse_rate("fast").unwrap_err()).starts_with("`fast` is not a rate"));
        assert!(text(parse_rate("0 Mbit/s").unwrap_err()).starts_with("the rate is 0"));
        assert!(text(parse_span("20 m").unwrap_err()).starts_with("`m` is not a unit of time"));
        assert!(text(parse_span("-1 ms").unwrap_err()).starts_with("`-1 ms` is negative"));
        assert!(text(parse_probability("5").unwrap_err()).starts_with("`5` is not between 0 and 1"));
        assert!(text(parse_probability("101%").unwrap_err()).starts_with("`101%` is not between"));
        assert!(text(parse_probability("NaN").unwrap_err()).starts_with("`NaN` is not a probability"));
        assert!(text(parse_queue("0 packets").unwrap_err()).starts_with("the queue has no space"));
        assert!(text(parse_queue("0 BDP").unwrap_err()).starts_with("the queue has no space"));
        assert!(text(parse_queue("0 ms").unwrap_err()).starts_with("the queue has no space"));
        assert!(text(parse_queue("1e999 BDP").unwrap_err()).starts_with("`1e999 BDP` is too large"));
        assert!(text(parse_queue("1.5 packets").unwrap_err()).contains("whole number"));
        assert_eq!((parse_load("500%"), parse_load("0.5")), (Ok(5.0), Ok(0.5)));
        for load in ["0%", "-5%", "1001%", "nan", "5 packets", ""] {
            assert!(parse_load(load).is_err(), "{load}");
        }
        assert!(text(parse_size("1e30 GB").unwrap_err()).contains("too large"));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(n in 1_u64..1_000_000_000_000_000) {
            prop_assert_eq!(parse_rate(&show_rate(Rate(n))), Ok(Rate(n)));
            prop_assert_eq!(parse_span(&Duration(n).to_string()), Ok(Duration(n)));
            prop_assert_eq!(parse_size(&Bytes(n).to_string()), Ok(Bytes(n)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = (parse_rate(&text), parse_span(&text), parse_size(&text));
            let _ = (parse_probability(&text), parse_queue(&text));
        }

        #[test]
        fn no_number_with_anything_behind_it_panics(text in "[-+0-9eE._]{0,8}[ µa-zA-Z/%]{0,6}") {
            let _ = (parse_rate(&text), parse_span(&text), parse_size(&text));
            let _ = (parse_probability(&text), parse_queue(&text));
        }
    }
}
