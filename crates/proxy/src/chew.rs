//! Reads any bytes in every way, for random tests and for the fuzzer.

use anabranch_scenario::policy::proxy::Key;

use crate::convert::seal::{Code, Unverified, read_reply, request};
use crate::convert::{Host, Malformed, answer_to_malformed};
use crate::front::{http, socks};
use crate::sizes::{Messages, Sizes};

/// Reads bytes as messages of the Convert protocol.
///
/// # Panics
/// If a rule is broken: a request that was read and written again is another one.
pub fn convert(bytes: &[u8], code: &Code) {
    let key = Key([7; 32]);
    match Unverified::parse(bytes) {
        Ok(Some(read)) => {
            let _ = read.is_of(&key);
            if let Ok(one) = read.request() {
                let (message, _) = request(&one, read.name, &key, read.time_ms, read.nonce);
                let again = Unverified::parse(&message).expect("it was just written");
                assert_eq!(again.and_then(|again| again.request().ok()), Some(one.clone()));
                if let Host::Name(name) = one.destination.host {
                    assert!(!name.contains(char::is_control));
                }
            }
        }
        Ok(None) => {}
        Err(why) => {
            let reply = answer_to_malformed(bytes, why);
            assert_eq!(reply.is_none(), why == Malformed::Magic);
            assert!(reply.is_none_or(|reply| reply.plain().len() <= crate::convert::LONGEST));
        }
    }
    let _ = read_reply(bytes, &key, code);
}

/// Reads bytes as requests of SOCKS 5 and of HTTP.
pub fn front(bytes: &[u8]) {
    let _ = (socks::greeting(bytes), socks::credentials(bytes), socks::request(bytes));
    let _ = http::head(bytes);
}

/// Reads bytes as messages of HTTP with announced sizes.
///
/// # Panics
/// If the known end of the data depends on the pieces in which they pass, or lies before them.
pub fn sizes(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    // Pieces of 1 to 64 bytes, with a hint or without.
    let (piece, hint) = (usize::from(first & 63) + 1, (first & 64 != 0).then_some(40));
    for messages in [Messages::Requests, Messages::Responses] {
        let end = |piece: usize| {
            let (mut sizes, mut passed, mut end) = (Sizes::new(messages, hint), 0_u64, hint);
            for part in bytes.chunks(piece) {
                if let Some(remaining) = sizes.see(part) {
                    end = remaining.map(|remaining| passed + remaining);
                }
                passed += part.len() as u64;
                assert!(end.is_none_or(|end| end >= passed));
            }
            end
        };
        assert_eq!(end(piece), end(bytes.len().max(1)));
    }
}
