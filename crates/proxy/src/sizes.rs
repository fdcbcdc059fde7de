//! The remaining data of a direction: a hint of the policy, or `Content-Length` of HTTP that is not encrypted.
//!
//! Schedulers such as `dmptcp` choose subflows by the data that remains. The bytes are only looked at: if they are no HTTP/1, or have no
//! length, nothing is announced, and the scheduler uses the bytes that wait.

/// The longest head that is looked at.
const LONGEST: usize = 8 << 10;

/// The kind of messages of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    Requests,
    Responses,
}

/// The sizes of the messages of one direction.
#[derive(Debug)]
pub(crate) struct Sizes {
    messages: Messages,
    state: State,
    /// The number of bytes that have passed.
    passed: u64,
    /// The end of the known data, by the same count; none if it is not known.
    end: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// The head of the next message as far as it has passed.
    Head(Vec<u8>),
    /// The bytes of the body that follow.
    Body(u64),
    /// The sizes of messages cannot be seen.
    Opaque,
}

impl Sizes {
    /// Returns the sizes of a direction of which `hint` bytes are expected.
    pub(crate) fn new(messages: Messages, hint: Option<u64>) -> Sizes {
        Sizes { messages, state: State::Head(Vec::new()), passed: 0, end: hint }
    }

    /// Looks at the next bytes. Returns the data that remains from their beginning if that has changed other than by their number; none in
    /// it if it is not known.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> Option<Option<u64>> {
        let (begin, before) = (self.passed, self.end);
        self.passed += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.advance(rest);
        }
        // More has passed than was expected.
        self.end = self.end.filter(|end| *end >= self.passed);
        (self.end != before).then_some(self.end.map(|end| end - begin))
    }

    /// Takes a part of the bytes. Returns the rest.
    fn advance<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match &mut self.state {
            State::Opaque => &[],
            State::Body(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= n as u64;
                if *left == 0 {
                    self.state = State::Head(Vec::new());
                }
                &bytes[n..]
            }
            State::Head(head) => {
                let had = head.len();
                head.extend_from_slice(&bytes[..bytes.len().min(LONGEST - had)]);
                if !may_be_http(head, self.messages) {
                    self.state = State::Opaque;
                    return &[];
                }
                let Some(length) = head.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
                else {
                    if head.len() >= LONGEST {
                        self.state = State::Opaque;
                    }
                    return &[];
                };
                let rest = &bytes[length - had..];
                match body(&head[..length], self.messages) {
                    Some(body) => {
                        self.end = Some((self.passed - rest.len() as u64).saturating_add(body));
                        self.state = if body > 0 { State::Body(body) } else { State::Head(Vec::new()) };
                        rest
                    }
                    None => {
                        self.end = None;
                        self.state = State::Opaque;
                        &[]
                    }
                }
            }
        }
    }
}

/// True if these bytes may begin a message of HTTP/1.
fn may_be_http(head: &[u8], messages: Messages) -> bool {
    match messages {
        Messages::Responses => {
            let n = head.len().min(7);
            head[..n] == b"HTTP/1."[..n]
        }
        Messages::Requests => {
            let end = head.iter().position(|byte| *byte == b'\n');
            let line = &head[..end.unwrap_or(head.len())];
            // The same for a line that has come in pieces.
            line.iter().all(|byte| (b' '..0x7f).contains(byte) || *byte == b'\r')
                && (end.is_none() || line.windows(8).any(|eight| eight == b" HTTP/1."))
        }
    }
}

