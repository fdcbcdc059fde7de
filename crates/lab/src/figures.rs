//! Figures for people: numbers, sizes, rates, times and percentages with three significant digits.

/// Formats a number with three significant digits, or with all digits before the point.
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    // The exponent of the rounded number: 9.996 is 10.0.
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    match exponent {
        -3.. => format!("{value:.decimals$}", decimals = (2 - exponent).max(0) as usize),
        _ => rounded,
    }
}

/// Formats a number with three significant digits, and at most three after its point.
pub fn about(value: f64) -> String {
    match value {
        v if v == 0.0 || v.abs() >= 0.9995 => digits(v),
        v => format!("{v:.3}"),
    }
}

/// Formats a number with three significant digits and one of `units`, each a thousand times the one before.
fn scaled(value: f64, units: &[&str]) -> String {
    let (mut value, mut at) = (value, 0);
    while value.abs() >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    let mut number = digits(value);
    // `50 KB` is an exact value; `50.0 KB` is a measured one.
    if number.contains('.') && (number.parse() == Ok(value)) {
        number = number.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{number} {}", units[at])
}

/// Formats a size: `1.23 MB`.
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64, &["B", "KB", "MB", "GB", "TB"])
}

/// Formats a rate: `12.3 Mbit/s`.
pub fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Formats a duration: `12.3 ms`.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 0.9995 => format!("{} s", digits(s)),
        s if s >= 0.999_5e-3 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} us", digits(s * 1e6)),
    }
}

/// Formats a percentage: in tenths, and from 100 on whole.
pub fn percent(value: f64) -> String {
    if value.abs() >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Formats a percentage with its sign; zero has none.
pub fn signed_percent(value: f64) -> String {
    if crate::spoken::is_zero(value) {
        return "0.0".to_owned();
    }
    if value.abs() >= 99.95 { format!("{value:+.0}") } else { format!("{value:+.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let cases = [
            (12345.6, "12346"),
            (123.46, "123"),
            (99.96, "100"),
            (12.345, "12.3"),
            (9.996, "10.0"),
            (-4.0, "-4.00"),
            (0.1234, "0.123"),
            (0.001_234, "0.00123"),
            (0.000_123_4, "1.23e-4"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn quantities_have_the_unit_that_leaves_three_digits() {
        assert_eq!([size(0), size(999), size(1000), size(999_600)], ["0 B", "999 B", "1 KB", "1.00 MB"]);
        assert_eq!([rate(23_456_789.0), rate(999.6)], ["23.5 Mbit/s", "1.00 kbit/s"]);
        assert_eq!(
            [span(1.0), span(0.012_34), span(0.9996), span(15e-6)],
            ["1.00 s", "12.3 ms", "1.00 s", "15.0 us"]
        );
        assert_eq!([signed_percent(-4.24), signed_percent(230.4), percent(99.96)], ["-4.2", "+230", "100"]);
        assert_eq!([-0.04, -0.0, 0.04, 0.06].map(signed_percent), ["0.0", "0.0", "0.0", "+0.1"]);
    }
}
