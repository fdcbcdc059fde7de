//! Bytes of one file with their place.

use std::io::{BufReader, Cursor, ErrorKind, Read};

use crate::error::CaptureFault;

/// A buffered input that knows how far it was read.
pub(super) struct Source {
    name: String,
    input: BufReader<Box<dyn Read + Send>>,
    at: u64,
    magic: [u8; 4],
    /// True if the file ended within a packet.
    cut: bool,
}

impl Source {
    pub(super) fn new(name: &str, input: Box<dyn Read + Send>) -> Source {
        let input = BufReader::with_capacity(1 << 16, input);
        Source { name: name.to_owned(), input, at: 0, magic: [0; 4], cut: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The number of bytes that were read, decompressed.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads the first four bytes.
    pub(super) fn magic(&mut self) -> Result<[u8; 4], CaptureFault> {
        let mut magic = [0; 4];
        let read = self.read(&mut magic)?;
        if read < 4 {
            let text = if read == 0 { "is empty" } else { "has fewer bytes than the header of a capture" };
            return Err(self.fault(text, "capture again; `tcpdump -U` writes each packet at once"));
        }
        self.magic = magic;
        Ok(magic)
    }

    /// Returns the whole input, from the bytes of [`Source::magic`] on.
    pub(super) fn into_inner(self) -> Box<dyn Read + Send> {
        Box::new(Cursor::new(self.magic).chain(self.input))
    }

    /// Fills `buffer` as far as the file goes.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CaptureFault> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A gzip file that is cut off.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => {
                    let text = format!("cannot be read at byte {}: {error}", self.at + filled as u64);
                    return Err(self.fault(text, "check the file, for example with `gzip -t`"));
                }
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }

    /// Fills `buffer`; false if the file has ended, and an error if it ends within these bytes.
    pub(super) fn read_or_end(&mut self, buffer: &mut [u8]) -> Result<bool, CaptureFault> {
        match self.read(buffer)? {
            0 => Ok(false),
            read if read == buffer.len() => Ok(true),
            _ => Err(self.ended()),
        }
    }

    /// Fills `buffer`.
    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), CaptureFault> {
        if self.read(buffer)? < buffer.len() {
            return Err(self.ended());
        }
        Ok(())
    }

    /// Puts `len` bytes into `buffer`, which grows as the file delivers and not as it states.
    pub(super) fn read_into(&mut self, buffer: &mut Vec<u8>, len: usize) -> Result<(), CaptureFault> {
        const STEP: usize = 1 << 18;
        let mut have = 0;
        while have < len {
            let step = (len - have).min(STEP);
            if buffer.len() < have + step {
                buffer.resize(have + step, 0);
            }
            self.read_exact(&mut buffer[have..have + step])?;
            have += step;
        }
        Ok(())
    }

    /// Skips `len` bytes.
    pub(super) fn skip(&mut self, mut len: u64) -> Result<(), CaptureFault> {
        let mut scratch = [0; 1024];
        while len > 0 {
            let step = len.min(scratch.len() as u64) as usize;
            self.read_exact(&mut scratch[..step])?;
            len -= step as u64;
        }
        Ok(())
    }

    fn ended(&mut self) -> CaptureFault {
        self.cut = true;
        let text = format!("ends at byte {} within its header", self.at);
        self.fault(text, "capture again; `tcpdump -U` writes each packet at once")
    }

    /// Returns a remark if the last fault was that the file ends within packet `number`.
    pub(super) fn take_cut(&mut self, number: u64) -> Option<String> {
        let name = if self.name == "-" { "standard input" } else { &self.name };
        core::mem::take(&mut self.cut).then(|| {
            format!("{name} ends at byte {} within packet {number}; the packets before it were read", self.at)
        })
    }

    pub(super) fn fault(&self, text: impl Into<String>, help: impl Into<String>) -> CaptureFault {
        CaptureFault::new(&self.name, text, help)
    }

    /// Returns the fault of a damaged file.
    pub(super) fn damaged(&self, text: String) -> CaptureFault {
        self.fault(text, "the file is damaged: copy it again in binary, or repair it with `editcap FILE NEW`")
    }
}
