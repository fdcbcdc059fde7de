//! A private network namespace, without root and without connectivity, for experiments.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;

use nix::sched::{CloneFlags, unshare};

use super::SetupError;
use super::layout::Layout;
use super::options::Options;
use super::plan::Plan;
use super::system::{System, quote};

/// The command in the output of `--dry-run` that corresponds to [`enter`].
const UNSHARE: &str = "unshare --user --map-root-user --net";

/// Returns the plan inside the namespace.
///
/// # Errors
///
/// The options are wrong.
pub fn plan(options: &Options) -> Result<Plan, SetupError> {
    Ok(Plan::isolated(Layout::isolated(options)?))
}

/// Returns the actions of [`enter`] and [`run`] as shell lines.
pub fn describe(plan: &Plan, command: &[String]) -> String {
    let command: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let steps: Vec<String> = plan.steps.iter().map(|step| step.action().to_string()).collect();
    format!("{UNSHARE}\n{}\nexec {}\n", steps.join("\n"), command.join(" "))
}

/// Moves this process, which must have one thread, into its own user and network namespaces, in which it is
/// root.
///
/// # Errors
///
/// The system does not permit it.
pub fn enter() -> Result<(), SetupError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|error| {
        SetupError::NotPermitted(format!(
            "this system does not permit users to make namespaces ({error}); an administrator can permit it: \
             sysctl user.max_user_namespaces=10000, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0"
        ))
    })?;
    // user_namespaces(7): an unprivileged process may map its own ids, once `setgroups` is denied.
    let files = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ];
    for (file, text) in files {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| SetupError::NotPermitted(format!("cannot write /proc/self/{file}: {error}")))?;
    }
    Ok(())
}

/// Makes the device in the namespace of [`enter`]. Nothing needs to be undone: the namespace disappears with
/// its last process.
///
/// # Errors
///
/// The device cannot be made.
pub fn prepare(plan: &Plan, system: &mut dyn System) -> Result<(), SetupError> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return Err(match error.kind() {
            ErrorKind::PermissionDenied => SetupError::NotPermitted(
                "this user has no permission to open /dev/net/tun; most systems permit it to all users, as \
                 it grants no privileges by itself: sudo chmod 0666 /dev/net/tun"
                    .to_owned(),
            ),
            _ => SetupError::Failed(format!("/dev/net/tun: {error}; load the module: sudo modprobe tun")),
        });
    }
    for step in &plan.steps {
        system.act(&step.action()).map_err(SetupError::Failed)?;
    }
    Ok(())
}

/// Replaces this process by `command`; returns only if that fails.
pub fn run(command: &[String]) -> SetupError {
    let [program, args @ ..] = command else {
        return SetupError::Usage("give a command after `--`".to_owned());
    };
    let error = std::process::Command::new(program).args(args).exec();
    SetupError::Failed(format!("cannot run {program}: {error}"))
}
