//! The writer of SVG.

use super::*;

#[test]
fn a_line_keeps_its_extremes_however_many_points_it_has() {
    let points =
        (0..100_000).map(|at| (f64::from(at) / 1000.0, if at == 50_123 { 9.0 } else { f64::from(at % 3) }));
    let kept = thinned(points, 0.5);
    assert!(kept.len() <= 4 * 201, "{}", kept.len());
    assert!(kept.contains(&(50.123, 9.0)) && kept.contains(&(0.0, 0.0)) && kept.contains(&(99.999, 0.0)));
}

#[test]
fn a_missing_value_is_a_gap_of_the_line() {
    let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (4.0, 3.0)];
    assert_eq!(polyline(&points, true), "M0 1H1M2 3H4");
    assert_eq!(polyline(&points, false), "M0 1h0.5M2 3L4 3");
}

#[test]
fn the_label_of_a_low_panel_is_divided_and_never_cut() {
    let length = |text: &str| width_of(text, 8.0);
    assert_eq!(upright("path.1.rtt (ms)", 8.0, 100.0), ["path.1.rtt (ms)"]);
    assert_eq!(upright("path.wifi.rate (Mbit/s)", 8.0, 60.0), ["path.wifi.rate", "(Mbit/s)"]);
    assert_eq!(upright("path.wifi.rate (Mbit/s)", 8.0, 40.0), ["path.wifi.", "rate", "(Mbit/s)"]);
    assert!(upright("", 8.0, 40.0).is_empty());
    let key = "traffic.some-long-name.size (KB)";
    let y = Axis { label: key.to_owned(), ..Axis::names(vec!["1".to_owned(), "2".to_owned()]) };
    let x = Axis::new("", crate::chart::Unit::None, (0.0, 1.0));
    let panel = Panel { title: String::new(), x, y, marks: Vec::new() };
    let drawn = draw(&Chart { panels: vec![panel], ..Chart::default() }, &Page::default());
    assert!(length(key) > 60.0 && !drawn.contains('\u{2026}'), "{drawn}");
}

#[test]
fn names_are_text_whatever_they_contain() {
    let key = Key { text: "<a & \"b\"\u{1}>".to_owned(), sample: Sample::Area("#000000".to_owned()) };
    let drawn = draw(&Chart { keys: vec![key], ..Chart::default() }, &Page::default());
    assert!(drawn.contains("&lt;a &amp; &quot;b&quot;\u{fffd}&gt;"), "{drawn}");
}

/// Returns the numbers of an attribute of all elements of a kind.
fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
    let begin = format!("<{element} ");
    let value = |text: &str| text.split_once(&format!("{attribute}=\""))?.1.split('"').next()?.parse().ok();
    svg.split(&begin).skip(1).map(|text| value(text).expect("a number")).collect()
}

/// The first row is at the top, and larger values of numbers are higher.
#[test]
fn names_go_down_and_numbers_go_up() {
    let points = |y: Axis| {
        let mark = Mark::Points {
            points: vec![(0.25, 0.0), (0.5, 1.0)],
            symbol: Symbol::Circle,
            colour: "#000000",
            size: 2.0,
            hollow: false,
            opacity: 1.0,
        };
        let x = Axis::new("", crate::chart::Unit::None, (0.0, 1.0));
        let panel = Panel { title: String::new(), x, y, marks: vec![mark] };
        let svg = draw(&Chart { panels: vec![panel], ..Chart::default() }, &Page::default());
        (numbers(&svg, "circle", "cx"), numbers(&svg, "circle", "cy"))
    };
    let (x, rows) = points(Axis::names(vec!["a".to_owned(), "b".to_owned()]));
    assert!(x[0] < x[1] && rows[0] < rows[1], "{rows:?}");
    let (_, values) = points(Axis::new("", crate::chart::Unit::None, (0.0, 1.0)));
    assert!(values[0] > values[1], "{values:?}");
}

#[test]
fn white_text_is_on_dark_colours() {
    for (fill, dark) in
        [("#000000", true), ("#0072b2", true), ("#ffffff", false), ("#c9b400", false), ("#e2f3e4", false)]
    {
        assert_eq!(is_dark(fill), dark, "{fill}");
    }
}

/// Lines that touch in one column are one line, from the lowest to the highest of their ends.
#[test]
fn touching_lines_are_joined_from_end_to_end() {
    let frame = Frame { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };
    let bars =
        [(10.0, 10.0, 20.0), (10.1, 20.0, 30.0), (10.1, 5.0, 12.0), (10.1, 60.0, 70.0), (50.0, 5.0, 6.5)];
    let (path, dense) = segments(&bars, (0, 0), frame, &|x| x, &|y| 100.0 - y);
    assert!(!dense);
    assert_eq!(path, "M10 70V95M10.1 30V40M50 93.5V95");
    // Places outside of the panel have no line.
    assert_eq!(
        segments(&[(200.0, 0.0, 9.0), (10.0, 300.0, 400.0)], (0, 0), frame, &|x| x, &|y| 100.0 - y).0,
        ""
    );
}
