//! Time, rates, sizes and random streams: the words that every floor of anabranch shares.
//!
//! Nothing here reads a clock or asks the system for entropy. A [`Time`] is passed in by whoever
//! drives the code, and a [`RandomStream`] is derived from a seed and the name of the component
//! that draws from it.

#![warn(unreachable_pub)]

mod rate;
mod rng;
mod size;
mod time;

pub use rate::Rate;
pub use rng::RandomStream;
pub use size::Bytes;
pub use time::{Duration, Time};
