use super::seal::{Unverified, read_reply, reply, request};
use super::*;
use anabranch_scenario::policy::proxy::Key;

const KEY: Key = Key([7; 32]);

fn to(host: &str, port: u16) -> Request {
    Request { destination: Destination::new(host, port).unwrap(), asks_for_mptcp: true }
}

#[test]
fn the_bytes_are_those_of_the_standard() {
    // Written by hand from RFC 8803, sections 6.1, 6.2.5 and 6.2.8.
    let (message, _) = request(&to("192.0.2.1", 443), "", &KEY, 0, [0; 16]);
    assert_eq!(message[..4], [1, message.len() as u8 / 4, 0x22, 0x63]);
    let connect = [0x0a, 6, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 30, 2, 0, 0];
    assert_eq!(message[4..28], connect);
    assert_eq!(Reply::Connected { mptcp: None }.plain(), [1, 1, 0x22, 0x63]);
    assert_eq!(Reply::failed(ErrorCode::NotAuthorized).plain(), [1, 2, 0x22, 0x63, 0x1e, 1, 32, 0]);
    let version = answer_to_malformed(&[], Malformed::Version(2)).unwrap().plain();
    assert_eq!(version, [1, 2, 0x22, 0x63, 0x1e, 1, 0, 1]);
}

#[test]
fn a_request_is_read_as_it_was_written() {
    for one in
        [to("192.0.2.1", 443), to("2001:db8::1", 1), to("[2001:db8::1]", 1), to("www.example.org", 65535)]
    {
        for name in ["a", "ab", "abc", "laptop"] {
            let (message, code) = request(&one, name, &KEY, 12345, [9; 16]);
            let read = Unverified::parse(&message).unwrap().unwrap();
            assert_eq!((read.name, read.time_ms, read.nonce, read.code), (name, 12345, [9; 16], code));
            assert!(read.is_of(&KEY) && !read.is_of(&Key([8; 32])));
            assert_eq!(read.request().unwrap(), one);
        }
    }
}

#[test]
fn a_changed_request_is_not_authentic() {
    let (message, _) = request(&to("www.example.org", 80), "laptop", &KEY, 1, [1; 16]);
    for at in 0..message.len() {
        for bit in 0..8 {
            let mut changed = message.clone();
            changed[at] ^= 1 << bit;
            if let Ok(Some(read)) = Unverified::parse(&changed) {
                assert!(!read.is_of(&KEY), "byte {at}, bit {bit}");
            }
        }
    }
    // A downgrade: without the authentication, or without the question for Multipath TCP.
    let (bare, _) = request(&to("192.0.2.1", 80), "", &KEY, 1, [1; 16]);
    let cut = Writer(bare[..28].to_vec()).finish();
    assert!(Unverified::parse(&cut).unwrap().is_none());
}

#[test]
fn a_reply_belongs_to_its_request() {
    let replies = [
        Reply::Connected { mptcp: None },
        Reply::Connected { mptcp: Some(true) },
        Reply::Connected { mptcp: Some(false) },
        Reply::failed(ErrorCode::ConnectionReset),
    ];
    for one in replies {
        let message = reply(&one, &KEY, &[3; 32], 99);
        let read = read_reply(&message, &KEY, &[3; 32]).unwrap();
        assert_eq!(read.time_ms, Some(99));
        match (&read.reply, &one) {
            (Reply::Failed { code, .. }, Reply::Failed { code: sent, .. }) => assert_eq!(code, sent),
            (read, sent) => assert_eq!(read, sent),
        }
        assert_eq!(read_reply(&message, &KEY, &[4; 32]), Err(Malformed::Value), "another request");
        assert_eq!(read_reply(&message, &Key([8; 32]), &[3; 32]), Err(Malformed::Value), "another key");
        // A reply without authentication is read, and not believed.
        assert_eq!(read_reply(&one.plain(), &KEY, &[3; 32]).unwrap().time_ms, None);
    }
    let long = Reply::Failed { code: ErrorCode::Malformed, value: vec![1; 1010] };
    assert!(read_reply(&reply(&long, &KEY, &[3; 32], 0), &KEY, &[3; 32]).unwrap().time_ms.is_some());
}

#[test]
fn a_destination_that_cannot_be_is_refused() {
    for (host, port) in [("0.0.0.0", 80), ("::", 80), ("224.0.0.1", 80), ("ff02::1", 80)] {
        let one = Request {
            destination: Destination { host: Host::Address(host.parse().unwrap()), port },
            asks_for_mptcp: false,
        };
        let (message, _) = request(&one, "a", &KEY, 0, [0; 16]);
        let refusal = Unverified::parse(&message).unwrap().unwrap().request().unwrap_err();
        assert_eq!(refusal.code, ErrorCode::Malformed, "{host}");
    }
    for bad in [
        "",
        "a b",
        "a\nb",
        "a/b",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0x7f000001",
        "[x]",
        "a:b",
        "1.2.3.4.",
        "x.0x1",
    ] {
        assert_eq!(Destination::new(bad, 80), None, "{bad:?}");
    }
    assert_eq!(Destination::new("a", 0), None);
    assert!(Destination::new("xn--bcher-kva.example", 80).is_some());
}

#[test]
fn options_of_tcp_are_ignored_supported_or_named() {
    let with = |options: &[u8]| {
        let mut writer = Writer::new();
        writer.element(CONNECT, &[&80_u16.to_be_bytes(), &[0x20; 16], options]);
        Request::read(&elements(&writer.finish()).unwrap())
    };
    assert!(!with(&[]).unwrap().asks_for_mptcp);
    assert!(with(&[2, 4, 5, 180, 30, 2]).unwrap().asks_for_mptcp);
    let refusal = with(&[29, 3, 0, 34, 2]).unwrap_err();
    assert_eq!((refusal.code, refusal.value), (ErrorCode::UnsupportedOption, vec![29, 34]));
    for damaged in [&[30][..], &[30, 1, 0, 0], &[30, 200, 0, 0], &[8, 0]] {
        assert_eq!(with(damaged).unwrap_err().code, ErrorCode::Malformed, "{damaged:?}");
    }
}

#[test]
fn any_bytes_are_a_message_or_an_error() {
    let mut state = 1_u64;
    let mut next = move || {
        // Knuth's generator for 64 bits.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let (valid, code) = request(&to("www.example.org", 80), "laptop", &KEY, 1, [1; 16]);
    for _ in 0..20_000 {
        let mut bytes = valid.clone();
        for _ in 0..next() % 6 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(next() % (bytes.len() + 1));
        chew(&bytes, &code);
    }
}

/// Reads any bytes in every way; also the target of the fuzzer.
fn chew(bytes: &[u8], code: &seal::Code) {
    crate::chew::convert(bytes, code);
}
