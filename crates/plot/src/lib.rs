//! Figures of results for papers, as SVG, PNG and PDF.
//!
//! A figure is one of [`FIGURES`], made from an [`Input`] of a report by [`draw`]: it shows the numbers that the page of the
//! report shows. SVG is written here; PNG and PDF need the feature `raster`.
//!
//! ```no_run
//! use anabranch_plot::{Page, Selection, draw};
//! use anabranch_recording::{report::Input, view::Details};
//!
//! // The output of `anabranch compare --json`.
//! let details = Details { flow: None, most_flows: 1, most_events: 100_000 };
//! let input = Input::read("comparison.json".as_ref(), &details)?;
//! std::fs::write("difference.svg", draw(&input, "difference", &Selection::default(), &Page::default())?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod chart;
mod curves;
mod figures;
pub mod palette;
#[cfg(feature = "raster")]
mod raster;
mod style;
mod svg;
mod ticks;

use std::fmt;

use anabranch_recording::report::Input;
use anabranch_units::Duration;

pub use curves::{Curve, Curves, Dot, Shape};
pub use figures::{FIGURES, FigureInfo, Kind};
#[cfg(feature = "raster")]
pub use raster::{RasterError, pdf, png};
pub use svg::{COLUMN, PAGE, Page};

/// The part of the results that a figure shows; by default all of it.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The contenders, in their order.
    pub schedulers: Vec<String>,
    /// The name of the condition; none for all conditions.
    pub condition: Option<String>,
    /// The name of the class of traffic; none for all classes.
    pub traffic: Option<String>,
    /// The times of a run between which a figure over time is drawn.
    pub from: Option<Duration>,
    /// The end of that range.
    pub to: Option<Duration>,
    /// The key of a sweep on the horizontal axis.
    pub x: Option<String>,
    /// The key of a sweep on the vertical axis.
    pub y: Option<String>,
}

/// A figure cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotError(String);

impl PlotError {
    pub(crate) fn new(text: impl Into<String>) -> PlotError {
        PlotError(text.into())
    }
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlotError {}

/// Returns the figure called `name` of a result, as SVG.
///
/// # Errors
/// If there is no such figure of this kind of result, or nothing to show in it.
pub fn draw(input: &Input, name: &str, selection: &Selection, page: &Page) -> Result<String, PlotError> {
    Ok(svg::draw(&figures::chart(input, name, selection)?, page))
}

/// Returns a figure of curves as SVG, with a panel for each of `panels`.
pub fn draw_curves(panels: &[Curves], page: &Page) -> String {
    svg::draw(&curves::chart(panels), page)
}

/// Returns a figure of curves as an element of an HTML page with the colours `--paper`, `--line` and `--dim`. The names within
/// it begin with `prefix`.
pub fn inline_curves(figure: &Curves, prefix: &str) -> String {
    let page = Page { width: 440.0, panel_height: Some(206.0), font_size: 11.0, ..Page::default() };
    svg::inline(&curves::chart(core::slice::from_ref(figure)), &page, prefix)
}
