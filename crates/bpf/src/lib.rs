//! Coupled congestion control for the Multipath TCP of the stock Linux kernel: LIA, OLIA, BALIA and wVegas as
//! `tcp_congestion_ops` in BPF, from Linux 6.1 on.
//!
//! The programs are in `programs/`, in C, with the objects that `programs/build` compiled from them. With the feature `load`,
//! [`load()`] gives one to the kernel and [`unload()`] takes it away; without it both return [`Error::NotBuilt`].
//!
//! ```no_run
//! use anabranch_bpf::{Law, Options, load};
//!
//! let law = Law::from_name("lia").expect("it is one of the four");
//! assert_eq!(law.kernel_name(), "mp_lia");
//! // Loaded until it is dropped; `pin` keeps it beyond the end of the program.
//! let loaded = load(law, &Options { lisa: true, ..Options::DEFAULT })?;
//! println!("{:?}", loaded.counters()?);
//! # Ok::<(), anabranch_bpf::Error>(())
//! ```

#![warn(unreachable_pub)]
#![cfg(target_os = "linux")]

mod error;
mod kernel;
mod law;
#[cfg(feature = "load")]
mod loaded;
#[cfg(not(feature = "load"))]
#[path = "not_built.rs"]
mod loaded;

pub use error::Error;
pub use kernel::{Counters, available, is_available};
pub use law::Law;
pub use loaded::{Loaded, counters, is_pinned, load, unload};

/// The directory of the pins, in which a law stays loaded after the command that loaded it.
pub const PINS: &str = "/sys/fs/bpf/anabranch";

/// The settings of a law when it is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Links the slow starts of the subflows (LISA).
    pub lisa: bool,
    /// The most connections that are coupled at once; further ones are not coupled.
    pub connections: u32,
}

impl Options {
    /// No LISA, and 65,536 connections.
    pub const DEFAULT: Options = Options { lisa: false, connections: 65_536 };
}

impl Default for Options {
    fn default() -> Options {
        Options::DEFAULT
    }
}
