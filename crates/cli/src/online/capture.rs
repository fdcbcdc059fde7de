//! `--pcap` of the verbs that use real packets.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anabranch_lab::capture::CaptureFile;
use anabranch_net::{Capture, Host};

use crate::failure::Failure;
use crate::online::interrupted;
use crate::output;

/// The options for captures.
#[derive(clap::Args)]
pub(crate) struct CaptureArgs {
    /// Writes the packets of this host to FILE for Wireshark (pcapng)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Keep at most this many bytes of each packet
    #[arg(long, value_name = "BYTES", requires = "pcap", value_parser = crate::args::whole::<u32>(1..=u32::MAX.into()))]
    pcap_snaplen: Option<u32>,
}

impl CaptureArgs {
    /// Creates the file of the capture and its writer, if requested.
    pub(crate) fn open(&self) -> Result<Option<(CaptureFile, Capture)>, Failure> {
        let Some(path) = &self.pcap else { return Ok(None) };
        let file = CaptureFile::create(path)?;
        let capture = Capture::new(Told { out: file.writer()?, path: path.clone() });
        let capture = match self.pcap_snaplen {
            Some(bytes) => capture.snap_len(bytes),
            None => capture,
        };
        Ok(Some((file, capture)))
    }
}

/// A file that reports immediately when it cannot be written, since the transfer continues and may take
/// hours.
struct Told {
    out: File,
    path: PathBuf,
}

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return;
            }
            // A useless capture should not occupy a full disk; pipes and devices cannot be truncated.
            let _ = self.out.set_len(0);
            let path = self.path.display();
            output::warn(format_args!("cannot write the capture {path}: {error}; continuing without it"));
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Ends the capture of `host`, renames its file, and prints the name.
pub(crate) async fn finish(host: &Host, file: CaptureFile) -> Result<(), Failure> {
    let report = tokio::select! {
        report = host.end_capture() => report,
        // A pipe without a reader would block indefinitely.
        () = interrupted() => Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted again")),
    };
    let report = report.map_err(|error| file.failure(error))?;
    let path = file.commit()?;
    output::remark(format_args!("captured {}", path.display()));
    if let Some(left_out) = report.map(|report| report.left_out).filter(|left_out| *left_out > 0) {
        output::warn(format_args!("{left_out} packets are missing in it, because writing was too slow"));
    }
    Ok(())
}
