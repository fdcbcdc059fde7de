//! The tables of one run, on disk.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anabranch_lab::whole_file::WholeFile;
use anabranch_table::{Cell, Format, Table, Values};

use crate::batch::{Batch, DecisionRow, EventRow, QueueRow, WindowRow, list};
use crate::names::{AssignName, DecisionName, EventName, LossName, RuleName, Stream};
use crate::schema::{Name, TABLES};

/// A table could not be written.
#[derive(Debug)]
pub(crate) struct TableError {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "cannot write {}: {}", self.path.display(), self.error)
    }
}

struct Open {
    path: PathBuf,
    whole: WholeFile,
    table: Table<BufWriter<File>>,
}

impl Open {
    /// Calls `write`, and keeps its error in `first` unless there is an earlier one.
    fn written(
        &mut self,
        first: &mut Option<TableError>,
        write: impl FnOnce(&mut Table<BufWriter<File>>) -> io::Result<()>,
    ) {
        if let Err(error) = write(&mut self.table)
            && first.is_none()
        {
            *first = Some(TableError { path: self.path.clone(), error });
        }
    }
}

/// The tables of a run. Each has its name only once it is whole.
pub(crate) struct Tables {
    open: Vec<Open>,
    windows: Batch<9, 1, 0>,
    queues: Batch<5, 1, 0>,
    events: Batch<6, 3, 0>,
    decisions: Batch<6, 4, 2>,
    error: Option<TableError>,
}

impl Tables {
    /// Creates the tables in `directory`. `links` are the names of the links.
    pub(crate) fn create<'a>(
        directory: &Path,
        format: Format,
        links: impl Iterator<Item = &'a str>,
    ) -> Result<Tables, TableError> {
        let mut open = Vec::with_capacity(TABLES.len());
        for schema in &TABLES {
            let path = directory.join(format!("{}.{}", schema.name, format.name()));
            let made = WholeFile::create(&path).and_then(|whole| {
                let out = BufWriter::with_capacity(1 << 16, whole.file().try_clone()?);
                Ok((whole, Table::new(out, format, &schema.columns())?))
            });
            match made {
                Ok((whole, table)) => open.push(Open { path, whole, table }),
                Err(error) => return Err(TableError { path, error }),
            }
        }
        let streams = || list(Stream::TEXTS);
        let decisions =
            [streams(), list(DecisionName::TEXTS), list(AssignName::TEXTS), list(RuleName::TEXTS)];
        Ok(Tables {
            open,
            windows: Batch::new([streams()]),
            queues: Batch::new([list(links)]),
            events: Batch::new([streams(), list(EventName::TEXTS), list(LossName::TEXTS)]),
            decisions: Batch::new(decisions),
            error: None,
        })
    }

    /// Adds a row to `flows` or `subflows`.
    pub(crate) fn row(&mut self, table: Name, cells: &[Cell<'_>]) {
        let open = &mut self.open[table as usize];
        open.written(&mut self.error, |table| table.row(cells));
    }

    /// Adds a row to `windows`.
    #[inline]
    pub(crate) fn window(&mut self, row: &WindowRow) {
        if self.windows.push(row) {
            self.write(Name::Windows);
        }
    }

    /// Adds a row to `queues`.
    #[inline]
    pub(crate) fn queue(&mut self, row: &QueueRow) {
        if self.queues.push(row) {
            self.write(Name::Queues);
        }
    }

    /// Adds a row to `events`.
    #[inline]
    pub(crate) fn event(&mut self, row: &EventRow) {
        if self.events.push(row) {
            self.write(Name::Events);
        }
    }

    /// Adds a row to `decisions`.
    #[inline]
    pub(crate) fn decision(&mut self, row: &DecisionRow) {
        if self.decisions.push(row) {
            self.write(Name::Decisions);
        }
    }

    /// Writes the rows of a table that are in its batch.
    #[cold]
    fn write(&mut self, name: Name) {
        let Tables { open, error, .. } = self;
        let write = |columns: &[Values<'_>]| {
            open[name as usize].written(error, |table| table.rows(columns));
        };
        match name {
            Name::Flows | Name::Subflows => {}
            Name::Windows => self.windows.write(name, write),
            Name::Queues => self.queues.write(name, write),
            Name::Events => self.events.write(name, write),
            Name::Decisions => self.decisions.write(name, write),
        }
    }

    /// True if a row could not be written.
    pub(crate) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// Ends all tables, and gives them their names.
    pub(crate) fn finish(mut self) -> Result<(), TableError> {
        for name in [Name::Windows, Name::Queues, Name::Events, Name::Decisions] {
            self.write(name);
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        // All are whole before the first has its name.
        let mut wholes = Vec::with_capacity(self.open.len());
        for Open { path, whole, table } in self.open {
            match table.finish() {
                Ok(_) => wholes.push((path, whole)),
                Err(error) => return Err(TableError { path, error }),
            }
        }
        for (path, whole) in wholes {
            whole.commit().map_err(|error| TableError { path, error })?;
        }
        Ok(())
    }
}
