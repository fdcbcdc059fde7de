//! SVG as PNG and PDF, with the fonts of the machine.

use std::fmt;
use std::sync::Arc;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};

/// A figure cannot be turned into PNG or PDF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RasterError(String);

impl fmt::Display for RasterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RasterError {}

fn failed(error: impl fmt::Display) -> RasterError {
    RasterError(error.to_string())
}

/// Returns the drawing in `svg` with its text in one of the fonts of `families`.
fn tree(svg: &str, families: &str) -> Result<Tree, RasterError> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let names: Vec<&str> = families.split(',').map(|name| name.trim().trim_matches(['\'', '"'])).collect();
    let is_there = |name: &&str| {
        let query = Query { families: &[Family::Name(name)], ..Query::default() };
        fonts.query(&query).is_some()
    };
    let any = fonts.faces().find_map(|face| face.families.first()).map(|(name, _)| name.clone());
    let family = names.iter().copied().find(is_there).map(str::to_owned).or(any).ok_or_else(|| {
        RasterError(
            "this machine has no fonts; install some (Debian: apt install fonts-dejavu-core), or write SVG"
                .to_owned(),
        )
    })?;
    fonts.set_sans_serif_family(&family);
    fonts.set_serif_family(&family);
    let options = Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
    Tree::from_str(svg, &options).map_err(failed)
}

/// Returns a drawing as PNG with `dpi` pixels per inch.
///
/// # Errors
/// If this machine has no fonts, or the picture is too large.
pub fn png(svg: &str, families: &str, dpi: f32) -> Result<Vec<u8>, RasterError> {
    let tree = tree(svg, families)?;
    // A drawing has 96 units per inch.
    let scale = dpi / 96.0;
    let (width, height) = (tree.size().width() * scale, tree.size().height() * scale);
    let mut pixels = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
        .ok_or_else(|| RasterError(format!("a picture of {width:.0} x {height:.0} pixels is too large")))?;
    // The drawing ends within the last row and column of pixels.
    pixels.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(failed)
}

/// Returns a drawing as PDF. The page has the size of the drawing.
///
/// # Errors
/// If this machine has no fonts.
pub fn pdf(svg: &str, families: &str) -> Result<Vec<u8>, RasterError> {
    let tree = tree(svg, families)?;
    // 96 units per inch are 72 points.
    let page = svg2pdf::PageOptions { dpi: 96.0 };
    svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page).map_err(failed)
}
