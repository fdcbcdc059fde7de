//! Keeps the machine's processors from sleeping.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

/// Makes idle processors poll instead of sleeping while it lives (PM QoS: the permitted wake-up latency is 0
/// us). A processor takes some 100 us to leave a deep sleep; a virtual one, which returns to its host when it
/// sleeps, takes milliseconds if the host is busy.
#[derive(Debug)]
pub(super) struct Awake {
    _request: File,
}

impl Awake {
    /// Requests it.
    ///
    /// # Errors
    /// If this is not Linux with PM QoS, or the process is not root.
    pub(super) fn request() -> io::Result<Awake> {
        // The request is in effect until the file is closed.
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
