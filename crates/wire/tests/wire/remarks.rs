//! Remarks on segments in a capture.

use anabranch_stack::config::{ConnectionConfig, EndpointConfig, Entropy, LocalAddress};
use anabranch_stack::endpoint::Endpoint;
use anabranch_stack::event::{ConnectionId, SubflowId};
use anabranch_stack::observer::SendKind;
use anabranch_stack::scheduler::{AssignKind, Decision, Rule, Why};
use anabranch_stack::segment::PathId;
use anabranch_stack::seq::DataRange;
use anabranch_units::{RandomStream, Time};
use anabranch_wire::remarks::Remarks;

use crate::kit::v4;

/// Returns the identifier of a connection, which only an endpoint can make.
fn a_connection() -> ConnectionId {
    let (own, peer) = v4();
    let local = LocalAddress { ip: own.ip, path: PathId(0), backup: false };
    let entropy = Entropy::Seeded(RandomStream::new(1, "remarks"));
    let mut endpoint = Endpoint::new(EndpointConfig::new(vec![local]), entropy);
    endpoint.connect(Time::ZERO, own.ip, peer, ConnectionConfig::linux()).expect("a port")
}

// A queue is first in, first out: a skipped range was taken back, and its reason no longer counts.
#[test]
fn the_reason_is_that_of_the_data_which_is_sent() {
    let (connection, subflow) = (a_connection(), SubflowId(0));
    let mut remarks = Remarks::default();
    for (range, rule) in [(0..1000, Rule::Turn), (1000..3000, Rule::Weight)] {
        let (range, why) = (DataRange::new(range.start, range.end), Why::rule(rule));
        remarks.on_decision(connection, &Decision::Assign { subflow, range, kind: AssignKind::New, why });
    }
    let mut said = |start, end| {
        let mut text = String::new();
        remarks.on_sent(connection, subflow, SendKind::New, DataRange::new(start, end));
        remarks.take(end - start, &mut text);
        text
    };
    assert_eq!(said(1000, 2000), "new data: its share; stream 1000..2000");
    assert_eq!(said(2000, 3000), "new data: its share; stream 2000..3000");
    assert_eq!(said(0, 1000), "new data: the only subflow; stream 0..1000");
}
