//! The head of a request to an HTTP proxy: `CONNECT`, and requests of plain HTTP with a whole URL.
//!
//! A request of plain HTTP is sent on in the form for its server, with `Connection: close`: one request for each
//! connection, so that a second request, perhaps for another server, cannot follow the first to the same one. // RFC 9112
//! sections 3.2 and 9.6

use super::{Read, Wrong};
use crate::convert::Destination;
use crate::failure::Failure;

/// The longest head of a request.
pub(crate) const LONGEST: usize = 32 << 10;

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub destination: Destination,
    /// The user and the password.
    pub credentials: Option<(String, String)>,
    /// The head for the server, and the length of the body that follows; none for `CONNECT`.
    pub plain: Option<(Vec<u8>, u64)>,
}

/// Header fields that are for the proxy, or for one connection. // RFC 9110 section 7.6.1
const OWN: [&str; 7] =
    ["connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "trailer", "upgrade"];

/// Reads the head of a request.
pub(crate) fn head(bytes: &[u8]) -> Read<Head> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() >= LONGEST { Err(Wrong::TooLong) } else { Ok(None) };
    };
    if end + 4 > LONGEST {
        return Err(Wrong::TooLong);
    }
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Wrong::Head)?;
    // A lone CR or LF, or a NUL, could be read in two ways.
    let mut lines = text.split("\r\n");
    if text.split("\r\n").any(|line| line.contains(['\r', '\n', '\0'])) {
        return Err(Wrong::Head);
    }
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Wrong::Head);
    };
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if !is_token(method) || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Wrong::Head);
    }
    let mut fields = Vec::new();
    for line in lines {
        // A folded line begins with a space, which is no name. // RFC 9112 section 5.2
        let (name, value) = line.split_once(':').ok_or(Wrong::Head)?;
        if !is_token(name) {
            return Err(Wrong::Head);
        }
        fields.push((name, value.trim_matches([' ', '\t'])));
    }
    let named = |wanted: &'static str| {
        fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let credentials = named("proxy-authorization").next().map(basic).transpose()?;
    if method == "CONNECT" {
        let destination = authority(target, None).ok_or(Wrong::Destination)?;
        return Ok(Some((Head { destination, credentials, plain: None }, end + 4)));
    }
    let Some((place, path)) = split_url(target) else { return Err(Wrong::NotForProxy) };
    let destination = authority(place, Some(80)).ok_or(Wrong::Destination)?;
    let mut lengths = named("content-length");
    let length = match (lengths.next(), lengths.next(), named("transfer-encoding").next()) {
        (None, None, None) => 0,
        (Some(length), None, None) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().map_err(|_| Wrong::Head)?
        }
        _ => return Err(Wrong::Length),
    };
    let dropped: Vec<&str> = named("connection").flat_map(|value| value.split(',')).map(str::trim).collect();
    let is_kept = |name: &str| {
        let is = |other: &&str| name.eq_ignore_ascii_case(other);
        !OWN.iter().any(is) && !dropped.iter().any(is) && !name.eq_ignore_ascii_case("host")
    };
    let mut plain = format!("{method} {path} {version}\r\nHost: {place}\r\n");
    for (name, value) in fields.iter().filter(|(name, _)| is_kept(name)) {
        plain.push_str(&format!("{name}: {value}\r\n"));
    }
    plain.push_str("Connection: close\r\n\r\n");
    Ok(Some((Head { destination, credentials, plain: Some((plain.into_bytes(), length)) }, end + 4)))
}

/// Splits a URL of plain HTTP into its authority and its path with the query.
fn split_url(url: &str) -> Option<(&str, String)> {
    let scheme = url.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let rest = &url[scheme.len()..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Some((place, path))
}

/// Reads `HOST:PORT`; without a default the port has to be there.
fn authority(text: &str, default: Option<u16>) -> Option<Destination> {
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an address of IPv6 without a port.
        Some((_, rest)) if rest.ends_with(']') => (text, default?),
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, default?),
    };
    Destination::new(host, port)
}

/// Reads `Basic` and the base64 of a name, a colon and a password. // RFC 7617
fn basic(value: &str) -> Result<(String, String), Wrong> {
    let (scheme, coded) = value.split_once(' ').ok_or(Wrong::Credentials)?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| base64(coded.trim())).flatten();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(Wrong::Credentials)?;
    let (name, password) = text.split_once(':').ok_or(Wrong::Credentials)?;
    Ok((name.to_owned(), password.to_owned()))
}

