//! Unit strings of scenarios and of the command line: `100 Mbit/s`, `20 ms`, `57 KB`, `0.05%`, `1 BDP`.
//!
//! The space between number and unit is optional, and case is ignored, except for the `B` of a size: `b` may be a bit or
//! a byte, so it is refused. Every error suggests a valid form.

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
    ("kbit", 125.0),
    ("Mbit", 125e3),
    ("Gbit", 125e6),
    ("Tbit", 125e9),
];

/// Returns how bytes and bits are written if `unit` is a unit of size that ends in `b`, which may be either. There is no
/// spelling for bits of a power of 1024.
fn either(unit: &str) -> Option<(&'static str, Option<&'static str>)> {
    let prefix = unit.strip_suffix('b')?;
    let (bytes, _) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let bits = SIZES.iter().find(|(name, _)| {
        name.strip_suffix("bit").is_some_and(|known| !prefix.is_empty() && known.eq_ignore_ascii_case(prefix))
    });
    Some((bytes, bits.map(|(name, _)| *name)))
}

/// Returns the number of `text` as it is written, without its `unit`.
fn number_of<'a>(text: &'a str, unit: &str) -> &'a str {
    text.trim().strip_suffix(unit).unwrap_or_default().trim()
}

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

/// Returns how the bits of `unit` are written if it is `Mb`, `Mb/s` or `Mbit`, which are not units of a rate.
fn bits_of(unit: &str) -> Option<&'static str> {
    let amount = unit.strip_suffix("/s").unwrap_or(unit);
    let is_bits = |name: &&str| name.ends_with("bit") && amount == unit && name.eq_ignore_ascii_case(amount);
    SIZES.iter().map(|(name, _)| *name).find(is_bits).or_else(|| either(amount)?.1)
}

/// Parses a rate, such as `100 Mbit/s`.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let help = "write for example `100 Mbit/s`; the units are bit/s, kbit/s, Mbit/s and Gbit/s";
    if let Some((_, unit)) = split(text)
        && let Some(bits) = bits_of(unit)
    {
        return Err(UnitError {
            message: format!("`{unit}` is not a unit of rate"),
            help: format!("write `{} {bits}/s`", number_of(text, unit)),
        });
    }
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
    if let Some((_, unit)) = split(text)
        && let Some((bytes, bits)) = either(unit)
    {
        let number = number_of(text, unit);
        let bits = bits.map_or(String::new(), |bits| format!(" or `{number} {bits}`"));
        return Err(UnitError {
            message: format!("`{text}` may count bytes or bits"),
            help: format!("write `{number} {bytes}`{bits}"),
        });
    }
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
        for (text, bytes) in [("57 KB", 57_000), ("57kB", 57_000), ("1KiB", 1024), ("1.5 MB", 1_500_000)] {
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

    /// Every spelling of the units that people write, as a size, a rate, a queue and a time: the value in the base unit, or the
    /// spelling that the error suggests; an empty one if it is only refused.
    #[test]
    fn spellings_are_read_as_everybody_means_them_or_refused() {
        type Answer = Result<u64, &'static str>;
        const NO: Answer = Err("");
        let table: &[(&str, Answer, Answer, Answer)] = &[
            // text, as a size, as a rate, as a queue of bytes
            ("5 B", Ok(5), NO, Ok(5)),
            ("5 bytes", Ok(5), NO, Ok(5)),
            ("5b", Err("`5 B`"), NO, Err("`5 B`")),
            ("5KB", Ok(5_000), NO, Ok(5_000)),
            ("5kB", Ok(5_000), NO, Ok(5_000)),
            ("5 kb", Err("`5 KB` or `5 kbit`"), Err("`5 kbit/s`"), Err("`5 KB` or `5 kbit`")),
            ("5 Kb", Err("`5 KB` or `5 kbit`"), Err("`5 kbit/s`"), Err("`5 KB` or `5 kbit`")),
            ("5 kbit", Ok(625), Err("`5 kbit/s`"), Ok(625)),
            ("5 KiB", Ok(5_120), NO, Ok(5_120)),
            ("5Kib", Err("`5 KiB`"), NO, Err("`5 KiB`")),
            ("5MB", Ok(5_000_000), NO, Ok(5_000_000)),
            ("5 mB", Ok(5_000_000), NO, Ok(5_000_000)),
            ("3Mb", Err("`3 MB` or `3 Mbit`"), Err("`3 Mbit/s`"), Err("`3 MB` or `3 Mbit`")),
            ("3 mb", Err("`3 MB` or `3 Mbit`"), Err("`3 Mbit/s`"), Err("`3 MB` or `3 Mbit`")),
            ("3 Mbit", Ok(375_000), Err("`3 Mbit/s`"), Ok(375_000)),
            ("3 MiB", Ok(3 << 20), NO, Ok(3 << 20)),
            ("3 Mib", Err("`3 MiB`"), NO, Err("`3 MiB`")),
            ("2GB", Ok(2_000_000_000), NO, Ok(2_000_000_000)),
            ("2Gb", Err("`2 GB` or `2 Gbit`"), Err("`2 Gbit/s`"), Err("`2 GB` or `2 Gbit`")),
            ("1e3 Gbit", Ok(125_000_000_000), Err("`1e3 Gbit/s`"), Ok(125_000_000_000)),
            ("5 Mbit/s", NO, Ok(5_000_000), NO),
            ("5Mbps", NO, Ok(5_000_000), NO),
            ("5 mbit/s", NO, Ok(5_000_000), NO),
            ("5Mb/s", NO, Err("`5 Mbit/s`"), NO),
            ("5 kb/s", NO, Err("`5 kbit/s`"), NO),
            ("5MB/s", NO, Err("`40 Mbit/s`"), NO),
            ("5 kB/s", NO, Err("`40 kbit/s`"), NO),
            ("5 KB/s", NO, Err("`40 kbit/s`"), NO),
            ("5 MBps", NO, Err("`40 Mbit/s`"), NO),
            ("5 MiB/s", NO, Err("`41.94304 Mbit/s`"), NO),
            ("5 M", NO, NO, NO),
            ("5 Mbits", NO, NO, NO),
            ("5", NO, NO, NO),
            ("5 ms", NO, NO, Ok(5_000_000)),
            ("5 m", NO, NO, NO),
        ];
        let is = |text: &str, read: Result<u64, UnitError>, expected: Answer| match (read, expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{text}"),
            (Err(error), Err(help)) => {
                let help = if help.is_empty() { "" } else { &format!("write {help}") };
                assert!(error.help.starts_with(help), "{text}: {error}");
            }
            (read, expected) => panic!("{text}: {read:?}, and not {expected:?}"),
        };
        for &(text, size, rate, queue) in table {
            is(text, parse_size(text).map(|size| size.0), size);
            is(text, parse_rate(text).map(|rate| rate.0), rate);
            let length = |queue| match queue {
                QueueLimit::Bytes(bytes) => bytes,
                QueueLimit::Time(span) => span.0,
                other => panic!("{other:?}"),
            };
            is(text, parse_queue(text).map(length), queue);
        }
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
