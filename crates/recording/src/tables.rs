//! The tables of one run, on disk.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anabranch_lab::whole_file::WholeFile;
use anabranch_table::{Cell, Format, Table};

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

/// The tables of a run. Each has its name only once it is whole.
pub(crate) struct Tables {
    open: Vec<Open>,
    error: Option<TableError>,
}

impl Tables {
    /// Creates the tables in `directory`.
    pub(crate) fn create(directory: &Path, format: Format) -> Result<Tables, TableError> {
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
        Ok(Tables { open, error: None })
    }

    /// Adds a row to a table, unless an earlier one has failed.
    pub(crate) fn row(&mut self, table: Name, cells: &[Cell<'_>]) {
        let open = &mut self.open[table as usize];
        if let Err(error) = open.table.row(cells)
            && self.error.is_none()
        {
            self.error = Some(TableError { path: open.path.clone(), error });
        }
    }

    /// True if a row could not be written.
    pub(crate) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// Ends all tables, and gives them their names.
    pub(crate) fn finish(self) -> Result<(), TableError> {
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
