//! `anabranch plot`

use std::path::{Path, PathBuf};

use anabranch_lab::whole_file;
use anabranch_plot::{COLUMN, Curves, FIGURES, Kind, PAGE, Page, Selection};
use anabranch_recording::report::{Input, Report};
use anabranch_recording::view::Details;
use anabranch_units::Duration;

use crate::failure::Failure;
use crate::output;
use crate::table::wrap_behind;
use crate::terminal;

/// Writes one figure of a result as SVG, PNG or PDF, for a paper
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// A directory of `anabranch run --record` or `anabranch sweep`, or JSON of `anabranch compare --json` (then its --samples
    /// file if there is one) or `anabranch explain --json`
    #[arg(required_unless_present_any = ["list", "curves"], num_args = 1..=2, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The figure; `--list` shows all
    #[arg(long, required_unless_present_any = ["list", "curves"], value_name = "NAME")]
    figure: Option<String>,
    /// The file; its extension is the format
    #[arg(long, short = 'o', required_unless_present = "list", value_name = "FILE.svg|png|pdf")]
    output: Option<PathBuf>,
    /// Lists the figures, of INPUT if there is one
    #[arg(long)]
    list: bool,
    /// Draws the panels of curves in FILE, which are your own numbers as JSON, in place of a result
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_RESULTS)]
    curves: Option<PathBuf>,
    /// The width: `column` (3.5 inches), `page` (7.16 inches), or a length such as 120mm
    #[arg(long, default_value = "column", value_parser = width, value_name = "WIDTH")]
    width: f64,
    /// The height of a panel, such as 40mm [default: by the figure]
    #[arg(long, value_parser = length, value_name = "LENGTH")]
    panel_height: Option<f64>,
    /// The font families, in the order of preference
    #[arg(long, value_name = "FONT,...")]
    font: Option<String>,
    /// The size of the text in points
    #[arg(long, default_value_t = 8.0, value_parser = font_size, value_name = "POINTS")]
    font_size: f64,
    /// The pixels per inch of PNG
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(36..=2400), value_name = "PIXELS")]
    dpi: u16,
    /// The contenders, in their order
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    schedulers: Vec<String>,
    /// The condition [default: a panel for each]
    #[arg(long, value_name = "NAME")]
    condition: Option<String>,
    /// The class of traffic of a comparison or a sweep [default: a panel for each]
    #[arg(long, value_name = "NAME")]
    traffic: Option<String>,
    /// The flow of a recording, from 1 [default: the slowest]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    flow: Option<u32>,
    /// The begin of the time axis of a recording, such as 1.5s
    #[arg(long, value_parser = time, value_name = "TIME")]
    from: Option<Duration>,
    /// The end of the time axis of a recording
    #[arg(long, value_parser = time, value_name = "TIME")]
    to: Option<Duration>,
    /// The key of a sweep on the horizontal axis [default: the first]
    #[arg(long, value_name = "KEY")]
    x: Option<String>,
    /// The key of a sweep on the vertical axis [default: the second]
    #[arg(long, value_name = "KEY")]
    y: Option<String>,
}

/// The options that only figures of results have.
const OF_RESULTS: [&str; 11] =
    ["inputs", "figure", "list", "schedulers", "condition", "traffic", "flow", "from", "to", "x", "y"];

const LONG: &str = "\
Writes one figure of a result as SVG, PNG or PDF, for a paper.

    anabranch run phone --record phone
    anabranch plot phone --figure sequence -o sequence.svg
    anabranch plot phone --figure cwnd --from 0s --to 500ms --width page -o cwnd.pdf

Figures have the colours, symbols and dashes of `anabranch report`. `--list` shows their names.";

/// A figure has about that many details at most: more cannot be told apart on paper.
const MOST_EVENTS: usize = 1_000_000;

/// The format of a figure.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Svg,
    Png,
    Pdf,
}

impl Format {
    fn of(path: &Path) -> Result<Format, Failure> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "svg" => Ok(Format::Svg),
            "png" => Ok(Format::Png),
            "pdf" => Ok(Format::Pdf),
            _ => Err(Failure::Usage(format!("{}: its name must end in .svg, .png or .pdf", path.display()))),
        }
    }
}

/// Reads a length as points.
fn length(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] = [("mm", 72.0 / 25.4), ("cm", 72.0 / 2.54), ("in", 72.0), ("pt", 1.0)];
    let parsed = UNITS.iter().find_map(|(unit, points)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * points)
    });
    match parsed {
        Some(points) if (28.0..=3000.0).contains(&points) => Ok(points),
        Some(_) => Err("a length is between 10mm and 1000mm".to_owned()),
        None => Err("give a number with mm, cm, in or pt, such as 120mm".to_owned()),
    }
}

fn width(text: &str) -> Result<f64, String> {
    match text {
        "column" => Ok(COLUMN),
        "page" => Ok(PAGE),
        text => match length(text) {
            Ok(points) if points < 110.0 => Err("a figure is at least 40mm wide".to_owned()),
            Err(error) => Err(format!("{error}; or `column` or `page`")),
            points => points,
        },
    }
}

