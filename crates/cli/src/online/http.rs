//! HTTP for `anabranch get`: URLs, redirects, and requests for the rest of a file.

use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};
use url::Url;

use crate::failure::Failure;

/// Parses a URL that can be downloaded.
pub(crate) fn parse_url(text: &str) -> Result<Url, Failure> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).map_err(|error| Failure::Usage(format!("`{text}`: {error}")))?;
    match url.scheme() {
        "http" if url.host_str().is_some() => Ok(url),
        "https" => Err(Failure::Usage(format!("`{text}`: TLS is not supported; use http://"))),
        _ => Err(Failure::Usage(format!("`{text}` is not a URL that begins with http://"))),
    }
}

/// Returns the file name of this URL, which is its last part; none if that is not a name.
pub(crate) fn file_name(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?;
    let name = percent_encoding::percent_decode_str(last).decode_utf8().ok()?.into_owned();
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    (!bad).then_some(name)
}

/// Returns the validator that a request for the rest of a file has to contain, so that it is of the same
/// version; none if the server does not support that.
pub(crate) fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let ranges = headers.get(ACCEPT_RANGES).is_some_and(|value| value.as_bytes() == b"bytes");
    // RFC 9110 section 13.1.5: a weak entity tag is insufficient.
    let tag = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    tag.or_else(|| headers.get(LAST_MODIFIED)).filter(|_| ranges).cloned()
}

/// Returns the first byte of a partial response, and the length of the whole.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let start = range.split_once('-')?.0.parse().ok()?;
    Some((start, whole.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_http_and_names_its_file() {
        let name = |text: &str| file_name(&parse_url(text).unwrap());
        assert_eq!(name("http://h/a/b%20c.iso?x=1"), Some("b c.iso".to_owned()));
        assert_eq!(name("10.80.0.5:8080/f"), Some("f".to_owned()));
        assert_eq!(name("http://h/a/"), None);
        assert_eq!(name("http://h/a/..%2fpasswd"), None);
        for bad in ["https://h/", "ftp://h/x", "http://", "http://[::1"] {
            assert!(matches!(parse_url(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn a_rest_is_asked_for_with_a_strong_validator_alone() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            pairs.collect::<HeaderMap>()
        };
        let strong = headers(&[("accept-ranges", "bytes"), ("etag", "\"a\""), ("last-modified", "x")]);
        assert_eq!(validator(&strong), Some(HeaderValue::from_static("\"a\"")));
        let weak = headers(&[("accept-ranges", "bytes"), ("etag", "W/\"a\"")]);
        assert_eq!(validator(&weak), None);
        assert_eq!(validator(&headers(&[("etag", "\"a\"")])), None);
        let range = headers(&[("content-range", "bytes 5-9/10")]);
        assert_eq!(content_range(&range), Some((5, Some(10))));
        assert_eq!(content_range(&headers(&[("content-range", "bytes */10")])), None);
    }
}
