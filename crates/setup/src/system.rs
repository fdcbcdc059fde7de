//! The system as a setup uses it: programs to run, and files under `/proc`.

use core::fmt;
use std::io::{ErrorKind, Write};
use std::process::Stdio;

/// One action on the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Runs a program.
    Run {
        /// Its name and its arguments.
        argv: Vec<String>,
        /// Its standard input, if any.
        stdin: Option<String>,
    },
    /// Writes a value under `/proc/sys`.
    Sysctl {
        /// The path below `/proc/sys`, such as `net/ipv4/conf/wlan0/forwarding`.
        key: String,
        /// The value to write, as text.
        value: String,
    },
}

impl Action {
    /// Returns the action that runs `line`, a command with its words separated by blanks.
    pub(crate) fn run(line: &str) -> Action {
        Action::Run { argv: line.split_whitespace().map(str::to_owned).collect(), stdin: None }
    }
}

/// Formats the action as one or more shell lines.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Run { argv, stdin } => {
                let words: Vec<String> = argv.iter().map(|word| quote(word)).collect();
                f.write_str(&words.join(" "))?;
                match stdin {
                    Some(text) => write!(f, " <<'EOF'\n{text}EOF"),
                    None => Ok(()),
                }
            }
            Action::Sysctl { key, value } => write!(f, "echo {} > /proc/sys/{key}", quote(value)),
        }
    }
}

/// Quotes `word` for a shell.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs actions and reads the system: the real one, or a test's.
pub trait System {
    /// Runs `action` and returns its output.
    ///
    /// # Errors
    ///
    /// A text with the failed action and the program's message.
    fn act(&mut self, action: &Action) -> Result<String, String>;

    /// Returns the text of a file, trimmed; none if it cannot be read.
    fn read(&mut self, path: &str) -> Option<String>;
}

/// The system of this process, in its network namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealSystem;

impl System for RealSystem {
    fn act(&mut self, action: &Action) -> Result<String, String> {
        match action {
            Action::Sysctl { key, value } => std::fs::write(format!("/proc/sys/{key}"), value)
                .map(|()| String::new())
                .map_err(|error| format!("`{action}`: {error}")),
            Action::Run { argv, stdin } => run(argv, stdin.as_deref()),
        }
    }

    fn read(&mut self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }
}

/// Returns the search path; a user's path often lacks the directories of `ip` and `nft`.
pub(crate) fn search_path() -> String {
    let own = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    format!("{own}:/usr/sbin:/sbin")
}

fn run(argv: &[String], stdin: Option<&str>) -> Result<String, String> {
    let line = || argv.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let [program, args @ ..] = argv else { return Ok(String::new()) };
    let mut command = std::process::Command::new(program);
    command.args(args).env("PATH", search_path()).env("LC_ALL", "C");
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("`{program}` is missing; {}", install(program)),
        _ => format!("`{}`: {error}", line()),
    })?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A program that exits without reading reports the reason itself.
        let _ = pipe.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| format!("`{}`: {error}", line()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("RTNETLINK answers: ");
    Err(format!(
        "`{}`: {}",
        line(),
        if said.is_empty() { output.status.to_string() } else { said.to_owned() }
    ))
}

/// Returns a hint on how to install a missing program.
pub(crate) fn install(program: &str) -> String {
    let package = match program {
        "ip" | "ss" => "iproute2",
        "nft" => "nftables",
        other => other,
    };
    format!("install {package} (Debian, Ubuntu: apt install {package})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_shown_as_a_shell_takes_it() {
        assert_eq!(Action::run("ip link del dev x").to_string(), "ip link del dev x");
        let argv = vec!["echo".to_owned(), "it's".to_owned(), String::new()];
        assert_eq!(Action::Run { argv, stdin: None }.to_string(), r"echo 'it'\''s' ''");
        let sysctl = Action::Sysctl { key: "net/ipv4/ip_forward".into(), value: "1".into() };
        assert_eq!(sysctl.to_string(), "echo 1 > /proc/sys/net/ipv4/ip_forward");
        let nft =
            Action::Run { argv: vec!["nft".into(), "-f".into(), "-".into()], stdin: Some("x\n".into()) };
        assert_eq!(nft.to_string(), "nft -f - <<'EOF'\nx\nEOF");
    }

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let mut system = RealSystem;
        let error = system.act(&Action::run("ls /there/is/no/such/file")).unwrap_err();
        assert!(error.contains("`ls /there/is/no/such/file`") && error.contains("No such file"), "{error}");
        let error = system.act(&Action::run("no-such-program-at-all")).unwrap_err();
        assert!(error.contains("`no-such-program-at-all` is missing"), "{error}");
    }
}
