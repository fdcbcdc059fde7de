//! `anabranch report`

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anabranch_lab::whole_file::WholeFile;
use anabranch_recording::report::{Input, Report, ReportError};
use anabranch_recording::view::Details;

use crate::failure::Failure;
use crate::{output, provenance};

/// Writes results as one HTML file with figures, which needs no network
#[derive(clap::Args)]
#[command(long_about = LONG)]
pub(crate) struct Args {
    /// JSON of `anabranch compare --json`, then its --samples file if there is one; JSON of `anabranch explain --json`; directories
    /// of `anabranch sweep` and `anabranch run --record`
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The flow of a recording with which its figures begin, from 1 [default: the slowest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    flow: Option<u32>,
    /// The HTML file
    #[arg(long, short = 'o', value_name = "FILE.html")]
    output: PathBuf,
}

const LONG: &str = "\
Writes results as one HTML file with figures, which needs no network.

An input is the JSON of a comparison or an explanation, the file of a comparison's samples, or the
directory of a sweep or of recorded runs:

    anabranch compare phone --runs 100 --samples phone.csv --json > phone.json
    anabranch run phone --record phone
    anabranch report phone.json phone.csv phone -o phone.html

A samples file belongs to the comparison before it, and adds the distribution over single flows. A
sweep or a recording that is not complete is marked as partial.";

/// The page, with its style and script: `npm run build` in web/report makes it.
const PAGE: &str = include_str!("../../report.html");
/// Where the data go.
const PLACE: &str = "%DATA%";
/// The number of events of data in the page at most, which is about 10 MB.
const MOST_EVENTS: usize = 1_500_000;
/// The number of flows of a recording in detail at most.
const MOST_FLOWS: usize = 16;

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Failure {
        let (ReportError::Order(text) | ReportError::Input(text)) = error;
        Failure::Usage(text)
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(&args.output, &error);
    check_name(&args.output)?;
    let whole = WholeFile::create(&args.output).map_err(failed)?;
    let flow = args.flow.map(|flow| flow as usize - 1);
    let details = Details { flow, most_flows: MOST_FLOWS, most_events: MOST_EVENTS };
    let data = Report {
        commit: provenance::commit(),
        command: provenance::command(),
        ..Report::read(&args.inputs, &details)?
    };
    if flow.is_some() && !data.inputs.iter().any(|input| matches!(input, Input::Recording(_))) {
        return Err(Failure::Usage("--flow is for recordings, and no input is one".to_owned()));
    }
    let mut out = BufWriter::with_capacity(1 << 16, whole.file());
    write(&data, &mut out).and_then(|()| out.flush()).map_err(failed)?;
    drop(out);
    whole.commit().map_err(failed)?;
    output::remark(format_args!("report in {}", args.output.display()));
    Ok(())
}

/// Refuses a name that does not end as a page's name does: it is probably another file, given in the wrong place.
pub(crate) fn check_name(path: &Path) -> Result<(), Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_page = ["html", "htm"].contains(&extension.to_ascii_lowercase().as_str());
    // A device or a pipe has no extension. The name of a directory gets another error.
    if is_page || std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(());
    }
    Err(Failure::Usage(format!("{}: its name must end in .html", path.display())))
}

fn write(data: &Report, out: &mut impl Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once(PLACE).unwrap_or((PAGE, ""));
    out.write_all(before.as_bytes())?;
    serde_json::to_writer(Escaped(&mut *out), data)?;
    out.write_all(after.as_bytes())
}

/// Writes JSON with `<` as an escape: no name within it ends the element or begins a comment.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        for (at, part) in text.split(|byte| *byte == b'<').enumerate() {
            if at > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(part)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_data() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
    }

    #[test]
    fn no_text_ends_the_element_of_the_data() {
        let text = "</script><!-- <b>&\u{2028}\"";
        let mut written = Vec::new();
        serde_json::to_writer(Escaped(&mut written), text).unwrap();
        assert!(!written.contains(&b'<'));
        assert_eq!(serde_json::from_slice::<String>(&written).unwrap(), text);
    }
}
