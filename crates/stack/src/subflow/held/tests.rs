//! Tests of pieces and claims without a connection. The payload is a pattern, so that every sum is known.

use super::*;

fn range(start: u64, end: u64) -> DataRange {
    DataRange::new(start, end)
}

/// Returns the sum of these bytes of the pattern, as if they began at an even offset.
fn sum(range: DataRange) -> u16 {
    let byte = |at: u64| (at * 37 % 251) as u16;
    let word = |at: u64| if (at - range.start).is_multiple_of(2) { byte(at) << 8 } else { byte(at) };
    (range.start..range.end).fold(0, |sum, at| add(sum, word(at)))
}

fn piece(start: u64, end: u64) -> Piece {
    Piece { range: range(start, end), sum: sum(range(start, end)), done: false, bare: false }
}

/// Returns a claim with the correct sum.
fn claim(start: u64, end: u64) -> Claim {
    Claim {
        mapped: range(start, end),
        data: start as i64 + 1000,
        sum: !sum(range(start, end)),
        data_fin: false,
    }
}

fn held(pieces: &[Piece], claims: &[Claim]) -> Held {
    let mut held = Held::default();
    for &piece in pieces.iter().rev() {
        held.insert(piece);
    }
    for &claim in claims.iter().rev() {
        assert!(held.claim(claim));
    }
    held
}

/// Returns a run with the right checksums.
fn verified(first: usize, last: usize) -> Run {
    Run { first, last, checksums: Checksums::Match }
}

#[test]
fn a_claim_is_complete_when_pieces_fill_it() {
    let claims = [claim(1, 102), claim(102, 200), claim(300, 400)];
    let run = |pieces: &[Piece]| held(pieces, &claims).complete_run();
    assert_eq!(run(&[piece(1, 52), piece(52, 101)]), None);
    assert_eq!(run(&[piece(2, 52), piece(52, 102)]), None);
    assert_eq!(run(&[piece(1, 52), piece(53, 102)]), None);
    assert_eq!(run(&[piece(1, 52), piece(52, 102)]), Some(verified(0, 0)));
    // Each separately, although the next has arrived too.
    assert_eq!(run(&[piece(1, 52), piece(52, 102), piece(102, 200)]), Some(verified(0, 0)));
    assert_eq!(run(&[piece(102, 200)]), Some(verified(1, 1)));
    assert_eq!(run(&[piece(300, 400)]), Some(verified(2, 2)));
    let wrong = Piece { sum: 7, ..piece(52, 102) };
    assert_eq!(run(&[piece(1, 52), wrong]), Some(Run { first: 0, last: 0, checksums: Checksums::Differ }));
}

#[test]
fn claims_that_share_a_piece_are_complete_together() {
    let claims = [claim(1, 102), claim(102, 200), claim(300, 400)];
    let run = |pieces: &[Piece]| held(pieces, &claims).complete_run();
    assert_eq!(run(&[piece(1, 52), piece(52, 151)]), None);
    assert_eq!(run(&[piece(1, 52), piece(52, 151), piece(151, 200)]), Some(verified(0, 1)));
    assert_eq!(run(&[piece(1, 200)]), Some(verified(0, 1)));
    // Nothing is known about the data after the second.
    assert_eq!(run(&[piece(1, 52), piece(52, 250)]), None);
    assert_eq!(run(&[piece(1, 52), piece(52, 250), piece(300, 400)]), Some(verified(2, 2)));
}

// RFC 8684 section 3.3.1: of contradicting mappings the first is used.
#[test]
fn a_claim_may_be_repeated_and_not_changed() {
    let mut held = held(&[], &[claim(1, 101)]);
    assert!(held.claim(claim(1, 101)));
    assert!(!held.claim(Claim { data: 5, ..claim(1, 101) }));
    assert!(!held.claim(claim(1, 100)) && !held.claim(claim(100, 150)));
    assert_eq!(held.claims, [claim(1, 101)]);
    // A DATA_FIN recorded once stays.
    assert!(held.claim(Claim { data_fin: true, ..claim(1, 101) }));
    assert!(held.claim(claim(1, 101)));
    assert!(held.claims[0].data_fin);
}

#[test]
fn the_first_unmapped_byte_is_found() {
    let first = |claims: &[Claim]| {
        held(&[piece(5, 51), piece(60, 80)], claims).first_unmapped().map(|(first, _)| first)
    };
    assert_eq!(first(&[]), Some(5));
    assert_eq!(first(&[claim(6, 51)]), Some(5));
    assert_eq!(first(&[claim(1, 41)]), Some(41));
    assert_eq!(first(&[claim(5, 51)]), Some(60));
    assert_eq!(first(&[claim(5, 51), claim(51, 70)]), Some(70));
    assert_eq!(first(&[claim(5, 100)]), None);
    let mut done = held(&[piece(5, 51)], &[]);
    done.pieces[0].done = true;
    assert_eq!((done.first_unmapped(), done.bytes()), (None, 0));
}

#[test]
fn the_sum_of_a_gap_follows_from_that_of_the_whole() {
    for gap in [range(40, 61), range(41, 60), range(1, 60), range(40, 100)] {
        let mut pieces = Vec::new();
        for (start, end) in [(1, gap.start), (gap.end, 100)] {
            if start < end {
                pieces.push(piece(start, end));
            }
        }
        let derived = held(&pieces, &[]).derive(range(1, 100), gap, sum(range(1, 100)));
        // Zero has two forms.
        let rest = subtract(derived.unwrap(), sum(gap));
        assert!(is_zero(rest) || is_zero(!rest), "{gap:?}");
    }
    let gap = range(40, 60);
    let whole = sum(range(1, 100));
    assert_eq!(held(&[piece(1, 40), piece(60, 101)], &[]).derive(range(1, 100), gap, whole), None);
    assert_eq!(held(&[piece(1, 40), piece(61, 100)], &[]).derive(range(1, 100), gap, whole), None);
    assert_eq!(held(&[piece(1, 41), piece(60, 100)], &[]).derive(range(1, 100), gap, whole), None);
}

#[test]
fn verified_data_before_the_next_byte_is_discarded() {
    let claims = [claim(1, 50), claim(50, 100), claim(100, 150), claim(150, 200)];
    let mut held = held(&[piece(1, 50), piece(60, 100), piece(100, 120), piece(150, 200)], &claims);
    for at in [0, 2, 3] {
        held.pieces[at].done = true;
    }
    held.prune(120);
    // The second is not verified, the fourth is after a hole; the claims are those still waiting for payload.
    assert_eq!(held.pieces.iter().map(|piece| piece.range.start).collect::<Vec<_>>(), [60, 150]);
    assert_eq!(held.claims.iter().map(|claim| claim.mapped.start).collect::<Vec<_>>(), [50, 100, 150]);
    held.prune(150);
    assert_eq!(held.claims.iter().map(|claim| claim.mapped.start).collect::<Vec<_>>(), [50, 150]);
    assert_eq!(held.bytes(), 40);
}
