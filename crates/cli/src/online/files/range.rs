//! The requested part of a file.

use std::ops::Range;

/// The request of a `Range` header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The whole file: there is no range, or none that has to be served.
    Whole,
    /// These bytes, at least one.
    Part(Range<u64>),
    /// A range outside of the file: 416.
    Unsatisfiable,
}

/// Returns the part of a file of `len` bytes that `header` requests.
///
/// A range in an unknown unit is ignored (RFC 9110 section 14.2), and so is one that is malformed or names
/// several parts, as the section permits: the client recognises that by the status 200.
pub(super) fn wanted(header: &[u8], len: u64) -> Wanted {
    let parts = std::str::from_utf8(header).ok().and_then(|text| text.split_once('='));
    let Some((_, spec)) = parts.filter(|(unit, _)| unit.trim().eq_ignore_ascii_case("bytes")) else {
        return Wanted::Whole;
    };
    let spec = spec.trim();
    let Some((first, last)) = spec.split_once('-').filter(|_| !spec.contains(',')) else {
        return Wanted::Whole;
    };
    let (start, end) = match (number(first), number(last)) {
        // The last bytes; all of them if there are fewer (RFC 9110 section 14.1.2).
        (Number::None, Number::Of(0)) => (len, len),
        (Number::None, Number::Of(suffix)) => (len.saturating_sub(suffix), len),
        (Number::Of(first), Number::None) => (first, len),
        (Number::Of(first), Number::Of(last)) if first <= last => (first, last.saturating_add(1).min(len)),
        _ => return Wanted::Whole,
    };
    match () {
        () if start < end => Wanted::Part(start..end),
        // No Content-Range can name a part of an empty file. The whole file is equivalent, and nginx returns
        // it too.
        () if len == 0 && start == 0 => Wanted::Whole,
        () => Wanted::Unsatisfiable,
    }
}

enum Number {
    None,
    Of(u64),
    Bad,
}

fn number(text: &str) -> Number {
    match text {
        "" => Number::None,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            // A number that overflows is beyond the end of any file.
            Number::Of(digits.parse().unwrap_or(u64::MAX))
        }
        _ => Number::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_served_as_rfc_9110_has_it() {
        let of = |text: &str| wanted(text.as_bytes(), 1000);
        let cases = [
            ("bytes=0-99", Wanted::Part(0..100)),
            ("bytes=999-2000", Wanted::Part(999..1000)),
            ("bytes=990-", Wanted::Part(990..1000)),
            ("bytes=-10", Wanted::Part(990..1000)),
            ("bytes=-5000", Wanted::Part(0..1000)),
            ("BYTES= 0-0 ", Wanted::Part(0..1)),
            ("bytes=5-99999999999999999999", Wanted::Part(5..1000)),
            ("bytes=1000-", Wanted::Unsatisfiable),
            ("bytes=99999999999999999999-", Wanted::Unsatisfiable),
            ("bytes=-0", Wanted::Unsatisfiable),
            ("lines=1-2", Wanted::Whole),
            ("bytes=0-1,4-5", Wanted::Whole),
            ("bytes=5-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("", Wanted::Whole),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(wanted(b"bytes=\xff-", 10), Wanted::Whole);
    }

    #[test]
    fn an_empty_file_has_no_part() {
        assert_eq!(wanted(b"bytes=0-", 0), Wanted::Whole);
        assert_eq!(wanted(b"bytes=-5", 0), Wanted::Whole);
        assert_eq!(wanted(b"bytes=5-", 0), Wanted::Unsatisfiable);
    }
}
