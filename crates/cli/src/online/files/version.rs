//! The versions of a file, and conditional requests (RFC 9110 section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::header::{
    HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

/// The version of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Version {
    /// The entity tag.
    pub tag: String,
    /// The time of the last change, to the second.
    modified: Option<SystemTime>,
}

impl Version {
    /// Returns the version of a file of `len` bytes that was last changed at `modified`.
    pub(super) fn of(len: u64, modified: Option<SystemTime>) -> Version {
        let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        Version {
            tag: format!("\"{:x}-{:x}-{len:x}\"", since.as_secs(), since.subsec_nanos()),
            // A future time must not be sent (RFC 9110 section 8.8.2.1).
            modified: modified
                .filter(|at| *at <= SystemTime::now())
                .map(|_| UNIX_EPOCH + Duration::from_secs(since.as_secs())),
        }
    }

    /// Returns the value of `Last-Modified`.
    pub(super) fn last_modified(&self) -> Option<String> {
        self.modified.map(httpdate::fmt_http_date)
    }

    /// Returns the status that the conditions of a GET or HEAD lead to instead of the file, in the order of
    /// RFC 9110 section 13.2.2.
    pub(super) fn objection(&self, headers: &HeaderMap) -> Option<StatusCode> {
        if let Some(tags) = text(headers, IF_MATCH) {
            if !self.is_among(&tags, false) {
                return Some(StatusCode::PRECONDITION_FAILED);
            }
        } else if let Some((since, modified)) = date(headers, IF_UNMODIFIED_SINCE).zip(self.modified)
            && modified > since
        {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        if let Some(tags) = text(headers, IF_NONE_MATCH) {
            return self.is_among(&tags, true).then_some(StatusCode::NOT_MODIFIED);
        }
        let (since, modified) = date(headers, IF_MODIFIED_SINCE).zip(self.modified)?;
        (modified <= since).then_some(StatusCode::NOT_MODIFIED)
    }

    /// True if a range is to be served: not if the client has a part of another version (RFC 9110 section
    /// 13.1.5).
    pub(super) fn is_same_for_range(&self, headers: &HeaderMap) -> bool {
        text(headers, IF_RANGE).is_none_or(|condition| {
            condition == self.tag || self.last_modified().is_some_and(|date| date == condition)
        })
    }

    fn is_among(&self, tags: &str, weakly: bool) -> bool {
        tags.split(',').map(str::trim).any(|tag| {
            let tag = if weakly { tag.strip_prefix("W/").unwrap_or(tag) } else { tag };
            tag == "*" || tag == self.tag
        })
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    // Several lines of a header are one list.
    let lines: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(&text(headers, name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn conditions_are_weighed_in_their_order() {
        let at = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        let version = Version::of(255, Some(at));
        assert_eq!(version.tag, "\"6553f100-5-ff\"");
        let same = "Tue, 14 Nov 2023 22:13:20 GMT";
        assert_eq!(version.last_modified().unwrap(), same);
        let (before, after) = ("Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT");
        let answer = |pairs: &[(HeaderName, &str)]| {
            let pairs =
                pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
            version.objection(&pairs.collect()).map(|status| status.as_u16())
        };
        let tag = version.tag.as_str();
        let weak = format!("W/{tag}");
        assert_eq!(answer(&[]), None);
        assert_eq!(answer(&[(IF_NONE_MATCH, tag)]), Some(304));
        assert_eq!(answer(&[(IF_NONE_MATCH, &format!("\"x\", {weak}"))]), Some(304));
        assert_eq!(answer(&[(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, after)]), None);
        assert_eq!(answer(&[(IF_MODIFIED_SINCE, same)]), Some(304));
        assert_eq!(answer(&[(IF_MODIFIED_SINCE, before)]), None);
        assert_eq!(answer(&[(IF_MODIFIED_SINCE, "yesterday")]), None);
        assert_eq!(answer(&[(IF_MATCH, tag), (IF_UNMODIFIED_SINCE, before)]), None);
        assert_eq!(answer(&[(IF_MATCH, &weak)]), Some(412));
        assert_eq!(answer(&[(IF_MATCH, "*")]), None);
        assert_eq!(answer(&[(IF_UNMODIFIED_SINCE, before)]), Some(412));
        assert_eq!(answer(&[(IF_UNMODIFIED_SINCE, same)]), None);
        let ranged = |value: &str| {
            let pair = (IF_RANGE, HeaderValue::from_str(value).unwrap());
            version.is_same_for_range(&[pair].into_iter().collect())
        };
        assert!(ranged(tag) && ranged(same) && version.is_same_for_range(&HeaderMap::new()));
        assert!(!ranged(&weak) && !ranged(after) && !ranged("\"x\""));
    }

    #[test]
    fn a_time_to_come_is_not_given() {
        let later = SystemTime::now() + Duration::from_secs(1000);
        assert_eq!(Version::of(1, Some(later)).last_modified(), None);
        assert_eq!(Version::of(1, None).last_modified(), None);
    }
}
