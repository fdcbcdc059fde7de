//! The unsafe code: real-time priority, and the actions of a child between fork and exec.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Gives this thread the real-time policy SCHED_FIFO with `priority` (1 to 99).
///
/// # Errors
/// If the process lacks the privilege, or the priority is out of range.
pub fn set_realtime(priority: i32) -> io::Result<()> {
    // SAFETY: `sched_param` is a plain structure of integers, for which all zeroes are valid.
    let mut parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the call reads the structure, which lives on this stack; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Kills the child of `command` when the thread that starts it ends, and therefore with this process.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the line above.
        let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
        if now == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing: an error made
    // from a kind or a number does not allocate.
    unsafe { command.pre_exec(prepare) };
}
