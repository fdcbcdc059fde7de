//! Nagle's algorithm in Minshall's form: RFC 9293 section 3.7.4, and `tcp_nagle_check` in
//! net/ipv4/tcp_output.c of Linux 6.18.

use anabranch_stack::config::{ConnectionConfig, Profile, SimConfig};

use crate::kit::*;

fn nagle(config: ConnectionConfig) -> ConnectionConfig {
    ConnectionConfig { nagle: true, ..config }
}

#[test]
fn a_short_segment_waits_for_the_acknowledgement_of_another() {
    let mut s = Script::server(nagle(plain()));
    s.write(100);
    s.expect(data(0, 1, 100));
    s.write(100);
    s.write(50);
    s.expect_nothing();
    s.inject(ack(0, 51));
    s.expect_nothing();
    s.inject(ack(0, 101));
    s.expect(data(0, 101, 150));
}

#[test]
fn a_short_segment_does_not_wait_for_full_ones() {
    let mut s = Script::server(nagle(plain()));
    s.write(1000);
    s.expect(data(0, 1, 1000));
    s.write(10);
    s.expect(data(0, 1001, 10));
    // Full segments do not wait for a short one, but the end after them does.
    s.write(2010);
    s.expect(data(0, 1011, 1000));
    s.expect(data(0, 2011, 1000));
    s.expect_nothing();
    s.inject(ack(0, 1011));
    s.expect(data(0, 3011, 10));
}

#[test]
fn the_end_of_a_plain_tcps_stream_does_not_wait() {
    let mut s = Script::server(nagle(plain()));
    s.write(10);
    s.expect(data(0, 1, 10));
    s.write(10);
    s.expect_nothing();
    s.close();
    s.expect(data(0, 11, 10));
    s.expect(seg(0).flags(FA).seq(21));
}

// `tcp_send_loss_probe` sends new data with Nagle's algorithm off.
#[test]
fn a_tail_loss_probe_sends_the_data_that_waits() {
    let mut s = Script::server(nagle(plain()));
    s.write(100);
    s.expect(data(0, 1, 100));
    s.write(70);
    s.expect_nothing();
    let probe = s.wait_until_sent(1000);
    assert_eq!(probe.iter().map(|segment| segment.payload_len).collect::<Vec<_>>(), [70]);
}

#[test]
fn a_subflow_of_multipath_tcp_waits_too() {
    let mut s = Script::confirmed_server(nagle(config()));
    s.write(100);
    s.expect(mapped(0, 1, 0, 100).ack(11).data_ack(10));
    s.write(100);
    s.expect_nothing();
    s.inject(ack(0, 101).seq(11).data_ack(100));
    s.expect(mapped(0, 101, 100, 100).ack(11).data_ack(10));
}

#[test]
fn without_it_every_write_is_sent_at_once() {
    let mut s = Script::server(plain());
    s.write(100);
    s.expect(data(0, 1, 100));
    s.write(100);
    s.expect(data(0, 101, 100));
    assert!(SimConfig::new(Profile::Linux).nagle && !SimConfig::new(Profile::Ns3).nagle);
}
