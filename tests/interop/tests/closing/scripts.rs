//! The scripts, each derived from RFC 8684 section 3.3.3 and the states of appendix D. Most are run in both
//! roles.

use crate::peer::Peer;
use crate::seg::{Seg, ack, data, seg};
use crate::{A, FA};

/// Returns the peer's DATA_FIN without data, at `seq` of its subflow and `end` of its stream.
fn data_fin(sub: usize, seq: i64, end: i64) -> Seg {
    seg(sub).seq(seq).map(end, 0, 1).data_fin()
}

/// M_ESTAB, M_FIN_WAIT_1, M_FIN_WAIT_2, M_TIME_WAIT: a DATA_FIN without data.
pub fn the_subject_closes_first(s: &mut Peer) {
    s.end();
    s.expect(seg(0).flags(A).seq(1).payload(0).map(0, 0, 1).data_fin());
    s.send(ack(0, 1).data_ack(1));
    s.send(data_fin(0, 1, 0));
    s.expect(seg(0).data_ack(1));
    s.read_end();
    s.finish(&[1]);
}

/// The same, with data before or with the DATA_FIN. All of it is acknowledged immediately.
pub fn the_subject_closes_first_with_data(s: &mut Peer) {
    s.write(3000);
    s.end();
    s.await_data(3000);
    s.await_data_fin(3000);
    s.no_fin_yet(0);
    s.send(seg(0).data_ack(3001));
    s.send(data(0, 1, 100).map(0, 1, 101).data_fin());
    s.expect(seg(0).ack(101).data_ack(101));
    s.read(0, 100);
    s.read_end();
    s.finish(&[101]);
}

/// M_CLOSE_WAIT, M_LAST_ACK, M_CLOSED: the subject may continue to send.
pub fn the_peer_closes_first(s: &mut Peer) {
    s.send(data_fin(0, 1, 0));
    s.expect(ack(0, 1).data_ack(1));
    s.read_end();
    for end in [1000, 2000, 3000] {
        s.write(1000);
        s.await_data(end);
        s.send(seg(0).data_ack(end));
    }
    s.no_fin_yet(0);
    s.end();
    s.await_data_fin(3000);
    s.send(seg(0).data_ack(3001));
    s.finish(&[1]);
}

/// M_FIN_WAIT_1, M_CLOSING, M_TIME_WAIT: the DATA_FINs cross, and then the FINs.
pub fn both_close_at_once(s: &mut Peer) {
    s.end();
    s.await_data_fin(0);
    s.send(data_fin(0, 1, 0).data_ack(0));
    s.expect(seg(0).data_ack(1));
    s.read_end();
    s.send(ack(0, 1).data_ack(1));
    s.await_fin(0);
    s.send(seg(0).flags(FA).seq(1).ack(1));
    s.expect(seg(0).ack(2));
    s.send(seg(0).seq(2).ack(2));
    s.is_over();
}

/// M_FIN_WAIT_2: the other direction stays open, and its data is delivered and acknowledged.
pub fn the_peer_sends_on_after_the_subjects_data_fin(s: &mut Peer) {
    s.end();
    s.await_data_fin(0);
    s.send(ack(0, 1).data_ack(1));
    for at in 0..3 {
        s.send(data(0, 1 + at * 1000, 1000).map(at * 1000, 1 + at as u32 * 1000, 1000));
        s.expect(seg(0).ack(1001 + at * 1000).data_ack(1000 + at * 1000));
        s.read(at * 1000, 1000);
    }
    s.send(data_fin(0, 3001, 3000));
    s.expect(seg(0).data_ack(3001));
    s.read_end();
    s.finish(&[3001]);
}

/// M_FIN_WAIT_1: the DATA_FIN is reliable.
pub fn a_data_fin_is_repeated_until_it_is_acknowledged(s: &mut Peer) {
    s.write(500);
    s.await_data(500);
    s.send(seg(0).data_ack(500));
    s.end();
    for _ in 0..3 {
        s.expect(seg(0).flags(A).payload(0).map(500, 0, 1).data_fin());
    }
    s.send(seg(0).data_ack(501));
    s.send(data_fin(0, 1, 0));
    s.expect(seg(0).data_ack(1));
    s.finish(&[1]);
}