fn font_size(text: &str) -> Result<f64, String> {
    let points = text.parse().ok().filter(|points| (4.0..=40.0).contains(points));
    points.ok_or_else(|| "give a number of points from 4 to 40".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    anabranch_lab::scenario::units::parse_span(text).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.list && args.inputs.is_empty() {
        return list(None);
    }
    if let Some(file) = &args.curves {
        return curves(args, file);
    }
    let path = args.output.as_deref();
    let format = path.map(Format::of).transpose()?;
    let flow = args.flow.map(|flow| flow as usize - 1);
    let details = Details { flow, most_flows: 1, most_events: MOST_EVENTS };
    let mut inputs = Report::read(&args.inputs, &details)?.inputs;
    let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
        return Err(Failure::Usage(
            "a figure is made from one result; give one INPUT, or one with its samples".to_owned(),
        ));
    };
    if args.list {
        return list(Some(&input));
    }
    check(args, &input)?;
    let (Some(path), Some(format), Some(name)) = (path, format, &args.figure) else { return Ok(()) };
    let selection = Selection {
        schedulers: args.schedulers.clone(),
        condition: args.condition.clone(),
        traffic: args.traffic.clone(),
        from: args.from,
        to: args.to,
        x: args.x.clone(),
        y: args.y.clone(),
    };
    let page = page(args);
    let svg = anabranch_plot::draw(&input, name, &selection, &page)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    write(args, path, format, svg, &page)
}

fn page(args: &Args) -> Page {
    let font = args.font.clone().unwrap_or_else(|| Page::default().font);
    Page { width: args.width, panel_height: args.panel_height, font, font_size: args.font_size }
}

fn write(args: &Args, path: &Path, format: Format, svg: String, page: &Page) -> Result<(), Failure> {
    let bytes = match format {
        Format::Svg => svg.into_bytes(),
        other => converted(&svg, &page.font, other, args.dpi)?,
    };
    whole_file::write(path, bytes).map_err(|error| Failure::unwritable(path, &error))?;
    output::remark(format_args!("figure in {}", path.display()));
    Ok(())
}

/// Draws the curves in `file`.
fn curves(args: &Args, file: &Path) -> Result<(), Failure> {
    let Some(path) = args.output.as_deref() else { return Ok(()) };
    let format = Format::of(path)?;
    let failed = |why: String| Failure::Usage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| failed(format!("cannot read it: {error}")))?;
    let panels: Vec<Curves> = serde_json::from_str(&text)
        .map_err(|error| failed(format!("it is no list of panels of curves: {error}")))?;
    if panels.iter().all(|panel| panel.curves.iter().all(|curve| curve.dots.is_empty())) {
        return Err(failed("it has no points".to_owned()));
    }
    let page = page(args);
    write(args, path, format, anabranch_plot::draw_curves(&panels, &page), &page)
}

/// Refuses options that another kind of result has.
fn check(args: &Args, input: &Input) -> Result<(), Failure> {
    let kind = Kind::of(input);
    let given = [
        ("--flow", args.flow.is_some(), Kind::Recording),
        ("--from", args.from.is_some(), Kind::Recording),
        ("--to", args.to.is_some(), Kind::Recording),
        ("--x", args.x.is_some(), Kind::Sweep),
        ("--y", args.y.is_some(), Kind::Sweep),
    ];
    if let Some((option, _, of)) = given.into_iter().find(|(_, given, of)| *given && *of != kind) {
        return Err(Failure::Usage(format!(
            "{option} is for figures of {}, and this is {}",
            of.words(),
            kind.words()
        )));
    }
    if args.traffic.is_some() && !matches!(kind, Kind::Comparison | Kind::Sweep) {
        return Err(Failure::Usage(format!(
            "--traffic is for figures of a comparison or a sweep, and this is {}",
            kind.words()
        )));
    }
    Ok(())
}

#[cfg(feature = "plot-raster")]
fn converted(svg: &str, font: &str, format: Format, dpi: u16) -> Result<Vec<u8>, Failure> {
    let converted = match format {
        Format::Pdf => anabranch_plot::pdf(svg, font),
        _ => anabranch_plot::png(svg, font, f32::from(dpi)),
    };
    converted.map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(not(feature = "plot-raster"))]
fn converted(_: &str, _: &str, format: Format, _: u16) -> Result<Vec<u8>, Failure> {
    let name = if format == Format::Pdf { "PDF" } else { "PNG" };
    Err(Failure::Failed(format!(
        "{name} is not in this build, which lacks the feature `plot-raster` (cargo install --locked --path crates/cli); write SVG"
    )))
}

/// Prints the figures, of one result or of all kinds.
fn list(input: Option<&Input>) -> Result<(), Failure> {
    let kinds = [
        (Kind::Recording, "DIR of anabranch run --record"),
        (Kind::Comparison, "JSON of anabranch compare --json"),
        (Kind::Explanation, "JSON of anabranch explain --json"),
        (Kind::Sweep, "DIR of anabranch sweep"),
    ];
    let mut text = String::new();
    for (kind, from) in
        kinds.into_iter().filter(|(kind, _)| input.is_none_or(|input| Kind::of(input) == *kind))
    {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{from}\n"));
        for figure in FIGURES.iter().filter(|figure| figure.kind == kind) {
            text.push_str(&wrap_behind(
                &format!("  {:<11} ", figure.name),
                figure.about,
                terminal::text_width(),
            ));
        }
    }
    output::print(&text)
}
