//! Addresses and priorities: RFC 8684 sections 3.3.8 and 3.4.

use anabranch_stack::config::{ConnectionConfig, SendBuffers};
use anabranch_stack::scheduler::{LinuxOptions, SchedulerKind};
use anabranch_stack::segment::{AddAddress, MptcpOption};
use anabranch_units::Bytes;

use crate::kit::*;

/// Returns a listener with three addresses that may announce two of them.
fn announcing() -> Script {
    let mut s = Script::server_with(mesh(), 3);
    s.expect_nothing();
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s
}

fn announced(s: &mut Script) -> Vec<AddAddress> {
    s.sent()
        .iter()
        .flat_map(|segment| segment.options.mptcp)
        .filter_map(|option| match option {
            Some(MptcpOption::AddAddress(add)) if add.hmac.is_some() => Some(add),
            _ => None,
        })
        .collect()
}

// RFC 8684 section 3.4.1, rows N3, N8, N20: ID, address and HMAC, on separate ACKs; the DATA_ACK of the data
// is sent in addition (row G6, trap T2).
#[test]
fn the_listener_announces_its_other_addresses() {
    choose_random(&[0, KEY_B.0]);
    let mut s = announcing();
    s.expect(ack(0, 11).data_ack(10));
    let first = s.expect(ack(0, 11).seq(1).no_dss());
    s.inject(seg(0).seq(11).option(Script::echo(2, own_ip(1), None)));
    let second = s.expect(ack(0, 11).seq(1).no_dss());
    for (segment, id) in [(first, 2), (second, 3)] {
        let ip = own_ip(id - 1);
        let hmac = Some(anabranch_stack::crypto::add_address_hmac(KEY_B, KEY_A, id, ip, None));
        let want = MptcpOption::AddAddress(AddAddress { id, ip, port: None, hmac });
        assert_eq!(segment.options.mptcp, [Some(want), None]);
    }
}

// RFC 8684 section 3, row G2: at most two consecutive ACKs that only signal; and Linux accepts one
// announcement at a time, and discards others before it has echoed that.
#[test]
fn one_announcement_leaves_and_the_next_after_its_echo() {
    let mut s = Script::server_with(mesh(), 6);
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    let mut last = announced(&mut s);
    for round in 0..3 {
        assert_eq!(last.len(), 1);
        s.inject(seg(0).seq(11).option(Script::echo(last[0].id, last[0].ip, None)));
        if round == 1 {
            // The third in a row is deferred.
            s.expect_nothing();
            s.advance(250);
        }
        last = announced(&mut s);
    }
    assert_eq!(last.len(), 1);
}

// RFC 8684 section 3, row G2: the third in a row waits for local data, for another acknowledgement number, or
// for a retransmission timeout.
#[test]
fn two_signals_leave_in_a_row_and_the_next_waits() {
    let echoes = |s: &mut Script| -> Vec<u8> {
        let echo = |option: MptcpOption| match option {
            MptcpOption::AddAddress(add) if add.hmac.is_none() => Some(add.id),
            _ => None,
        };
        let sent = s.sent();
        sent.iter().flat_map(|segment| segment.options.mptcp).flatten().filter_map(echo).collect()
    };
    let full = || {
        let mut s = Script::client(config());
        for id in 1..=4 {
            let option = s.announcement(id, peer_ip(id), None);
            s.inject(ack(0, 1).data_ack(0).option(option));
            assert_eq!(echoes(&mut s), if id <= 2 { vec![id] } else { vec![] });
        }
        s
    };
    let mut s = full();
    s.advance(150);
    assert_eq!(echoes(&mut s), []);
    s.advance(100);
    assert_eq!(echoes(&mut s), [3, 4]);

    let mut s = full();
    s.write(1000);
    assert_eq!(echoes(&mut s), [3, 4]);

    let mut s = full();
    s.inject(data(0, 1, 2000).data_ack(0).map(0, 1, 2000));
    assert_eq!(echoes(&mut s), [3, 4]);
}

