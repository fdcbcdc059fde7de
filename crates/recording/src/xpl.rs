//! Time-sequence graphs for xplot, in the form of tcptrace: one file for each direction of a connection.
//!
//! The graph is of the data level. A segment is a vertical line with arrows at its ends, in the colour of its
//! subflow; a retransmission is red with an R, a reinjection has an I above it, and a probe a P. The lower
//! staircase is the DATA_ACK, the upper one the right edge of the peer's window.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anabranch_lab::whole_file::WholeFile;
use anabranch_sim::FlowId;
use anabranch_stack::event::SubflowId;
use anabranch_stack::seq::DataRange;
use anabranch_units::Time;

use crate::names::{EventName, Stream};
use crate::tables::TableError;

/// The colours of xplot for the subflows; green, yellow and red have other meanings.
const COLOURS: [&str; 6] = ["white", "blue", "orange", "magenta", "pink", "purple"];

/// The number of files that a run may have, since all are open at the same time.
const MOST_FILES: usize = 512;

/// The files of one run.
pub(crate) struct Xpl {
    directory: PathBuf,
    files: BTreeMap<(FlowId, Stream), Graph>,
    error: Option<TableError>,
}

struct Graph {
    path: PathBuf,
    whole: WholeFile,
    out: BufWriter<File>,
    /// The last acknowledgement: its time, the DATA_ACK, and the edge of the window.
    last: Option<(Time, u64, u64)>,
}

/// Writes a time in seconds, to the nanosecond.
fn seconds(time: Time) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}

impl Xpl {
    pub(crate) fn new(directory: &Path) -> Xpl {
        Xpl { directory: directory.to_owned(), files: BTreeMap::new(), error: None }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// Adds a segment.
    pub(crate) fn sent(
        &mut self,
        stream: (FlowId, Stream),
        now: Time,
        subflow: SubflowId,
        event: EventName,
        range: DataRange,
    ) {
        let (letter, colour) = match event {
            EventName::Retransmitted => (Some("R"), "red"),
            EventName::Reinjected => (Some("I"), COLOURS[subflow.index() % COLOURS.len()]),
            EventName::Probe => (Some("P"), COLOURS[subflow.index() % COLOURS.len()]),
            _ => (None, COLOURS[subflow.index() % COLOURS.len()]),
        };
        let (t, from, to) = (seconds(now), range.start, range.end);
        self.write(stream, |graph| {
            let out = &mut graph.out;
            writeln!(out, "{colour}\ndarrow {t} {from}\nuarrow {t} {to}\nline {t} {from} {t} {to}")?;
            match letter {
                Some(letter) => writeln!(out, "atext {t} {to}\n{letter}"),
                None => Ok(()),
            }
        });
    }

    /// Adds an acknowledgement up to `una`, with the right edge of the window.
    pub(crate) fn acked(&mut self, stream: (FlowId, Stream), now: Time, una: u64, edge: u64) {
        let t = seconds(now);
        self.write(stream, |graph| {
            let last = graph.last.replace((now, una, edge));
            let Some((before, old_una, old_edge)) = last else { return Ok(()) };
            let before = seconds(before);
            for (colour, old, new) in [("green", old_una, una), ("yellow", old_edge, edge)] {
                writeln!(graph.out, "{colour}\nline {before} {old} {t} {old}")?;
                if new != old {
                    writeln!(graph.out, "line {t} {old} {t} {new}")?;
                }
            }
            Ok(())
        });
    }

    fn write(&mut self, (flow, stream): (FlowId, Stream), act: impl FnOnce(&mut Graph) -> io::Result<()>) {
        if self.error.is_some() {
            return;
        }
        let path = self.directory.join(format!("flow-{}.{}.xpl", flow.0 + 1, stream.text()));
        let graph = match self.graph((flow, stream), &path) {
            Ok(graph) => graph,
            Err(error) => return self.error = Some(TableError { path, error }),
        };
        if let Err(error) = act(graph) {
            self.error = Some(TableError { path, error });
        }
    }

    fn graph(&mut self, key: (FlowId, Stream), path: &Path) -> io::Result<&mut Graph> {
        if !self.files.contains_key(&key) {
            if self.files.len() == MOST_FILES {
                let text = format!("there are more than {MOST_FILES} streams; record fewer flows with --xpl");
                return Err(io::Error::other(text));
            }
            let whole = WholeFile::create(path)?;
            let mut out = BufWriter::with_capacity(1 << 14, whole.file().try_clone()?);
            let (flow, stream) = key;
            let name = match stream {
                Stream::Up => "client_==>_server",
                Stream::Down => "server_==>_client",
            };
            writeln!(out, "timeval unsigned\ntitle\nflow {}: {name} (time sequence graph)", flow.0 + 1)?;
            writeln!(out, "xlabel\ntime\nylabel\ndata sequence offset")?;
            self.files.insert(key, Graph { path: path.to_owned(), whole, out, last: None });
        }
        self.files.get_mut(&key).ok_or_else(|| io::Error::other("it was just added"))
    }

    /// Ends all files, and gives them their names.
    pub(crate) fn finish(self) -> Result<(), TableError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for Graph { path, whole, mut out, .. } in self.files.into_values() {
            let written = writeln!(out, "go").and_then(|()| out.flush()).and_then(|()| whole.commit());
            written.map_err(|error| TableError { path, error })?;
        }
        Ok(())
    }
}
