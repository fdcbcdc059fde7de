//! Any application over several paths: a proxy for SOCKS 5 and HTTP, and its server side.
//!
//! A [`client::Client`] accepts the connections of applications, and makes one connection of Multipath TCP of each: to the
//! destination itself, or to a [`server::Server`], which connects to the destination. Between the two is the 0-RTT TCP
//! Convert Protocol ([`convert`], RFC 8803). Multipath TCP is the kernel's or this project's ([`transport`]).
//!
//! ```
//! use anabranch_proxy::convert::Destination;
//!
//! let destination = Destination::new("example.org", 443).expect("it is a name");
//! assert_eq!(destination.to_string(), "example.org:443");
//! // Some resolvers take it for 127.0.0.1.
//! assert_eq!(Destination::new("0x7f.1", 443), None);
//! ```
#![cfg(target_os = "linux")]
#![warn(unreachable_pub)]

pub mod budgets;
#[doc(hidden)]
pub mod chew;
pub mod client;
#[cfg(test)]
mod client_tests;
pub mod convert;
mod destinations;
mod endpoints;
mod failure;
mod front;
mod gate;
mod guard;
mod owner;
pub mod passed;
pub mod paths;
mod pipe;
mod prices;
mod reach;
mod relay;
pub mod server;
#[cfg(test)]
mod server_tests;
mod sizes;
pub mod status;
pub mod status_socket;
pub mod transport;

pub use failure::Failure;

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