/// Decodes base64. // RFC 4648 section 4
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut held, mut bits) = (0_u32, 0);
    for letter in text {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(value), bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Some(bytes)
}

/// Returns a response with a text as its body.
pub(super) fn response(status: &str, fields: &str, text: &str) -> Vec<u8> {
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}\n"
    )
    .into_bytes()
}

/// The answer to `CONNECT`.
pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Returns the status of a failure.
pub(super) fn status_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::Refused(_) => "403 Forbidden",
        Failure::Busy(_) => "503 Service Unavailable",
        Failure::Unreachable(_) | Failure::ConnectionRefused(_) | Failure::Server(_) => "502 Bad Gateway",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Head, Wrong> {
        head(text.replace('\n', "\r\n").as_bytes()).map(|read| read.expect("it is complete").0)
    }

    #[test]
    fn connect_has_a_host_and_a_port() {
        let read = of("CONNECT example.org:443 HTTP/1.1\nHost: example.org\n\n").unwrap();
        assert_eq!((read.destination.to_string().as_str(), read.plain), ("example.org:443", None));
        let read =
            of("CONNECT [2001:db8::1]:22 HTTP/1.0\nProxy-Authorization: Basic YWxpY2U6YTpi\n\n").unwrap();
        assert_eq!(read.destination.to_string(), "[2001:db8::1]:22");
        assert_eq!(read.credentials, Some(("alice".to_owned(), "a:b".to_owned())));
        for bad in ["example.org", "example.org:0", "example.org:65536", "a b:1", ":80", "[::1]", "127.1:80"]
        {
            assert!(of(&format!("CONNECT {bad} HTTP/1.1\n\n")).is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_http_is_sent_on_in_the_form_for_its_server() {
        let read =
            of("GET http://example.org:8080/a?b=c#d HTTP/1.1\nHost: evil\nProxy-Connection: keep-alive\n\
             Connection: X-Own, close\nX-Own: 1\nAccept: */*\nProxy-Authorization: Basic YTpi\n\n")
            .unwrap();
        let (plain, length) = read.plain.unwrap();
        assert_eq!(
            String::from_utf8(plain).unwrap(),
            "GET /a?b=c HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        assert_eq!((read.destination.port, length), (8080, 0));
        let read = of("POST http://[::ffff:1.2.3.4]?x HTTP/1.1\nContent-Length: 12\n\n").unwrap();
        let (plain, length) = read.plain.unwrap();
        assert!(plain.starts_with(b"POST /?x HTTP/1.1\r\n"));
        assert_eq!((read.destination.port, length), (80, 12));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for (bad, wrong) in [
            ("GET / HTTP/1.1\n\n", Wrong::NotForProxy),
            ("GET https://a/ HTTP/1.1\n\n", Wrong::NotForProxy),
            ("GET  http://a/ HTTP/1.1\n\n", Wrong::Head),
            ("GET http://a/ HTTP/2\n\n", Wrong::Head),
            ("GET http://a/ HTTP/1.1\nA : b\n\n", Wrong::Head),
            ("GET http://a/ HTTP/1.1\nA: b\n c\n\n", Wrong::Head),
            ("POST http://a/ HTTP/1.1\nContent-Length: 1\nContent-Length: 2\n\n", Wrong::Length),
            ("POST http://a/ HTTP/1.1\nTransfer-Encoding: chunked\n\n", Wrong::Length),
            ("POST http://a/ HTTP/1.1\nContent-Length: +1\n\n", Wrong::Length),
            ("GET http://user@a/ HTTP/1.1\n\n", Wrong::Destination),
            ("GET http://a/ HTTP/1.1\nProxy-Authorization: Bearer x\n\n", Wrong::Credentials),
        ] {
            assert_eq!(of(bad).unwrap_err(), wrong, "{bad}");
        }
        assert_eq!(head(b"GET http://a/ HTTP/1.1\r\nA: b\rc\r\n\r\n"), Err(Wrong::Head));
        assert_eq!(head(&[b'a'; LONGEST]), Err(Wrong::TooLong));
        assert_eq!(head(b"GET http://a/ HTTP/1.1\r\nA: b\r\n"), Ok(None));
    }
}
