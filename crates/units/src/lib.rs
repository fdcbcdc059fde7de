//! Time, rates, sizes and random streams, shared by every crate of anabranch.
//!
//! Nothing here reads a clock or asks the system for entropy. The caller passes a [`Time`] in, and a
//! [`RandomStream`] is derived from a seed and the name of the component that draws from it.

#![warn(unreachable_pub)]

mod rate;
mod rng;
mod size;
mod time;

pub use rate::Rate;
pub use rng::RandomStream;
pub use size::Bytes;
pub use time::{Duration, Time};
