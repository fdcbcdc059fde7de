//! Captures of run 0 of points: the kernel's, anabranch's and the simulator's side by side.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anabranch_emulate::Tap;
use anabranch_lab::capture::{CaptureFile, Settings, Viewpoint, named};

use crate::measure::Kind;
use crate::points::Point;
use crate::results::Trouble;

/// The destination and the settings of captures.
#[derive(Clone, Debug)]
pub struct Captures {
    /// The path from which the names of the files are derived.
    pub path: PathBuf,
    /// The capturing host, and the number of bytes of each packet.
    pub settings: Settings,
    /// True if the name of the point is part of the names of the files.
    pub several: bool,
}

impl Captures {
    /// Returns the file of run number `run` of `point`; none except for the first run.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(&self, point: &Point, kind: Kind, run: u32) -> Result<Option<CaptureFile>, Trouble> {
        if run != 0 {
            return Ok(None);
        }
        let file = CaptureFile::create(&self.name(point, kind)).map_err(broken)?;
        Ok(Some(file))
    }

    /// Returns the name: `out.pcapng` becomes `out.kernel.pcapng`, or of several points
    /// `out.POINT.kernel.pcapng`.
    fn name(&self, point: &Point, kind: Kind) -> PathBuf {
        match self.several {
            true => named(&self.path, &[&point.name, kind.name()]),
            false => named(&self.path, &[kind.name()]),
        }
    }

    /// Returns the tap that captures the packets of a run in real time.
    ///
    /// # Errors
    /// If the system has no file or thread for it.
    pub fn tap(&self, point: &Point, file: &CaptureFile) -> Result<Tap, Trouble> {
        let paths = point.experiment().paths();
        let at_client = (self.settings.viewpoint == Viewpoint::Sender) != point.is_download();
        let names: Vec<String> = paths.iter().map(|path| path.name.clone()).collect();
        let first = if at_client { 0 } else { paths.len() };
        let out = writer(file)?;
        Tap::new(out, first, &names, self.settings.snap_len).map_err(|error| broken(file.failure(error)))
    }
}

/// Returns the writer of a capture.
///
/// # Errors
/// If the process cannot open another file.
fn writer(file: &CaptureFile) -> Result<BufWriter<File>, Trouble> {
    Ok(BufWriter::with_capacity(1 << 18, file.writer().map_err(broken)?))
}

/// Renames a complete capture, and prints its name.
///
/// # Errors
/// If it cannot be renamed.
pub fn commit(file: CaptureFile) -> Result<(), Trouble> {
    let path = file.commit().map_err(broken)?;
    eprintln!("captured {}", path.display());
    Ok(())
}

fn broken(error: impl core::fmt::Display) -> Trouble {
    Trouble::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_the_point_and_the_kind() {
        let point = crate::grid::grid(crate::grid::Which::Chosen).unwrap().remove(0);
        let captures =
            Captures { path: "a/out.pcapng".into(), settings: Settings::default(), several: false };
        assert_eq!(captures.name(&point, Kind::Kernel), PathBuf::from("a/out.kernel.pcapng"));
        let captures = Captures { several: true, ..captures };
        assert_eq!(
            captures.name(&point, Kind::Emulated),
            PathBuf::from("a/out.reno_5M_10ms_4_16KB.emulated.pcapng")
        );
        assert!(captures.open(&point, Kind::Kernel, 1).unwrap().is_none());
    }
}
