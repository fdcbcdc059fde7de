//! The user and the program of an application on this host, by its end of the connection.

use std::net::{SocketAddr, TcpListener};

use anabranch_kernel::diag::{Diagnostics, programs};
use anabranch_scenario::policy::proxy::Questions;
use tokio::net::TcpStream;

use crate::convert::Host;
use crate::front::Asked;
use crate::transport::is_of_this_host;

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
    let failed = |error: &dyn std::fmt::Display| {
        format!(
            "`uid` and `program` need the kernel's socket diagnostics of TCP (CONFIG_INET_TCP_DIAG): {error}"
        )
    };
    // A connection of this process, which has to be found.
    let ends = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
        Ok((stream.local_addr()?, stream.peer_addr()?, (listener, stream)))
    });
    let (here, there, _open) = ends.map_err(|error| failed(&error))?;
    let owner = Diagnostics::open().and_then(|mut diagnostics| diagnostics.owner(here, there));
    match owner {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(failed(&"it finds no connection")),
        Err(error) => Err(failed(&error)),
    }
}

/// Returns the process at the other end of `app`, as far as the policy asks for it: an empty one if it is on another host. None if it
/// cannot be found although it is on this host, as when it has closed its socket: a rule that refuses it would not match.
pub(crate) async fn of(app: &TcpStream, asked: &Asked, questions: Questions) -> Option<Process> {
    if questions == Questions::default() {
        return Some(Process::default());
    }
    // The connection was redirected, and the application's socket has the end that it has dialled.
    let there = match &asked.destination.host {
        Host::Address(ip) if asked.is_redirected() => Ok(SocketAddr::new(*ip, asked.destination.port)),
        _ => app.local_addr(),
    };
    let (Ok(here), Ok(there)) = (app.peer_addr(), there) else { return None };
    let owner = Diagnostics::open().and_then(|mut diagnostics| diagnostics.owner(here, there));
    let Some(owner) = owner.ok()? else {
        return (!is_of_this_host(here.ip().to_canonical())).then(Process::default);
    };
    let mut process = Process { uid: Some(owner.uid), programs: Vec::new() };
    if questions.program {
        let found = tokio::task::spawn_blocking(move || programs(owner.inode)).await.unwrap_or_default();
        process.programs = found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    }
    Some(process)
}
