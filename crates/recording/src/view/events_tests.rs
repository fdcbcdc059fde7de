//! Order at the receiver, thinned columns, and the distribution of delays.

use super::*;

const MS: u64 = 1_000_000;

fn stream(thinned_ns: u64) -> Stream {
    let subflow = |id| super::super::Subflow {
        id,
        name: String::new(),
        path: None,
        t_ns: Default::default(),
        cwnd_bytes: Default::default(),
        ssthresh_bytes: Default::default(),
        inflight_bytes: Default::default(),
        srtt_us: Default::default(),
    };
    Stream {
        flow: 0,
        direction: "up".to_owned(),
        subflows: vec![subflow(0), subflow(3)],
        thinned_ns,
        sent: Sent::default(),
        acks: Acks::default(),
    }
}

#[test]
fn a_segment_waits_for_the_data_before_it_and_counts_when_it_can_be_read() {
    // Intervals of 10 ms; the second flow is not the contender's.
    let mut events = Events::new(10 * MS, 50 * MS, vec![true, false]);
    for (at, flow, range) in [
        (1, 0, 0..100),
        (2, 0, 200..300),
        (3, 0, 300..400),
        (12, 1, 0..999),
        (25, 0, 100..200),
        (41, 0, 500..600),
    ] {
        events.add(at * MS, flow, "received", 0, range, None);
    }
    let (bins, order, _) = events.finish();
    assert_eq!(bins, [100, 0, 300, 0, 0, 0]);
    // Two waited, for 22 and 23 ms; one never was in order.
    assert_eq!((order.segments, order.stuck), (5, 1));
    let shares: Vec<(u64, f64)> = order.steps.iter().map(|(delay, share)| (delay / MS, *share)).collect();
    assert_eq!(shares, [(0, 0.4), (22, 0.6), (23, 0.8)]);
}

/// Rows of one subflow and kind within 10 ms are one, with the least and the greatest offset.
#[test]
fn thinned_rows_have_the_whole_range_of_their_data() {
    let columns = |thinned_ns| {
        let mut events = Events::new(MS, MS, vec![true]);
        events.choose(Chosen::new(&stream(thinned_ns)));
        for (at, event, subflow, range) in [
            (0, "sent", 0, 100..200),
            (2, "sent", 3, 200..300),
            (4, "sent", 0, 50..150),
            (5, "retransmitted", 0, 0..10),
            (9, "sent", 0, 300..400),
            (10, "sent", 0, 400..500),
            (11, "sent", 7, 500..600),
        ] {
            events.add(at * MS, 0, event, subflow, range, None);
        }
        for (at, ack) in [(0, 10), (4, 20), (9, 30), (10, 40), (19, 50), (20, 60)] {
            events.add(at * MS, 0, "data_acked", 0, 0..ack, (ack > 10).then_some(ack + 5));
        }
        let (_, _, mut found) = events.finish();
        let (_, sent, acks) = found.remove(0);
        let rows = |at: usize| {
            (sent.t_ns.0[at] as u64 / MS, sent.subflow.0[at], sent.kind.0[at], sent.from.0[at], sent.to.0[at])
        };
        ((0..sent.t_ns.len()).map(rows).collect::<Vec<_>>(), acks.ack.0, acks.edge.0)
    };
    let (sent, acks, edges) = columns(10 * MS);
    // A subflow that is not known has no row.
    assert_eq!(sent, [(0, 0, 0, 50, 400), (2, 1, 0, 200, 300), (5, 0, 1, 0, 10), (10, 0, 0, 400, 500)]);
    assert_eq!((acks.as_slice(), edges.as_slice()), (&[10, 40, 60][..], &[-1, 45, 65][..]));
    let (sent, acks, _) = columns(0);
    assert_eq!((sent.len(), acks.len()), (6, 6));
}
