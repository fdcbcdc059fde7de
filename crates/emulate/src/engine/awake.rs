//! Keeps the machine's processors from sleeping.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// While it lives, a processor without work polls in place of sleeping (PM QoS: a wake-up may take 0 us). From a deep
/// sleep a processor is back after some 100 us; a virtual one, whose sleep gives it back to its host, after
/// milliseconds if the host is busy.
#[derive(Debug)]
pub struct Awake {
    _request: File,
}

impl Awake {
    /// Asks for it.
    ///
    /// # Errors
    /// If this is no Linux with PM QoS, or the process is not root.
    pub fn request() -> io::Result<Awake> {
        // The request counts until the file is closed.
        let mut request = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Awake { _request: request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_takes_the_request_or_says_why_not() {
        match Awake::request() {
            Ok(awake) => drop(awake),
            Err(error) => {
                let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}