// If one subflow has reached the limit, another one signals, or the next that opens.
#[test]
fn another_subflow_signals_where_the_row_is_full() {
    let mut s = Script::confirmed_server(config());
    let second = s.peer_joins(0, 3, 8, false);
    for (id, by) in [(1, 0), (2, 0), (3, second), (4, second)] {
        let option = s.announcement(id, peer_ip(id), None);
        s.inject(seg(0).seq(11).ack(1).option(option));
        s.expect(seg(by).flags(A).option(Script::echo(id, peer_ip(id), None)));
        s.expect_nothing();
    }
    let option = s.announcement(5, peer_ip(5), None);
    s.inject(seg(0).seq(11).ack(1).option(option));
    s.expect_nothing();
    let (third, ack_of_join) = s.peer_joins_with(0, 6, 9);
    s.inject(ack_of_join);
    s.expect(seg(third).flags(A).option(Script::echo(5, peer_ip(5), None)));
    s.expect(ack(third, 1).data_ack(10));
    s.expect_nothing();
    s.advance(1000);
    s.expect_nothing();
}

// RFC 8684 section 3.4.1, row N12: without an echo it is repeated, at growing intervals and a limited number
// of times.
#[test]
fn an_announcement_is_repeated_until_it_is_echoed_or_given_up() {
    let mut s = Script::server_with(mesh(), 2);
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    let mut times = announced(&mut s).len();
    let mut clone = Vec::new();
    let start = s.now;
    for _ in 0..3 {
        s.wait_until_sent(600_000).len();
        clone.push(s.now.since(start).as_micros());
        times += 1;
    }
    assert_eq!(times, 4);
    assert!(clone[1] - clone[0] > clone[0], "{clone:?}");
    s.advance(1_000_000);
}

// RFC 8684 section 3.4.1, rows N12, N13: an echo ends the repetition, and is not answered.
#[test]
fn an_echoed_announcement_is_not_repeated() {
    let mut s = Script::server_with(mesh(), 2);
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    let add = announced(&mut s)[0];
    s.inject(seg(0).seq(11).option(Script::echo(add.id, add.ip, None)));
    s.advance(1_000_000);
}

// RFC 8684 section 3.4.1, rows N7, N8, N11: an announcement is echoed without HMAC, and joined at the port of
// the subflow that carried it.
#[test]
fn an_announcement_is_echoed_and_joined() {
    choose_random(&[0, KEY_A.0]);
    let mut s = Script::client_with(mesh(), 1);
    // 192.0.2.1 with ID 1 from B to A: the HMAC was computed independently.
    let ip = [192, 0, 2, 1].into();
    let add = AddAddress { id: 1, ip, port: None, hmac: Some(0x409d_8bf2_1f5d_4bc3) };
    s.inject(ack(0, 1).data_ack(0).option(MptcpOption::AddAddress(add)));
    let sent = s.sent();
    let echo = MptcpOption::AddAddress(AddAddress { hmac: None, ..add });
    assert!(sent.iter().any(|segment| segment.options.mptcp[0] == Some(echo)));
    let syn = sent.iter().find(|segment| segment.flags == S).expect("a join");
    assert_eq!((syn.destination.ip, syn.destination.port), (ip, PORT));
}

// RFC 8684 section 3.4.1, rows N8, N18: an announcement with a port is joined there; with another port under
// the same ID: there too.
#[test]
fn a_named_port_is_joined_and_may_change() {
    choose_random(&[0, KEY_A.0]);
    let mut s = Script::client_with(mesh(), 1);
    let ip = [192, 0, 2, 1].into();
    let add = AddAddress { id: 1, ip, port: Some(8080), hmac: Some(0x3805_326f_0088_25cc) };
    s.inject(ack(0, 1).data_ack(0).option(MptcpOption::AddAddress(add)));
    let syn = s.sent().into_iter().find(|segment| segment.flags == S).expect("a join");
    assert_eq!((syn.destination.ip, syn.destination.port), (ip, 8080));
    let moved = s.announcement(1, ip, Some(9090));
    s.inject(ack(0, 1).data_ack(0).option(moved));
    let syn = s.sent().into_iter().find(|segment| segment.flags == S).expect("a join");
    assert_eq!((syn.destination.ip, syn.destination.port), (ip, 9090));
}

