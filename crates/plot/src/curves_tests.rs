//! Curves that are written by hand.

use super::*;
use crate::{Page, draw_curves, inline_curves};

fn curve(name: &str, printed: bool, dots: Vec<Dot>) -> Curve {
    Curve { name: name.to_owned(), printed, dots }
}

fn figure(shape: Shape, categories: &[&str], curves: Vec<Curve>) -> Curves {
    let categories = categories.iter().map(|name| (*name).to_owned()).collect();
    Curves { x: "x".to_owned(), y: "y".to_owned(), categories, curves, shape, ..Curves::default() }
}

/// Returns the numbers of an attribute, in their order.
fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
    let begin = format!("<{element} ");
    let value = |text: &str| text.split_once(&format!(" {attribute}=\""))?.1.split('"').next()?.parse().ok();
    svg.split(&begin).skip(1).map(|text| value(&format!(" {text}")).expect("a number")).collect()
}

#[test]
fn the_interval_of_a_count_does_not_move_the_axis_below_zero() {
    let range = |value: f64| {
        let dots = vec![Dot(1.0, value, Some((value - 2.0, value + 2.0))), Dot(2.0, 9.0, None)];
        figure(Shape::Means, &[], vec![curve("tcp", false, dots)]).values().range
    };
    assert_eq!((range(0.5).0, range(2.0).0), (0.0, 0.0));
    assert!(range(-0.5).0 < -2.5);
}

#[test]
fn a_printed_curve_has_the_colour_of_ours_and_is_hollow_and_dashed() {
    let dots = vec![Dot(0.0, 1.0, None), Dot(1.0, 2.0, None)];
    let all = ["lia", "olia", "paper: lia"].map(|name| curve(name, name.contains(':'), dots.clone()));
    let chart = chart(&[figure(Shape::Means, &[], all.to_vec())]);
    let stroke = |at: usize| match &chart.keys[at].sample {
        Sample::Line(stroke, _) => stroke.clone(),
        other => panic!("{other:?}"),
    };
    assert!(stroke(0).colour == stroke(2).colour && stroke(0).colour != stroke(1).colour);
    assert!(stroke(0).dash.is_empty() && !stroke(2).dash.is_empty());
    let hollow = |mark: &&Mark| match mark {
        Mark::Titled { marks, .. } => matches!(marks[..], [Mark::Points { hollow: true, .. }]),
        _ => false,
    };
    assert_eq!(chart.panels[0].marks.iter().filter(hollow).count(), 2);
}

#[test]
fn papers_names_have_the_looks_of_ours() {
    for (name, known) in [
        ("tcp@1", "tcp"),
        ("default", "min_rtt"),
        ("tcp on the better path", "tcp"),
        ("paper: dmptcp", "dmptcp"),
        ("queue 1", "queue 1"),
    ] {
        assert_eq!(contender(name), known);
    }
}

#[test]
fn bars_are_in_the_order_of_the_curves_and_as_high_as_their_values() {
    let dots = |value: f64| vec![Dot(0.0, value, None), Dot(1.0, 2.0 * value, None)];
    let curves = vec![curve("one", false, dots(1.0)), curve("two", true, dots(2.0))];
    let svg = inline_curves(&figure(Shape::Means, &["a", "b"], curves), "p");
    let bars = svg.split("<title>").skip(1).map(str::to_owned).collect::<Vec<_>>();
    let titles: Vec<&str> = bars.iter().filter_map(|bar| bar.split("</title>").next()).collect();
    assert_eq!(titles, ["one, a: 1", "one, b: 2", "two, a: 2", "two, b: 4"]);
    let of =
        |attribute: &str| -> Vec<f64> { bars.iter().map(|bar| numbers(bar, "rect", attribute)[0]).collect() };
    let (x, height) = (of("x"), of("height"));
    assert!(x[0] < x[2] && x[2] < x[1] && x[1] < x[3], "{x:?}");
    for (at, times) in [(1, 2.0), (2, 2.0), (3, 4.0)] {
        assert!((height[at] / height[0] - times).abs() < 0.01, "{height:?}");
    }
    assert!(bars[2].contains("fill=\"none\"") && bars[2].contains("stroke-dasharray"), "{}", bars[2]);
}