/// M_CLOSE_WAIT: the acknowledgement of the peer's DATA_FIN was lost.
pub fn a_repeated_data_fin_is_acknowledged_again(s: &mut Peer) {
    s.send(data(0, 1, 100).map(0, 1, 101).data_fin());
    s.expect(seg(0).ack(101).data_ack(101));
    s.read(0, 100);
    s.read_end();
    // The segment as retransmitted by its sender's timers.
    s.send(data(0, 1, 100).map(0, 1, 101).data_fin());
    s.expect(ack(0, 101).data_ack(101));
    s.end();
    s.await_data_fin(0);
    s.send(seg(0).seq(101).data_ack(1));
    s.finish(&[101]);
}

/// The same for a repeated DATA_FIN without data.
pub fn a_repeated_data_fin_alone_is_acknowledged_again(s: &mut Peer) {
    for _ in 0..2 {
        s.send(data_fin(0, 1, 0));
        s.expect(ack(0, 1).data_ack(1));
    }
    s.read_end();
    s.end();
    s.await_data_fin(0);
    s.send(ack(0, 1).data_ack(1));
    s.finish(&[1]);
}

/// RFC 9293 section 3.10.7.4: a segment before the window is answered. Together with a repeated DATA_FIN it
/// requires a DATA_ACK.
pub fn a_probe_beside_a_repeated_data_fin_is_acknowledged(s: &mut Peer) {
    s.send(data_fin(0, 1, 0));
    s.expect(ack(0, 1).data_ack(1));
    s.send(data_fin(0, 1, 0));
    s.send(seg(0).seq(0).data_ack(0));
    s.expect(ack(0, 1).data_ack(1));
    s.read_end();
    s.end();
    s.await_data_fin(0);
    s.send(ack(0, 1).data_ack(1));
    s.finish(&[1]);
}

/// A DATA_FIN that overtakes data is acknowledged with the data, and not before.
pub fn a_data_fin_waits_for_the_data_before_it(s: &mut Peer) {
    s.send(data_fin(0, 1, 1000));
    s.send(data(0, 501, 500).map(500, 501, 500));
    s.expect(ack(0, 1).data_ack(0));
    s.send(data(0, 1, 500).map(0, 1, 500));
    s.expect(seg(0).ack(1001).data_ack(1001));
    s.read(0, 1000);
    s.read_end();
    s.end();
    s.await_data_fin(0);
    s.send(seg(0).seq(1001).data_ack(1));
    s.finish(&[1001]);
}

/// M_FIN_WAIT_1: the peer's FIN arrives before its DATA_ACK. The DATA_FIN is repeated on the half-closed
/// subflow.
pub fn a_fin_before_the_data_ack_of_the_data_fin(s: &mut Peer) {
    s.send(data_fin(0, 1, 0));
    s.expect(ack(0, 1).data_ack(1));
    s.write(100);
    s.await_data(100);
    s.end();
    s.await_data_fin(100);
    s.send(seg(0).flags(FA).seq(1).data_ack(0));
    s.expect(seg(0).ack(2));
    s.no_fin_yet(0);
    // Data and DATA_FIN are repeated at the data level, or the DATA_FIN alone after the data is acknowledged.
    s.send(seg(0).seq(2).data_ack(100));
    s.expect(seg(0).flags(A).payload(0).map(100, 0, 1).data_fin());
    s.send(seg(0).seq(2).data_ack(101));
    s.await_fin(0);
    s.send(seg(0).seq(2));
    s.is_over();
}

/// One segment may end everything; the subject still sends.
pub fn data_and_both_fins_in_one_segment(s: &mut Peer) {
    s.send(data(0, 1, 100).flags(FA).map(0, 1, 101).data_fin());
    s.expect(seg(0).ack(102).data_ack(101));
    s.read(0, 100);
    s.read_end();
    s.write(2000);
    s.await_data(2000);
    s.send(seg(0).seq(102).data_ack(2000));
    s.end();
    s.await_data_fin(2000);
    s.send(seg(0).seq(102).data_ack(2001));
    s.await_fin(0);
    s.send(seg(0).seq(102));
    s.is_over();
}

