//! A network of one's own, without root: for trying things out, with no way out.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;

use nix::sched::{CloneFlags, unshare};

use super::SetupError;
use super::layout::Layout;
use super::options::Options;
use super::plan::Plan;
use super::system::{System, quote};

/// The program of a `--dry-run` that does what [`enter`] does.
const UNSHARE: &str = "unshare --user --map-root-user --net";

/// The steps inside.
///
/// # Errors
///
/// The options are wrong.
pub fn plan(options: &Options) -> Result<Plan, SetupError> {
    Ok(Plan::isolated(Layout::isolated(options)?))
}

/// What [`enter`] and [`run`] do, as lines for a shell.
pub fn describe(plan: &Plan, command: &[String]) -> String {
    let command: Vec<String> = command.iter().map(|word| quote(word)).collect();
    let steps: Vec<String> = plan.steps.iter().map(|step| step.action().to_string()).collect();
    format!("{UNSHARE}\n{}\nexec {}\n", steps.join("\n"), command.join(" "))
}

/// Moves this process, which must have one thread, into a user namespace and a network namespace of its own,
/// where it is root.
///
/// # Errors
///
/// The system does not allow it.
pub fn enter() -> Result<(), SetupError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(|error| {
        SetupError::NotPermitted(format!(
            "this system does not let a user make a namespace ({error}); an administrator can allow it: sysctl \
             user.max_user_namespaces=10000, on Debian kernel.unprivileged_userns_clone=1, on Ubuntu \
             kernel.apparmor_restrict_unprivileged_userns=0"
        ))
    })?;
    // user_namespaces(7): without privileges one may map oneself, once groups can no longer be dropped.
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

/// Makes the device in the namespace that [`enter`] has made. Nothing needs to be undone: it all goes with the
/// last process in there.
///
/// # Errors
///
/// The device cannot be made.
pub fn prepare(plan: &Plan, system: &mut dyn System) -> Result<(), SetupError> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return Err(match error.kind() {
            ErrorKind::PermissionDenied => SetupError::NotPermitted(
                "/dev/net/tun may not be opened by this user; most systems allow it to everyone, as the device \
                 gives no rights by itself: sudo chmod 0666 /dev/net/tun"
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

/// Becomes `command`; returns only if that fails.
pub fn run(command: &[String]) -> SetupError {
    let [program, args @ ..] = command else {
        return SetupError::Usage("give a command behind `--`".to_owned());
    };
    let error = std::process::Command::new(program).args(args).exec();
    SetupError::Failed(format!("cannot run {program}: {error}"))
}
