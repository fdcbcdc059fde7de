//! `anabranch generate`

use std::path::{Path, PathBuf};

use anabranch_lab::whole_file;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::{help, output};

/// Writes shell completions and man pages
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Prints the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Writes a man page for the command and for each verb into a directory
    Man {
        /// The directory, which is made if it does not exist
        directory: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut help::command(), "anabranch", &mut text);
            output::print(&String::from_utf8_lossy(&text))
        }
        What::Man { directory } => {
            std::fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
            // The names of the verbs in the pages are those that a person writes.
            let mut command = crate::Cli::command();
            command.build();
            page(directory, &command, "anabranch")
        }
    }
}

/// Writes the page of `command`, called `name`, and the pages of its verbs.
fn page(directory: &Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let path = directory.join(format!("{name}.1"));
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).title(name).date("").manual("anabranch");
    man.render(&mut text).map_err(|error| failed(&path, &error))?;
    whole_file::write(&path, &text).map_err(|error| failed(&path, &error))?;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        page(directory, verb, &format!("{name}-{}", verb.get_name()))?;
    }
    Ok(())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}
