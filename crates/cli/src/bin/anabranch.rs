//! The `anabranch` command; see the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    anabranch_cli::main(std::env::args_os().collect())
}
