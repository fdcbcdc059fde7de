//! Captures of the runs number 0 of points: the kernel's, anabranch's and the simulator's side by side.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anabranch_emulate::Tap;
use anabranch_lab::capture::{CaptureFile, Settings, Viewpoint, named};

use crate::measure::Kind;
use crate::points::Point;
use crate::results::Trouble;

/// Where captures go and how they are taken.
#[derive(Clone, Debug)]
pub struct Captures {
    /// The name from which those of the files are made.
    pub path: PathBuf,
    /// At which host, and how much of each packet.
    pub settings: Settings,
    /// Whether the name of the point is part of the names of the files.
    pub several: bool,
}

impl Captures {
    /// The file of run number `run` of `point`; none of any but the first.
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

    /// `out.pcapng` becomes `out.kernel.pcapng`, or of several points `out.POINT.kernel.pcapng`.
    fn name(&self, point: &Point, kind: Kind) -> PathBuf {
        match self.several {
            true => named(&self.path, &[&point.name, kind.name()]),
            false => named(&self.path, &[kind.name()]),
        }
    }

    /// What takes down the packets of a run in real time.
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

/// Where a capture is written to.
///
/// # Errors
/// If the process has no room for another open file.
fn writer(file: &CaptureFile) -> Result<BufWriter<File>, Trouble> {
    Ok(BufWriter::with_capacity(1 << 18, file.writer().map_err(broken)?))
}

/// Gives a capture its name, and tells a person which it is.
///
/// # Errors
/// If it cannot be named.
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
