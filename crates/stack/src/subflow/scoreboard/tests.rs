//! Compares the scoreboard with a model that stores each octet separately, and tests a few rules
//! individually.

use super::*;
use crate::subflow::rate::RateEstimator;
use proptest::prelude::*;

fn record(seq: u64, len: u32) -> Sent {
    Sent {
        seq,
        len,
        transmissions: 1,
        fin: false,
        fate: Fate::InFlight,
        data: seq + 1_000_000,
        mapping: SentMapping { back: 0, len: len as u16, data_fin: false, checksum: 0 },
        sent: Time(seq),
        stamp: SendStamp::default(),
    }
}

fn board(segments: u64) -> Scoreboard {
    let mut board = Scoreboard::starting_at(1);
    for segment in 0..segments {
        board.push(record(1 + segment * 100, 100));
    }
    board
}

/// An octet of the sequence space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Octet {
    seq: u64,
    sacked: bool,
    lost: bool,
    in_flight: bool,
    transmissions: u8,
    sent: Time,
    /// Its position in the stream, and the start and length of its mapping.
    data: u64,
    mapped_from: u64,
    mapped_len: u32,
    fin: bool,
}

fn octets(board: &Scoreboard) -> Vec<Octet> {
    let mut all = Vec::new();
    for record in board.records() {
        for seq in record.seq..record.end() {
            all.push(Octet {
                seq,
                sacked: record.is_sacked(),
                lost: record.is_lost(),
                in_flight: record.is_in_flight(),
                transmissions: record.transmissions,
                sent: record.sent,
                data: record.data + (seq - record.seq),
                mapped_from: record.seq - u64::from(record.mapping.back),
                mapped_len: u32::from(record.mapping.len),
                fin: record.fin && seq + 1 == record.end(),
            });
        }
    }
    all
}

#[derive(Clone, Debug)]
enum Operation {
    Send { len: u32, fin: bool, older: bool },
    Acknowledge(u64),
    Sack { start: u64, len: u64, known: u64 },
    Lose(usize),
    Unlose,
    Split(usize, u32),
    Resend,
    ResendAny(usize),
    Timeout { forget: bool },
    Abandon,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1..40_u32, prop::bool::weighted(0.1), prop::bool::weighted(0.1))
            .prop_map(|(len, fin, older)| Operation::Send { len, fin, older }),
        3 => (0..60_u64).prop_map(Operation::Acknowledge),
        4 => (0..200_u64, 1..120_u64, 0..80_u64)
            .prop_map(|(start, len, known)| Operation::Sack { start, len, known }),
        4 => (0..12_usize).prop_map(Operation::Lose),
        1 => Just(Operation::Unlose),
        2 => (0..12_usize, 0..30_u32).prop_map(|(at, len)| Operation::Split(at, len)),
        4 => Just(Operation::Resend),
        1 => (0..12_usize).prop_map(Operation::ResendAny),
        1 => any::<bool>().prop_map(|forget| Operation::Timeout { forget }),
        1 => Just(Operation::Abandon).prop_filter("rarely", |_| true),
    ]
}

