//! Parsing is total: any bytes give a value or an error.

use proptest::prelude::*;

use super::attributes::Writer;
use super::{messages, verdict};
use crate::diag::{parse_connection, parse_subflow};
use crate::error::KernelError;
use crate::pm::{Event, EventKind, Token, parse_event};

/// Parses bytes as everything that the kernel sends.
fn parse_all(bytes: &[u8]) {
    let _ = messages(bytes, |_, flags, _, payload| {
        let _ = verdict("test", flags, payload);
        let _ = parse_event(payload);
        let _ = parse_connection(payload);
        let _ = parse_subflow(payload);
        Ok(false)
    });
    let _ = parse_event(bytes);
    let _ = parse_connection(bytes);
    let _ = parse_subflow(bytes);
    let _ = verdict("test", 0x200, bytes);
    let _ = super::generic::parse(bytes);
}

/// An event that a subflow was established, as the kernel sends it.
fn established() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.put(1, &0x0102_0304_u32.to_ne_bytes()).put(2, &2_u16.to_ne_bytes()).put(3, &[2]).put(4, &[0]);
    writer.put(5, &[10, 0, 2, 1]).put(7, &[10, 1, 1, 1]);
    writer.put(9, &40_000_u16.to_be_bytes()).put(10, &443_u16.to_be_bytes());
    writer.put(11, &[0]).put(15, &3_u32.to_ne_bytes());
    let mut payload = vec![10, 1, 0, 0];
    payload.extend_from_slice(writer.bytes());
    payload
}

/// The description of a subflow, with the attributes of socket diagnostics.
fn subflow() -> Vec<u8> {
    let mut payload = vec![0; 72];
    (payload[0], payload[1]) = (2, 1);
    payload[4..6].copy_from_slice(&40_000_u16.to_be_bytes());
    payload[8..12].copy_from_slice(&[10, 0, 2, 1]);
    payload[24..28].copy_from_slice(&[10, 1, 1, 1]);
    let mut info = vec![0; 248];
    info[68..72].copy_from_slice(&20_000_u32.to_ne_bytes());
    let mut writer = Writer::default();
    writer.put(2, &info).put(4, b"cubic\0").nest(19, |inner| {
        inner.put(1, b"mptcp\0").nest(3, |inner| {
            inner.put(2, &7_u32.to_ne_bytes()).put(8, &(1_u32 << 5 | 1 << 6).to_ne_bytes()).put(10, &[4]);
        });
    });
    payload.extend_from_slice(writer.bytes());
    payload
}

#[test]
fn an_event_has_its_fields() {
    let Some(Event { token, kind }) = parse_event(&established()).unwrap() else { panic!("no event") };
    assert_eq!(token, Token(0x0102_0304));
    let EventKind::SubflowEstablished { subflow, local_id, interface } = kind else { panic!("{kind:?}") };
    assert_eq!(
        (subflow.local, subflow.remote),
        ("10.0.2.1:40000".parse().unwrap(), "10.1.1.1:443".parse().unwrap())
    );
    assert_eq!((local_id, interface), (2, 3));
    // An event of a newer kernel is no error.
    assert_eq!(parse_event(&[99, 1, 0, 0]).unwrap(), None);
}

#[test]
fn a_subflow_has_its_fields() {
    let (token, subflow) = parse_subflow(&subflow()).unwrap().unwrap();
    assert_eq!((token, subflow.local_id, subflow.info.rtt_us), (Some(Token(7)), 4, 20_000));
    assert!(
        subflow.flags.own_backup() && subflow.flags.is_fully_established() && !subflow.flags.peer_backup()
    );
    assert_eq!((subflow.congestion.as_str(), subflow.can_send()), ("cubic", true));
    // Another socket of TCP is none.
    assert_eq!(parse_subflow(&[0; 72]).unwrap(), None);
}

#[test]
fn a_refusal_has_the_words_of_the_kernel() {
    let mut payload = (-22_i32).to_ne_bytes().to_vec();
    payload.extend_from_slice(&[0; 16]);
    let mut writer = Writer::default();
    writer.put(1, b"subflow not found\0");
    payload.extend_from_slice(writer.bytes());
    let text = verdict("change the priority of a subflow", 0x200, &payload).unwrap_err().to_string();
    assert!(
        text.contains("(subflow not found)") && text.contains("refused to change the priority"),
        "{text}"
    );
    assert!(matches!(verdict("x", 0, &(-1_i32).to_ne_bytes()), Err(KernelError::NotPermitted(_))));
    // The least number has no opposite.
    assert!(verdict("x", 0, &i32::MIN.to_ne_bytes()).is_err());
}

#[test]
fn a_message_that_is_cut_anywhere_is_no_panic() {
    for whole in [established(), subflow()] {
        (0..whole.len()).for_each(|end| parse_all(&whole[..end]));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse_all(&bytes);
    }

    #[test]
    fn a_damaged_message_is_parsed_or_refused(
        which in any::<bool>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = if which { established() } else { subflow() };
        for (place, value) in damage {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        parse_all(&bytes);
    }
}
