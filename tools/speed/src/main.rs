//! The other programs of `tools/speed.py`.
//!
//!     anabranch-speed relay TUN TUN [--offload]
//!     anabranch-speed smoltcp TUN ADDRESS SERVER:PORT (upload | download) SECONDS
//!     anabranch-speed smoltcp TUN ADDRESS SERVER:PORT ping COUNT

mod relay;
mod smol;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["relay", one, other] => relay::run(one, other, false),
        ["relay", one, other, "--offload"] => relay::run(one, other, true),
        ["smoltcp", tun, address, server, what, amount] => smol::run(tun, address, server, what, amount),
        _ => Err("relay TUN TUN [--offload] | smoltcp TUN ADDRESS SERVER:PORT upload|download|ping N".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Error = Box<dyn std::error::Error>;