/// Returns the length of the body after a head; none if it cannot be known from it.
fn body(head: &[u8], messages: Messages) -> Option<u64> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let first = lines.next()?;
    let mut length = None;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return None;
        }
        if name.eq_ignore_ascii_case("content-length") {
            // RFC 9112 section 6.3: digits only, and two lengths that differ are an error.
            let value = value.trim_matches([' ', '\t']);
            let digits = Some(value).filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))?;
            let found = digits.parse().ok()?;
            if length.is_some_and(|length: u64| length != found) {
                return None;
            }
            length = Some(found);
        }
    }
    match messages {
        Messages::Requests if first.starts_with("CONNECT ") => None,
        Messages::Requests => Some(length.unwrap_or(0)),
        Messages::Responses => match first.split(' ').nth(1)? {
            "101" => None,
            "204" | "304" => Some(0),
            status if status.starts_with('1') => Some(0),
            _ => length,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";

    #[test]
    fn the_length_of_each_response_is_the_remaining_data() {
        let mut sizes = Sizes::new(Messages::Responses, None);
        let head = RESPONSE.len() as u64;
        assert_eq!(sizes.see(RESPONSE), Some(Some(head + 1000)));
        assert_eq!(sizes.see(&[b'x'; 600]), None, "it follows from the bytes");
        // The end of one and the beginning of the next.
        let mut bytes = vec![b'x'; 400];
        bytes.extend_from_slice(RESPONSE);
        bytes.extend_from_slice(&[b'y'; 10]);
        assert_eq!(sizes.see(&bytes), Some(Some(400 + head + 1000)));
        assert_eq!(sizes.see(&[b'y'; 990]), None);
        assert_eq!(sizes.see(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nabc"), Some(None));
        assert_eq!(sizes.see(RESPONSE), None, "nothing is looked at any more");
    }

    #[test]
    fn a_head_in_pieces_is_one_head() {
        for at in 1..RESPONSE.len() {
            let mut sizes = Sizes::new(Messages::Responses, None);
            assert_eq!(sizes.see(&RESPONSE[..at]), None);
            assert_eq!(sizes.see(&RESPONSE[at..]), Some(Some((RESPONSE.len() - at) as u64 + 1000)), "{at}");
        }
    }

    #[test]
    fn any_bytes_in_any_pieces_have_the_same_end() {
        let valid =
            [RESPONSE, b"GET / HTTP/1.1\r\nContent-Length: 7\r\n\r\n1234567", b"HTTP/1.1 204 X\r\n\r\n"];
        let mut state = 1_u64;
        let mut next = move || {
            // Knuth's generator for 64 bits.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        for _ in 0..2000 {
            let mut bytes = vec![next() as u8];
            for _ in 0..next() % 4 {
                bytes.extend_from_slice(valid[next() % valid.len()]);
                bytes.resize(bytes.len() + [0, 1000, next() % 2000][next() % 3], b'x');
            }
            for _ in 0..next() % 4 {
                let at = next() % bytes.len();
                bytes[at] = next() as u8;
            }
            crate::chew::sizes(&bytes);
        }
    }

    #[test]
    fn a_request_has_a_body_only_with_a_length() {
        let mut sizes = Sizes::new(Messages::Requests, None);
        let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(sizes.see(get), Some(Some(get.len() as u64)));
        let put = b"PUT /x HTTP/1.1\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(sizes.see(put), Some(Some(put.len() as u64 + 7)));
    }

    #[test]
    fn other_protocols_are_opaque_and_the_hint_holds_until_it_has_passed() {
        for (messages, bytes) in [
            (Messages::Responses, &b"\x16\x03\x03\x00\x7a"[..]),
            (Messages::Requests, b"\x16\x03\x01\x02\x00\x01"),
            (Messages::Requests, b"SSH-2.0-OpenSSH_9.9\r\n"),
            (Messages::Responses, b"SSH-2.0-OpenSSH_9.9\r\n"),
        ] {
            let mut sizes = Sizes::new(messages, Some(100));
            assert_eq!(sizes.see(bytes), None);
            assert_eq!(sizes.see(&[0; 70]), None);
            assert_eq!(sizes.see(&[0; 70]), Some(None), "it was more");
            assert_eq!(sizes.see(&[0; 70]), None);
        }
        let long = [b'a'; LONGEST + 1];
        assert_eq!(Sizes::new(Messages::Requests, None).see(&long), None);
        for damaged in [
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 101 X\r\n\r\n",
        ] {
            assert_eq!(Sizes::new(Messages::Responses, None).see(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
