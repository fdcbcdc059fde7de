//! The default congestion control of a namespace.
//!
//! A route with `congctl` is not enough: a subflow that joins later gets the default of the namespace once a program has set
//! any option of its socket (`sync_socket_options` of Linux 6.18, measured with `TCP_NODELAY`).

use std::fs;

use crate::namespace::Namespace;

const DEFAULT: &str = "net/ipv4/tcp_congestion_control";
/// The controls that a namespace may have as default. The file belongs to the first network namespace.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Makes `name` the default of a namespace. Returns a note if the system does not let it.
pub(crate) fn set_default(namespace: &Namespace, name: &str) -> Option<String> {
    let is_set = namespace.set(DEFAULT, name).is_ok() || {
        let _allowed = Allowed::with(name);
        namespace.set(DEFAULT, name).is_ok()
    };
    (!is_set).then(|| {
        format!(
            "subflows that join later have the system's congestion control, and not {name}, if a program sets an option of \
             its socket; `sudo sysctl net.ipv4.tcp_allowed_congestion_control=...` with {name} in its list prevents it"
        )
    })
}

/// Allows a control for as long as it lives.
struct Allowed {
    before: String,
}

impl Allowed {
    fn with(name: &str) -> Option<Allowed> {
        let before = fs::read_to_string(ALLOWED).ok()?;
        if before.split_whitespace().any(|one| one == name) {
            return None;
        }
        fs::write(ALLOWED, format!("{} {name}", before.trim())).ok()?;
        Some(Allowed { before })
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = fs::write(ALLOWED, &self.before);
    }
}
