//! The end of a connection: RFC 8684 section 3.3.3 and appendix D, script by script. A hand-made peer plays
//! each script against an endpoint of anabranch on a virtual clock, and against this machine's kernel over a
//! TUN device in its own network namespace. The expectations are the same. No timing decides a pass: expected
//! segments are waited for, and forbidden ones are looked for in everything that precedes them.
#![cfg(target_os = "linux")]

mod endpoint;
mod kernel;
mod peer;
mod scripts;
#[path = "../../../../crates/stack/tests/script/kit/seg.rs"]
#[allow(dead_code, reason = "the kit of the script tests, of which these scripts use a part")]
mod seg;
#[path = "../../../skipped.rs"]
mod skipped;

use anabranch_stack::segment::{Flags, Segment};

const A: Flags = Flags::ACK;
const FA: Flags = Flags::FIN.with(Flags::ACK);

/// The opener of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The subject connects to the peer.
    Client,
    /// The peer connects to the subject.
    Server,
}

/// One end of a connection under test, with the application above it.
pub trait Subject {
    /// Delivers a segment to the subject.
    fn inject(&mut self, segment: &Segment, payload: &[u8]);
    /// Returns the next segment that it sends, with its payload. None if there is none for a long time.
    fn next(&mut self) -> Option<(Segment, Vec<u8>)>;
    /// Waits until the application has the open connection.
    fn opened(&mut self);
    /// Writes as the application.
    fn write(&mut self, bytes: &[u8]);
    /// Ends the application's direction.
    fn end(&mut self);
    /// Reads `len` bytes as the application.
    fn read(&mut self, len: usize) -> Vec<u8>;
    /// Reads the end of the stream as the application, and nothing before it.
    fn read_end(&mut self);
    /// Checks that the connection has ended in order.
    fn is_over(&mut self);
}

/// Scripts that the kernel fails, and how: `docs/interoperation.md`, "Where Linux differs".
const LINUX_DEPARTS: &[(&str, &str)] = &[
    ("a_fin_alone_is_not_the_end", "the last subflow is closed before all data is DATA_ACKed"),
    ("a_repeated_data_fin_alone_is_acknowledged_again", "#0 . ack 1 len 0 data ack 1: nothing came"),
];

macro_rules! scripts {
    ($($name:ident: $roles:ident,)*) => {
        mod anabranch {
            use super::{endpoint::Anabranch, peer::Peer, scripts};
            $(#[test]
            fn $name() {
                for &role in super::$roles {
                    scripts::$name(&mut Peer::open(Box::new(Anabranch::new(role)), role));
                }
            })*
        }
        mod linux {
            use super::{kernel::{self, Linux}, peer::Peer, scripts};
            $(#[test]
            fn $name() {
                kernel::in_a_namespace(stringify!($name), super::$roles, |role| {
                    scripts::$name(&mut Peer::open(Box::new(Linux::new(role)), role));
                });
            })*
        }
    };
}

const BOTH: &[Role] = &[Role::Client, Role::Server];
/// A client accepts no joins.
const SERVER: &[Role] = &[Role::Server];

scripts! {
    the_subject_closes_first: BOTH,
    the_subject_closes_first_with_data: BOTH,
    the_peer_closes_first: BOTH,
    both_close_at_once: BOTH,
    the_peer_sends_on_after_the_subjects_data_fin: BOTH,
    a_data_fin_is_repeated_until_it_is_acknowledged: BOTH,
    a_repeated_data_fin_is_acknowledged_again: BOTH,
    a_repeated_data_fin_alone_is_acknowledged_again: BOTH,
    a_probe_beside_a_repeated_data_fin_is_acknowledged: BOTH,
    a_data_fin_waits_for_the_data_before_it: BOTH,
    a_fin_before_the_data_ack_of_the_data_fin: BOTH,
    data_and_both_fins_in_one_segment: BOTH,
    a_peer_of_appendix_d: BOTH,
    a_fin_alone_is_not_the_end: BOTH,
    a_fin_on_one_subflow_is_not_the_end: SERVER,
    a_data_fin_is_acknowledged_on_either_subflow: SERVER,
    data_by_one_subflow_and_data_fin_by_the_other: SERVER,
}
