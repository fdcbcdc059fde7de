//! Several captures in the order of their times.

use super::{Frame, Reader};
use crate::error::CaptureFault;

/// Captures that are read together.
pub struct Merged {
    readers: Vec<Reader>,
    /// The file of the packet that [`Merged::frame`] returns.
    current: Option<usize>,
    begun: bool,
}

impl Merged {
    /// Returns the packets of `readers` in the order of time. Packets of one file keep their order.
    pub fn new(readers: Vec<Reader>) -> Merged {
        Merged { readers, current: None, begun: false }
    }

    /// Reads the next packet; false at the end of all files.
    ///
    /// # Errors
    /// If a file is damaged.
    pub fn advance(&mut self) -> Result<bool, CaptureFault> {
        if !self.begun {
            self.begun = true;
            for reader in &mut self.readers {
                reader.advance()?;
            }
        } else if let Some(reader) = self.current.and_then(|at| self.readers.get_mut(at)) {
            reader.advance()?;
        }
        let times = self.readers.iter().enumerate();
        let times = times.filter_map(|(at, reader)| Some((reader.frame()?.time, at)));
        self.current = times.min().map(|(_, at)| at);
        Ok(self.current.is_some())
    }

    /// Returns the file and the packet that was read last.
    pub fn frame(&self) -> Option<(usize, Frame<'_>)> {
        let at = self.current?;
        Some((at, self.readers.get(at)?.frame()?))
    }

    /// Returns the files.
    pub fn readers(&self) -> &[Reader] {
        &self.readers
    }
}