#[test]
fn points_are_where_their_values_are_with_their_numbers() {
    let dots = vec![Dot(0.0, 10.0, Some((5.0, 20.0))), Dot(5.0, 20.0, None), Dot(10.0, 40.0, None)];
    let svg = inline_curves(&figure(Shape::Means, &[], vec![curve("tcp", false, dots)]), "p");
    let (x, y) = (numbers(&svg, "circle", "cx"), numbers(&svg, "circle", "cy"));
    assert!((x[1] - (x[0] + x[2]) / 2.0).abs() < 0.02, "{x:?}");
    // The axis is from 0: twice the value is twice as high.
    assert!(((y[0] - y[1]) * 2.0 - (y[1] - y[2])).abs() < 0.05, "{y:?}");
    assert!(svg.contains("<title>tcp, 0: 10 [5, 20]</title>"));
}

#[test]
fn steps_hold_their_value_and_boxes_have_their_five_values() {
    let dots = vec![Dot(0.0, 10.0, None), Dot(10.0, 20.0, None)];
    let chart_of = |shape, categories: &[&str], dots| {
        chart(&[figure(shape, categories, vec![curve("one", false, dots)])])
    };
    let steps = chart_of(Shape::Steps, &[], dots);
    assert!(matches!(steps.panels[0].marks[..], [Mark::Line { step: true, .. }]));
    let five = [1.0, 2.0, 4.0, 6.0, 8.0].map(|value| Dot(0.0, value, None)).to_vec();
    let boxes = chart_of(Shape::Boxes, &["a"], five);
    let [Mark::Titled { title, marks }] = &boxes.panels[0].marks[..] else { panic!("one box") };
    assert_eq!(title, "one, a: median 4, quartiles 2 and 6, whiskers 1 and 8");
    let quartiles = |mark: &Mark| if let Mark::Rect { y, .. } = mark { Some(*y) } else { None };
    assert_eq!(marks.iter().find_map(quartiles), Some((2.0, 6.0)));
}

#[test]
fn a_page_has_its_own_colours_and_names() {
    let dots = vec![Dot(0.0, 1.0, None), Dot(1.0, 2.0, None)];
    let figure =
        figure(Shape::Means, &[], vec![curve("tcp", false, dots.clone()), curve("\"#000000\"", true, dots)]);
    let svg = inline_curves(&figure, "D1-0-");
    assert!(svg.contains("id=\"D1-0-1\"") && svg.contains("url(#D1-0-1)"));
    assert!(
        !svg.contains("=\"#000000\"") && svg.contains("=\"currentColor\"") && svg.contains("var(--paper)")
    );
    assert!(svg.contains("&quot;#000000&quot;") && !svg.contains("http"));
    assert!(draw_curves(&[figure.clone(), figure], &Page::default()).contains("=\"#000000\""));
}

#[test]
fn long_names_are_on_a_slant_and_numbers_at_their_places() {
    let bars = |names: &[&str]| {
        let dots = (0..names.len()).map(|at| Dot(at as f64, 1.0, None)).collect();
        inline_curves(&figure(Shape::Means, names, vec![curve("one", false, dots)]), "p")
    };
    assert!(!bars(&["a", "b"]).contains("rotate(-20)"));
    let long = bars(&["a condition with a name", "another condition", "the third condition of all", "four"]);
    assert_eq!(long.matches("rotate(-20)").count(), 4);
    let dots = [1.0, 2.5, 64.0].map(|at| Dot(at, 1.0, None)).to_vec();
    let rates = Curves { log_x: true, ..figure(Shape::Means, &[], vec![curve("one", false, dots)]) };
    let ticks: Vec<String> =
        crate::ticks::ticks(&rates.positions(), 9).into_iter().map(|tick| tick.1).collect();
    assert_eq!(ticks, ["1", "2.5", "64"]);
}