fn apply(board: &mut Scoreboard, operation: &Operation, now: Time) {
    let mut model = octets(board);
    let una = board.una();
    match *operation {
        Operation::Send { len, fin, older } => {
            let fresh = record(board.nxt(), len);
            // A copy of data that another subflow had carried.
            let data = if older { fresh.data - 500_000 } else { fresh.data };
            let sent = Sent { fin, data, sent: now, ..fresh };
            board.push(sent);
            for seq in sent.seq..sent.end() {
                model.push(Octet {
                    seq,
                    sacked: false,
                    lost: false,
                    in_flight: true,
                    transmissions: 1,
                    sent: now,
                    data: data + (seq - sent.seq),
                    mapped_from: sent.seq,
                    mapped_len: len,
                    fin: fin && seq + 1 == sent.end(),
                });
            }
        }
        Operation::Acknowledge(ahead) => {
            let una = (una + ahead).min(board.nxt());
            let mut heard = Vec::new();
            board.acknowledge(una, |record, bytes| heard.extend(record.seq..record.seq + bytes));
            let fresh: Vec<_> = model.iter().filter(|o| o.seq < una && !o.sacked).map(|o| o.seq).collect();
            assert_eq!(heard, fresh, "what an acknowledgement tells");
            assert_eq!(board.una(), una);
            model.retain(|octet| octet.seq >= una);
        }
        Operation::Sack { start, len, known } => {
            let (start, end) = (una + start, una + start + len);
            // The part of this block that was reported before and may be called known.
            let told = board
                .records()
                .iter()
                .skip_while(|record| record.seq < start)
                .take_while(|record| record.is_sacked() && record.end() <= end)
                .map(Sent::end)
                .filter(|&end| end <= start + known)
                .last()
                .unwrap_or(0);
            let mut fresh = Vec::new();
            for record in board.records() {
                if record.seq >= start && record.end() <= end && !record.is_sacked() {
                    fresh.push((record.seq, record.is_lost()));
                    for octet in model.iter_mut().filter(|o| (record.seq..record.end()).contains(&o.seq)) {
                        (octet.sacked, octet.lost, octet.in_flight) = (true, false, false);
                    }
                }
            }
            let mut heard = Vec::new();
            board.sack(start, end, told, |record| heard.push((record.seq, record.is_lost())));
            assert_eq!(heard, fresh, "what a block tells");
        }
        Operation::Lose(at) => {
            let may =
                board.records().get(at).filter(|record| !record.is_sacked() && !record.is_lost()).copied();
            assert_eq!(board.mark_lost(at), may.is_some());
            if let Some(record) = may {
                for octet in model.iter_mut().filter(|o| (record.seq..record.end()).contains(&o.seq)) {
                    (octet.lost, octet.in_flight) = (true, false);
                }
            }
        }
        Operation::Unlose => {
            board.unmark_lost();
            for octet in model.iter_mut().filter(|octet| octet.lost) {
                (octet.lost, octet.in_flight) = (false, true);
            }
        }
        Operation::Split(at, len) => {
            let before = board.records().get(at).copied();
            let count = board.records().len();
            board.split(at, len);
            let cut = before.is_some_and(|record| record.len > len && len > 0);
            assert_eq!(board.records().len(), count + usize::from(cut));
            if cut {
                assert_eq!(board.records()[at].len, len);
            }
        }
        Operation::Resend => {
            if let Some(at) = board.next_lost() {
                resend(board, &mut model, at, now);
            }
        }
        Operation::ResendAny(at) => {
            if board.records().get(at).is_some_and(|record| !record.is_sacked()) {
                resend(board, &mut model, at, now);
            }
        }
        Operation::Timeout { forget } => {
            if forget {
                board.forget_sacks();
                for octet in &mut model {
                    octet.sacked = false;
                }
                assert_eq!(octets(board), model);
                assert!(board.is_consistent());
            }
            for at in 0..board.records().len() {
                board.mark_lost(at);
            }
            for octet in model.iter_mut().filter(|octet| !octet.sacked) {
                (octet.lost, octet.in_flight) = (true, false);
            }
        }
        Operation::Abandon => {
            if now.0.is_multiple_of(7) {
                let nxt = board.nxt();
                board.abandon();
                model.clear();
                assert_eq!((board.una(), board.nxt()), (nxt, nxt));
            }
        }
    }
    assert_eq!(octets(board), model);
    let count = |of: fn(&Octet) -> bool| model.iter().filter(|octet| of(octet)).count() as u64;
    assert_eq!(board.in_flight(), count(|octet| octet.in_flight));
    assert_eq!(board.sacked_bytes(), count(|octet| octet.sacked));
    let records = |of: fn(&Sent) -> bool| board.records().iter().filter(|record| of(record)).count();
    assert_eq!(board.sacked_segments() as usize, records(|record| record.is_sacked()));
    assert_eq!(board.lost_segments() as usize, records(|record| record.is_lost()));
    assert_eq!(board.is_empty(), model.is_empty());
    assert!(board.is_consistent());
    // The data of a record with payload: the lowest is the data offset of some record's first octet.
    let data = board.records().iter().filter(|record| record.len > 0).map(|record| record.data);
    if board.records().front().is_none_or(|record| record.len > 0) {
        assert_eq!(board.lowest_data(), data.min());
    }
    // The edges of the carried data, and of its mapping.
    for record in board.records().clone() {
        let start = record.data - u64::from(record.mapping.back);
        let end = start + u64::from(record.mapping.len);
        for offset in [start - 1, start, record.data, record.range().end, end - 1, end] {
            let carries = model.iter().any(|octet| {
                let start = octet.data - (octet.seq - octet.mapped_from);
                start <= offset && offset < start + u64::from(octet.mapped_len)
            });
            assert_eq!(board.carries(offset), carries, "{offset}");
            assert!(carries || !board.carries_nearby(offset), "{offset}");
        }
    }
    // Called twice, because the result moves the hint.
    let first = board.records().iter().position(|record| record.is_lost());
    assert_eq!(board.clone().next_lost(), first);
    if now.0.is_multiple_of(2) {
        assert_eq!(board.next_lost(), first);
    }
    let ends: Vec<u64> = board.records().iter().map(Sent::end).take(4).collect();
    for end in ends.into_iter().filter(|&end| board.after_plain(end).is_some()) {
        let (mut plain, mut other) = (board.clone(), board.clone());
        let (mut by_plain, mut by_other) = (Vec::new(), Vec::new());
        plain.acknowledge_plain(end, |record| by_plain.push((record.seq, record.space())));
        other.acknowledge(end, |record, bytes| by_other.push((record.seq, bytes)));
        assert_eq!(by_plain, by_other);
        assert_eq!(format!("{plain:?}"), format!("{other:?}"));
    }
    for offset in board.una().saturating_sub(2)..board.nxt() + 2 {
        let naive = board.records().iter().position(|record| record.end() > offset);
        assert_eq!(board.index_of(offset), naive.unwrap_or(board.records().len()));
    }
}