// RFC 8684 section 3.4.1, rows N9, K6: a wrong HMAC: no echo, no join.
#[test]
fn an_announcement_with_a_wrong_code_is_ignored() {
    let mut s = Script::client_with(mesh(), 1);
    let add = AddAddress { id: 1, ip: peer_ip(5), port: None, hmac: Some(1) };
    s.inject(ack(0, 1).data_ack(0).option(MptcpOption::AddAddress(add)));
    s.expect_nothing();
}

// RFC 8684 section 3.4.1, rows N2, G3: nor an announcement outside the window.
#[test]
fn an_announcement_outside_the_window_is_ignored() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).seq(-300).data_ack(0).option(option));
    s.expect(ack(0, 1));
    s.inject(ack(0, 500).data_ack(0).option(option));
    s.expect(ack(0, 1));
}

// RFC 8684 sections 3.2 and 3.4.1, rows J26, N12: a repeated announcement (its echo was lost) is echoed
// again, and opens no second subflow to the address.
#[test]
fn a_repeated_announcement_opens_no_second_subflow() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    for round in 0..2 {
        s.inject(ack(0, 1).data_ack(0).option(option));
        let sent = s.sent();
        assert_eq!(sent.iter().filter(|segment| segment.flags == S).count(), 1 - round);
        assert!(
            sent.iter().any(|segment| segment.options.mptcp[0] == Some(Script::echo(1, peer_ip(5), None)))
        );
    }
    let answer = s.join_answer(1, 1, false);
    s.inject(answer);
    s.expect(ack(1, 1));
    s.inject(ack(1, 1).data_ack(0));
    s.advance(250);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.expect(ack(0, 1).option(Script::echo(1, peer_ip(5), None)));
}

// RFC 8684 section 3.4.1, rows N15, N16, H11: a failed address is retried only after a new announcement.
#[test]
fn a_failed_address_waits_for_a_new_announcement() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.sent();
    s.inject(seg(1).flags(RA).seq(0).ack(1));
    s.advance(100_000);
    s.inject(ack(0, 1).data_ack(0).option(option));
    let sent = s.sent();
    assert_eq!(sent.iter().filter(|segment| segment.flags == S).count(), 1);
}

// RFC 8684 section 3.4.1, rows N17, N19: a known ID keeps its address until it is withdrawn.
#[test]
fn an_id_keeps_its_address_until_it_is_withdrawn() {
    let mut s = Script::client_with(mesh(), 1);
    let first = s.announcement(1, peer_ip(5), None);
    let other = s.announcement(1, peer_ip(6), None);
    s.inject(ack(0, 1).data_ack(0).option(first));
    s.sent();
    s.inject(ack(0, 1).data_ack(0).option(other));
    assert!(s.sent().iter().all(|segment| segment.flags != S));
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[1])));
    s.inject(ack(0, 1).data_ack(0).option(other));
    let sent = s.sent();
    assert!(sent.iter().any(|segment| segment.flags == S && segment.destination.ip == peer_ip(6)));
}

// RFC 8684 sections 3.4.1 and 5, rows K7, H7: a flood of announcements causes few joins.
#[test]
fn a_flood_of_announcements_causes_few_joins() {
    let mut s = Script::client_with(ConnectionConfig { max_subflows: 4, ..mesh() }, 1);
    let mut joins = 0;
    for id in 1..=100 {
        let option = s.announcement(id, peer_ip(id), None);
        s.inject(ack(0, 1).data_ack(0).option(option));
        joins += s.sent().iter().filter(|segment| segment.flags == S).count();
    }
    assert_eq!(joins, 3);
}

