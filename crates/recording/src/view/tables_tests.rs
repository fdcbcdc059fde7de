//! Rows that are thinned out, and round intervals.

use super::*;

#[test]
fn thinned_rows_keep_the_extremes_and_the_order() {
    let rows = 3 * MOST_ROWS as i64;
    let mut times = Column((0..rows).collect());
    let mut values = Column(
        (0..rows).map(|at| if at == 123_456 { 9 } else { at % 3 - i64::from(at == 222_222) * 9 }).collect(),
    );
    thin(&mut [&mut times, &mut values], 1);
    assert!(times.len() <= MOST_ROWS && times.len() > MOST_ROWS / 3, "{}", times.len());
    assert!(times.0.windows(2).all(|pair| pair[0] < pair[1]));
    let place = |value: i64| values.0.iter().position(|other| *other == value).map(|at| times.0[at]);
    assert_eq!((place(9), place(-9)), (Some(123_456), Some(222_222)));
    // Few rows stay as they are.
    let mut few = Column(vec![3, 1, 2]);
    thin(&mut [&mut few], 0);
    assert_eq!(few.0, [3, 1, 2]);
}

#[test]
fn intervals_are_round_and_not_shorter() {
    for (ns, rounded) in [
        (0, 1),
        (1_000_000, 1),
        (1_000_001, 2),
        (2_000_000, 2),
        (4_000_000, 5),
        (5_000_001, 10),
        (19_000_000, 20),
    ] {
        assert_eq!(round(ns), rounded * 1_000_000, "{ns}");
    }
}

#[test]
fn jains_index_needs_two_flows() {
    assert_eq!(
        (jain(&[3.0, 3.0]), jain(&[4.0, 0.0]), jain(&[2.0]), jain(&[0.0, 0.0])),
        (Some(1.0), Some(0.5), None, None)
    );
}

#[test]
fn flows_have_the_class_whose_name_is_before_their_number() {
    let class = |name: &str| crate::read::StoredClass {
        name: name.to_owned(),
        kind: "video".to_owned(),
        transport: "tcp".to_owned(),
    };
    let run = StoredRun {
        directory: String::new(),
        condition: String::new(),
        scheduler: String::new(),
        paths: Vec::new(),
        traffic: vec![class("call"), class("video call")],
        outages: Vec::new(),
        complete: true,
    };
    let of = |flow: &str| run.class(flow).map(|class| class.name.as_str());
    assert_eq!(
        [of("call 1"), of("video call 12"), of("1"), of("call")],
        [Some("call"), Some("video call"), None, None]
    );
}