fn resend(board: &mut Scoreboard, model: &mut [Octet], at: usize, now: Time) {
    let record = board.records()[at];
    let stamp = RateEstimator::default().on_sent(now, 0);
    board.retransmit(at, now, stamp);
    assert_eq!(board.records()[at].stamp.first_sent, now);
    assert!(board.records()[at].retransmitted());
    for octet in model.iter_mut().filter(|o| (record.seq..record.end()).contains(&o.seq)) {
        (octet.lost, octet.in_flight, octet.sent) = (false, true, now);
        octet.transmissions = octet.transmissions.saturating_add(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_octet_is_accounted_for(operations in prop::collection::vec(operation(), 1..60)) {
        let mut board = Scoreboard::starting_at(1);
        for (step, operation) in operations.iter().enumerate() {
            apply(&mut board, operation, Time(step as u64 + 1));
        }
    }
}

#[test]
fn a_part_of_a_segment_is_acknowledged_and_the_rest_keeps_its_mapping() {
    let mut board = board(2);
    let mut heard = Vec::new();
    board.acknowledge(31, |record, bytes| heard.push((record.seq, record.len, bytes)));
    assert_eq!(heard, [(1, 100, 30)]);
    let first = board.records()[0];
    assert_eq!((first.seq, first.len, first.data), (31, 70, 1_000_031));
    assert_eq!(first.mapping, SentMapping { back: 30, len: 100, data_fin: false, checksum: 0 });
    assert_eq!(first.range(), DataRange::new(1_000_031, 1_000_101));
    assert_eq!(board.in_flight(), 170);
    assert_eq!(board.una(), 31);
}

#[test]
fn the_rest_of_a_split_segment_maps_the_same_bytes() {
    let mut board = board(1);
    board.mark_lost(0);
    board.split(0, 40);
    let (first, rest) = (board.records()[0], board.records()[1]);
    assert_eq!((first.seq, first.len, first.mapping.back), (1, 40, 0));
    assert_eq!((rest.seq, rest.len, rest.mapping.back, rest.data), (41, 60, 40, 1_000_041));
    assert_eq!(rest.mapping.len, 100);
    assert_eq!(board.lost_segments(), 2);
    assert!(board.is_consistent());
}

#[test]
fn the_fin_stays_with_the_last_part_of_a_split() {
    let mut board = Scoreboard::starting_at(1);
    board.push(Sent { fin: true, ..record(1, 100) });
    board.split(0, 99);
    assert!(!board.records()[0].fin && board.records()[1].fin);
    assert_eq!(board.records()[1].space(), 2);
    board.split(1, 1);
    assert_eq!(board.records().len(), 2);
    assert_eq!((board.nxt(), board.in_flight()), (102, 101));
}

#[test]
fn a_block_that_cuts_segments_counts_the_whole_ones_alone() {
    let mut board = board(4);
    board.sack(51, 351, 0, |_| ());
    let sacked: Vec<_> = board.records().iter().map(|record| record.is_sacked()).collect();
    assert_eq!(sacked, [false, true, true, false]);
}

#[test]
fn a_block_that_has_grown_reports_only_its_growth() {
    let mut board = board(4);
    board.sack(101, 201, 0, |_| ());
    let mut heard = Vec::new();
    board.sack(101, 401, 201, |record| heard.push(record.seq));
    assert_eq!(heard, [201, 301]);
    // The known part is not searched: the caller has removed it.
    let mut fresh = self::board(4);
    fresh.sack(101, 401, 201, |_| ());
    assert_eq!(fresh.sacked_segments(), 2);
}

#[test]
fn the_search_for_lost_segments_begins_where_the_last_one_ended() {
    let mut board = board(5);
    board.mark_lost(3);
    assert_eq!(board.next_lost(), Some(3));
    board.mark_lost(1);
    assert_eq!(board.next_lost(), Some(1));
    board.retransmit(1, Time(9), SendStamp::default());
    assert_eq!(board.next_lost(), Some(3));
    board.retransmit(3, Time(9), SendStamp::default());
    assert_eq!(board.next_lost(), None);
}

#[test]
fn a_check_that_finds_nothing_wrong_would_find_it() {
    let broken = |change: fn(&mut Scoreboard)| {
        let mut board = board(3);
        board.mark_lost(0);
        board.sack(101, 201, 0, |_| ());
        assert!(board.is_consistent());
        change(&mut board);
        !board.is_consistent()
    };
    assert!(broken(|board| board.una += 1));
    assert!(broken(|board| board.nxt += 1));
    assert!(broken(|board| board.in_flight += 1));
    assert!(broken(|board| board.sacked_bytes += 1));
    assert!(broken(|board| board.sacked_segments += 1));
    assert!(broken(|board| board.lost_segments += 1));
    assert!(broken(|board| board.sent[1].seq += 1));
    assert!(broken(|board| board.sent[2].fate = Fate::Lost));
    assert!(broken(|board| {
        board.sent[2].fate = Fate::Lost;
        board.lost_segments += 1;
    }));
    assert!(broken(|board| {
        board.sent[2].fate = Fate::Sacked;
        board.sacked_segments += 1;
        board.sacked_bytes += 100;
    }));
    assert!(broken(|board| {
        board.sent[0].fate = Fate::Sacked;
        board.sacked_segments += 1;
        board.sacked_bytes += 100;
    }));
    assert!(broken(|board| board.sent.push_back(record(301, 0))));
}

#[test]
fn the_lowest_data_is_found_after_newer_data_and_a_fin_has_none() {
    let mut board = board(1);
    let mut push = |len, fin, data| board.push(Sent { fin, data, ..record(board.nxt(), len) });
    push(100, false, 700_000);
    push(100, false, 600_000);
    push(0, true, 0);
    assert_eq!(board.lowest_data(), Some(600_000));
    board.acknowledge(101, |_, _| ());
    assert_eq!(board.lowest_data(), Some(600_000));
    board.acknowledge(201, |_, _| ());
    assert_eq!(board.lowest_data(), Some(600_000));
    board.acknowledge(301, |_, _| ());
    assert_eq!(board.lowest_data(), None);
    assert_eq!(Scoreboard::starting_at(1).lowest_data(), None);
}