// RFC 8684 section 3.4.2, rows E3, E4, E5, K6: a withdrawal is verified first: the path is probed, and kept
// if it answers; but no new subflow is opened to the address.
#[test]
fn a_withdrawn_address_that_answers_keeps_its_subflow() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.expect(ack(0, 1).option(Script::echo(1, peer_ip(5), None)));
    let sub = s.joined(1, false);
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[1])));
    s.by_subflow();
    let probes = s.sent();
    let probe = probes.iter().find(|segment| segment.destination.ip == peer_ip(5)).expect("a probe");
    assert_eq!(probe.payload_len, 0);
    s.advance(10);
    s.inject(ack(sub, 1).data_ack(0));
    s.advance(5000);
    s.sent();
    assert_eq!(s.subflow(sub).ended, None);
}

// RFC 8684 section 3.4.2, row E8: a path that does not answer is reset.
#[test]
fn a_withdrawn_address_that_is_silent_is_reset() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.sent();
    let answer = s.join_answer(1, 1, false);
    s.inject(answer);
    s.expect(ack(1, 1));
    s.inject(ack(1, 1).data_ack(0));
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[1])));
    s.expect(ack(1, 1).seq(0));
    let sent = s.wait_until_sent(5000);
    assert!(sent[0].flags.has(R) && sent[0].destination.ip == peer_ip(5));
    s.write(100);
    s.expect(data(0, 1, 100));
}

// RFC 8684 section 3.4.2: while the path is probed, another one carries its data; it is used again when it answers.
#[test]
fn the_data_of_a_withdrawn_address_leaves_on_another_subflow_at_once() {
    let mut s = Script::client_with(mesh(), 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.expect(ack(0, 1).option(Script::echo(1, peer_ip(5), None)));
    s.joined(1, false);
    s.write(100);
    s.expect(data(0, 1, 100));
    s.inject(ack(1, 1).data_ack(0).option(Script::removal(&[0])));
    s.by_subflow();
    // A probe, and the data.
    s.expect(ack(0, 1).seq(0));
    s.expect(data(1, 1, 100));
    s.write(100);
    s.expect(data(1, 101, 100));
    s.inject(ack(1, 201).data_ack(200));
    let uses_first = |s: &mut Script| {
        let sent = s.sent();
        sent.iter().any(|segment| segment.destination.ip == peer_ip(0) && segment.payload_len > 0)
    };
    // Also when the window of the other is full.
    s.write(50_000);
    assert!(!uses_first(&mut s));
    s.inject(ack(0, 101).data_ack(200));
    assert!(uses_first(&mut s));
}

// Linux's scheduler does as Linux: the subflow ends at once, and the other one sends its data.
#[test]
fn with_the_scheduler_of_linux_a_withdrawn_address_is_reset_at_once() {
    let linux = ConnectionConfig {
        scheduler: SchedulerKind::Linux(LinuxOptions::DEFAULT),
        send_buffers: Some(SendBuffers::Fixed(Bytes(64_000))),
        ..mesh()
    };
    let mut s = Script::client_with(linux, 1);
    let option = s.announcement(1, peer_ip(5), None);
    s.inject(ack(0, 1).data_ack(0).option(option));
    s.expect(ack(0, 1).option(Script::echo(1, peer_ip(5), None)));
    let sub = s.joined(1, false);
    s.sent();
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[1])));
    let sent = s.sent();
    assert!(sent.iter().any(|segment| segment.flags.has(R) && segment.destination.ip == peer_ip(5)));
    assert!(s.subflow(sub).ended.is_some());
    // The only subflow that remains is probed first.
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[0])));
    s.expect(ack(0, 1).seq(0));
    assert_eq!(s.subflow(0).ended, None);
}

// RFC 8684 section 3.4.2, rows E9, E11, H3: unknown IDs in the list are ignored.
#[test]
fn unknown_ids_in_a_withdrawal_are_ignored() {
    let mut s = Script::client_with(mesh(), 1);
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[77])));
    s.inject(ack(0, 1).data_ack(0).option(Script::removal(&[5, 0, 99])));
    // Row E12: ID 0 is the address of the first subflow, withdrawn like others.
    s.expect(ack(0, 1).seq(0));
    s.inject(ack(0, 1).data_ack(0));
    s.advance(10_000);
}

