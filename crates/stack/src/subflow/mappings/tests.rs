//! Tests of mappings without a connection.

use super::*;

fn range(start: u64, end: u64) -> DataRange {
    DataRange::new(start, end)
}

/// Returns mappings given as start and end in the subflow and start in the stream.
fn known(of: &[(u64, u64, u64)]) -> Mappings {
    let mut known = Mappings::default();
    for &(start, end, data) in of {
        known.remember(range(start, end), data);
    }
    known
}

fn parts(bytes: (u64, u64), nxt: u64, known: &Mappings, own: Option<Mapped>) -> (Vec<Mapped>, u64) {
    let parts = Parts::of(range(bytes.0, bytes.1), nxt, known, own);
    (parts.as_slice().to_vec(), parts.end)
}

#[test]
fn known_mappings_stay_and_only_the_rest_is_new() {
    let mut mappings = known(&[(100, 200, 1000), (300, 400, 1200)]);
    mappings.remember(range(50, 450), 950);
    let want = [(100, 200, 1000), (300, 400, 1200), (50, 100, 950), (200, 300, 1100), (400, 450, 1300)];
    let want = want.map(|(start, end, data)| (range(start, end), data));
    assert_eq!(mappings.known, want);
    mappings.remember(range(60, 420), 7);
    mappings.remember(range(100, 100), 7);
    assert_eq!(mappings.known, want);
    mappings.forget_before(200);
    assert_eq!(mappings.known, [want[1], want[3], want[4]]);
}

#[test]
fn a_byte_has_the_mapping_that_covers_it() {
    let mappings = known(&[(100, 200, 1000), (300, 400, 5000)]);
    let at = |cursor| mappings.at(cursor).map(|(_, data)| data);
    assert_eq!([99, 100, 199, 200, 299, 300].map(at), [None, Some(1000), Some(1000), None, None, Some(5000)]);
    assert_eq!(
        [0, 99, 100, 250, 300].map(|cursor| mappings.next_start(cursor)),
        [100, 100, 300, 300, u64::MAX]
    );
}

#[test]
fn no_more_mappings_are_kept_than_there_is_room_for() {
    let mut mappings = Mappings::default();
    for at in 0..2 * MAX_REMEMBERED as u64 {
        mappings.remember(range(10 * at, 10 * at + 5), at);
    }
    assert_eq!(mappings.known.len(), MAX_REMEMBERED);
    // One that would fill all gaps finds no space either.
    mappings.remember(range(0, 10_000), 0);
    assert_eq!(mappings.known.len(), MAX_REMEMBERED);
}

#[test]
fn a_mapping_contradicts_another_of_the_same_bytes_that_moves_them() {
    let mappings = known(&[(100, 200, 1000)]);
    assert!(!mappings.contradicts(range(50, 250), 950) && !mappings.contradicts(range(150, 160), 1050));
    assert!(mappings.contradicts(range(50, 250), 951) && mappings.contradicts(range(150, 160), 1000));
    assert!(mappings.contradicts(range(199, 300), 0) && mappings.contradicts(range(0, 101), 0));
    assert!(!mappings.contradicts(range(200, 300), 0) && !mappings.contradicts(range(0, 100), 0));
    // A mapping may begin before the stream.
    assert!(mappings.contradicts(range(100, 200), -900));
    assert!(!known(&[(100, 200, 50)]).contradicts(range(10, 120), -40));
}

#[test]
fn the_bytes_of_a_segment_go_where_mappings_say_as_far_as_there_is_no_hole() {
    let mappings = known(&[(100, 200, 1000), (200, 300, 5000), (350, 400, 7000)]);
    // Only by known mappings, from the middle of one to the middle of another.
    let both = vec![(range(150, 200), 1050), (range(200, 300), 5000)];
    assert_eq!(parts((150, 250), 1, &mappings, None), (both.clone(), 300));
    assert_eq!(parts((150, 320), 1, &mappings, None), (both, 300));
    assert_eq!(parts((150, 200), 1, &mappings, None), (vec![(range(150, 200), 1050)], 200));
    assert_eq!(parts((50, 150), 1, &mappings, None), (vec![], 50));
    // Its own mapping fills only the unknown parts.
    let own = Some((range(250, 500), 20_000));
    let want = vec![
        (range(260, 300), 5060),
        (range(300, 350), 20_050),
        (range(350, 400), 7000),
        (range(400, 500), 20_150),
    ];
    assert_eq!(parts((260, 500), 1, &mappings, own), (want, 500));
    assert_eq!(parts((310, 340), 1, &mappings, own), (vec![(range(310, 350), 20_060)], 350));
    // A mapping that begins after the segment's start leaves a hole.
    assert_eq!(parts((310, 340), 1, &mappings, Some((range(311, 340), 0))), (vec![], 310));
    assert_eq!(parts((310, 340), 1, &mappings, Some((range(300, 310), 0))), (vec![], 310));
}

#[test]
fn received_data_needs_no_mapping() {
    let mappings = known(&[(100, 200, 1000)]);
    assert_eq!(parts((50, 150), 120, &mappings, None), (vec![(range(120, 200), 1020)], 200));
    assert_eq!(parts((50, 90), 120, &mappings, None), (vec![], 90));
    assert_eq!(parts((50, 90), 90, &mappings, None), (vec![], 90));
}

#[test]
fn a_segment_of_more_mappings_than_there_is_room_for_is_mapped_in_part() {
    let mut mappings = known(&[(1, 2, 0), (2, 3, 10), (3, 4, 20), (4, 5, 30), (5, 6, 40)]);
    let (four, end) = parts((1, 6), 1, &mappings, None);
    assert_eq!((four.len(), end), (MAX_PARTS, 5));
    mappings.clear();
    assert!(mappings.is_empty() && mappings.at(1).is_none());
}