/// M_CLOSE_WAIT, with a peer that closes its subflows in M_FIN_WAIT_2, as in the figure of appendix D.
pub fn a_peer_of_appendix_d(s: &mut Peer) {
    s.send(data(0, 1, 100).map(0, 1, 101).data_fin());
    s.expect(seg(0).ack(101).data_ack(101));
    s.send(seg(0).flags(FA).seq(101));
    s.expect(seg(0).ack(102));
    s.read(0, 100);
    s.read_end();
    for end in [1000, 2000, 3000] {
        s.write(1000);
        s.await_data(end);
        s.send(seg(0).seq(102).data_ack(end));
    }
    s.no_fin_yet(0);
    s.end();
    s.await_data_fin(3000);
    s.send(seg(0).seq(102).data_ack(3001));
    s.await_fin(0);
    s.send(seg(0).seq(102));
    s.is_over();
}

/// M_ESTAB: a FIN without a DATA_FIN does not end a stream; the subject's data uses the half-closed subflow.
pub fn a_fin_alone_is_not_the_end(s: &mut Peer) {
    s.send(seg(0).flags(FA).seq(1));
    s.expect(seg(0).ack(2));
    s.write(2000);
    s.await_data(2000);
    s.send(seg(0).seq(2).data_ack(2000));
    s.no_fin_yet(0);
    s.end();
    s.await_data_fin(2000);
    s.send(data_fin(0, 2, 0).data_ack(2001));
    s.expect(seg(0).data_ack(1));
    s.read_end();
    s.await_fin(0);
    s.send(seg(0).seq(2));
    s.is_over();
}

/// M_ESTAB, two subflows: the connection continues on the other one.
pub fn a_fin_on_one_subflow_is_not_the_end(s: &mut Peer) {
    s.join();
    s.send(seg(1).flags(FA).seq(1));
    s.expect(seg(1).ack(2));
    s.write(2000);
    s.await_data(2000);
    s.send(seg(0).data_ack(2000));
    s.send(data(0, 1, 700).map(0, 1, 700));
    s.expect(seg(0).ack(701).data_ack(700));
    s.read(0, 700);
    s.end();
    s.await_data_fin(2000);
    s.send(data_fin(0, 701, 700).data_ack(2001));
    s.expect(seg(0).data_ack(701));
    s.read_end();
    s.await_fin(1);
    s.send(seg(1).seq(2));
    s.finish(&[701]);
}

/// The DATA_FIN is sent on several subflows, any of which may carry its acknowledgement; FINs follow on all.
pub fn a_data_fin_is_acknowledged_on_either_subflow(s: &mut Peer) {
    s.join();
    s.end();
    s.await_data_fin(0);
    // Once more on each, as it was not acknowledged.
    s.expect(seg(0).flags(A).map(0, 0, 1).data_fin());
    s.expect(seg(1).flags(A).map(0, 0, 1).data_fin());
    s.send(ack(1, 1).data_ack(1));
    s.send(data_fin(1, 1, 0));
    s.expect(seg(1).data_ack(1));
    s.read_end();
    s.finish(&[1, 1]);
}

/// Data on one subflow, the DATA_FIN on the other, which is faster.
pub fn data_by_one_subflow_and_data_fin_by_the_other(s: &mut Peer) {
    s.join();
    s.send(data_fin(1, 1, 1000));
    s.send(data(1, 1, 500).map(500, 1, 500));
    s.expect(ack(1, 501).data_ack(0));
    s.send(data(0, 1, 500).map(0, 1, 500));
    s.expect(seg(0).ack(501).data_ack(1001));
    s.read(0, 1000);
    s.read_end();
    s.end();
    s.await_data_fin(0);
    s.send(seg(0).seq(501).data_ack(1));
    s.finish(&[501, 501]);
}