// RFC 8684 section 3.4.2, row E7: not outside the window.
#[test]
fn a_withdrawal_outside_the_window_is_ignored() {
    let mut s = Script::client_with(mesh(), 1);
    s.inject(ack(0, 1).seq(-300).data_ack(0).option(Script::removal(&[0])));
    s.expect(ack(0, 1).seq(1));
    s.advance(10_000);
}

// RFC 8684 section 3.4.2, rows E1, E8, E12: a lost local address is withdrawn on another subflow, and its own
// subflow reset.
#[test]
fn a_lost_address_is_withdrawn() {
    let mut s = Script::two(config());
    s.endpoint.set_address_up(s.now, own_ip(1), false);
    s.poll();
    let sent = s.sent();
    let withdrawn = sent.iter().find(|segment| segment.flags == A).expect("a signal");
    assert_eq!(withdrawn.options.mptcp[0], Some(Script::removal(&[2])));
    assert_eq!(withdrawn.source.ip, own_ip(0));
    assert!(sent.iter().any(|segment| segment.source.ip == own_ip(1) && segment.flags.has(R)));
    let mut s = Script::two(config());
    s.endpoint.set_address_up(s.now, own_ip(0), false);
    s.poll();
    let sent = s.sent();
    assert!(sent.iter().any(|segment| segment.options.mptcp[0] == Some(Script::removal(&[0]))));
    s.write(100);
    s.expect(data(1, 1, 100));
}

// RFC 8684 section 3.3.8, rows P1, P2, J9: a subflow that the peer's join marks as backup carries nothing ...
#[test]
fn a_backup_is_idle_while_another_works_and_takes_over() {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11));
    let sub = s.peer_joins(0, 3, 4, true);
    s.write(20_000);
    s.expect_data(0, 1, 10);
    s.expect_nothing();
    // ... until the other is gone.
    s.inject(seg(0).flags(R).seq(11));
    s.expect(data(sub, 1, 1000).map(0, 1, 1000));
    s.sent();
}

// RFC 8684 section 3.3.8, rows P2, P4: MP_PRIO changes the subflow that carries it, in both directions.
#[test]
fn mp_prio_changes_its_own_subflow() {
    let mut s = Script::two(config());
    s.inject(ack(0, 1).data_ack(0).option(MptcpOption::Priority { backup: true }));
    s.write(1000);
    s.expect(data(1, 1, 1000));
    s.inject(ack(1, 1001).data_ack(1000));
    s.inject(ack(0, 1).data_ack(1000).option(MptcpOption::Priority { backup: false }));
    s.inject(ack(1, 1001).data_ack(1000).option(MptcpOption::Priority { backup: true }));
    s.write(1000);
    s.expect(data(0, 1, 1000));
}

// RFC 8684 section 3.3.8, rows P4, P6: a local request is sent on the subflow it concerns, on a separate ACK.
#[test]
fn our_own_wish_leaves_as_mp_prio() {
    let mut s = Script::two(config());
    s.endpoint.set_backup(s.id(), anabranch_stack::event::SubflowId(1), true);
    s.poll();
    s.expect(ack(1, 1).option(MptcpOption::Priority { backup: true }));
}

// RFC 8684 section 3.2, rows J5, J7: the ID of a join's SYN/ACK is that of the address, and a withdrawal uses
// it.
#[test]
fn the_id_of_a_join_is_remembered() {
    let mut s = Script::server(config());
    let option = capable(Some(KEY_A), s.own_key, Some(10));
    s.inject(data(0, 1, 10).option(option));
    s.expect(ack(0, 11));
    let sub = s.peer_joins(0, 3, 9, false);
    s.inject(seg(0).seq(11).data_ack(0).option(Script::removal(&[9])));
    s.expect(ack(sub, 1).seq(0));
    s.inject(ack(sub, 1).data_ack(0));
    s.advance(5000);
}
