//! The user and the program of an application on this host, by its end of the connection.

use std::net::SocketAddr;

use anabranch_kernel::diag::{Diagnostics, programs};
use anabranch_scenario::policy::proxy::Questions;
use tokio::net::TcpStream;

use crate::convert::Host;
use crate::front::Asked;

/// The process of an application.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Its user id; none on another host, or if the policy does not ask.
    pub uid: Option<u32>,
    /// The programs that have its socket open.
    pub programs: Vec<String>,
}

/// Checks that the questions can be answered: otherwise a rule that refuses a program would match none.
pub(crate) fn check(questions: Questions) -> Result<(), String> {
    if questions == Questions::default() {
        return Ok(());
    }
    let opened = Diagnostics::open().map(drop);
    opened.map_err(|error| format!("`uid` and `program` need the kernel's socket diagnostics: {error}"))
}

/// Returns the process at the other end of `app`.
pub(crate) async fn of(app: &TcpStream, asked: &Asked, questions: Questions) -> Process {
    if questions == Questions::default() {
        return Process::default();
    }
    // The socket of an application whose connection was redirected has the end that it has dialled.
    let there = match &asked.destination.host {
        Host::Address(ip) if asked.is_redirected() => Ok(SocketAddr::new(*ip, asked.destination.port)),
        _ => app.local_addr(),
    };
    let (Ok(here), Ok(there)) = (app.peer_addr(), there) else { return Process::default() };
    let owner = Diagnostics::open().and_then(|mut diagnostics| diagnostics.owner(here, there));
    let Ok(Some(owner)) = owner else { return Process::default() };
    let mut process = Process { uid: Some(owner.uid), programs: Vec::new() };
    if questions.program {
        let found = tokio::task::spawn_blocking(move || programs(owner.inode)).await.unwrap_or_default();
        process.programs = found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    }
    process
}
