//! Decisions, with their reasons in words.

use std::fmt;
use std::net::IpAddr;

use anabranch_stack::selection::{self, Explanation};
use anabranch_units::Bytes;

use crate::pm::{Command, Token};

/// A command, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The command that the kernel receives.
    pub command: Command,
    /// The interface of its subflow or address.
    pub interface: String,
    /// The reason.
    pub why: Why,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The path is new to the connection; it is opened as a backup, because it is not needed yet.
    NotNeededYet,
    /// The path is new, and is used at once.
    Needed(String),
    /// The choice of DMPTCP, in the words of `anabranch select`.
    Selected(String),
    /// The policy wants it so.
    Policy,
    /// The interface or its address is gone.
    Gone,
    /// The peer has withdrawn its address.
    Withdrawn,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotNeededYet => f.write_str("a backup until it is needed"),
            Why::Needed(text) | Why::Selected(text) => f.write_str(text),
            Why::Policy => f.write_str("by the policy"),
            Why::Gone => f.write_str("its interface or address is gone"),
            Why::Withdrawn => f.write_str("the peer has withdrawn its address"),
        }
    }
}

impl Decision {
    /// Returns the connection.
    pub fn token(&self) -> Option<Token> {
        match &self.command {
            Command::Announce { token, .. }
            | Command::Remove { token, .. }
            | Command::Create { token, .. }
            | Command::Destroy { token, .. }
            | Command::SetBackup { token, .. } => Some(*token),
            _ => None,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(token) = self.token() {
            write!(f, "{token} ")?;
        }
        let of = |address: &IpAddr| format!("{} ({address})", self.interface);
        match &self.command {
            Command::Create { local, remote, backup: true, .. } => {
                write!(f, "open a backup from {} to {remote}", of(local))?;
            }
            Command::Create { local, remote, .. } => write!(f, "open {} to {remote}", of(local))?,
            Command::Destroy { subflow, .. } => {
                write!(f, "close {} to {}", of(&subflow.local.ip()), subflow.remote)?;
            }
            Command::SetBackup { subflow, backup: true, .. } => {
                write!(f, "make a backup of {} to {}", of(&subflow.local.ip()), subflow.remote)?;
            }
            Command::SetBackup { subflow, .. } => {
                write!(f, "use {} to {}", of(&subflow.local.ip()), subflow.remote)?;
            }
            Command::Announce { address, .. } => write!(f, "announce {}", of(address))?,
            Command::Remove { .. } => write!(f, "withdraw the address of {}", self.interface)?,
            other => write!(f, "{other:?}")?,
        }
        write!(f, ": {}", self.why)
    }
}

/// Formats a size with three digits.
fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["KB", "MB", "GB"] {
        if value >= 999.5 {
            (value, unit) = (value / 1000.0, larger);
        }
    }
    match value {
        v if unit == "B" || v >= 99.95 => format!("{v:.0} {unit}"),
        v if v >= 9.995 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// Describes the choice for the path at `position` of a selection among paths with these names.
pub(super) fn describe(
    explanation: &Explanation,
    position: usize,
    remaining: Bytes,
    names: &[String],
) -> String {
    let candidate = explanation.candidates.iter().find(|candidate| candidate.path == position);
    let Some(candidate) = candidate else {
        let reason = explanation.not_weighed.iter().find(|(path, _)| *path == position);
        return match reason {
            Some((_, selection::Reason::Backup)) => "a backup, and another path is usable".to_owned(),
            Some((_, selection::Reason::Unusable)) => "not usable".to_owned(),
            _ => "not weighed".to_owned(),
        };
    };
    if candidate.contributions.is_empty() {
        return "the fastest path".to_owned();
    }
    if remaining == Bytes::MAX {
        return "the size is unknown, so every path is used".to_owned();
    }
    let name = |path: usize| names.get(path).map_or("", String::as_str);
    let faster: Vec<String> = candidate.contributions.iter().map(|part| name(part.path).to_owned()).collect();
    let relation = if candidate.enough { "enough for" } else { "less than" };
    match (candidate.chosen, candidate.enough) {
        (false, false) => "slower than a path that is not needed".to_owned(),
        _ => format!(
            "within its RTT {} deliver{} {}, {relation} the remaining {}",
            faster.join(" and "),
            if faster.len() == 1 { "s" } else { "" },
            size(candidate.predicted.0),
            size(remaining.0),
        ),
    }
}
