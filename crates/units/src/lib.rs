//! Time, rates, sizes and random streams, shared by every crate of anabranch.
//!
//! Nothing here reads a clock or asks the system for entropy. The caller passes a [`Time`] in, and a
//! [`RandomStream`] is derived from a seed and the name of the component that draws from it.
//!
//! ```
//! use anabranch_units::{Duration, RandomStream, Rate, Time};
//!
//! let rate = Rate::from_mbps(12);
//! assert_eq!(Time::ZERO + rate.transmission_time(1500), Time::from_millis(1));
//! assert_eq!(rate.bytes_in(Duration::from_secs(1)), 1_500_000);
//! // The same seed and name give the same numbers on every machine.
//! let [mut one, mut other] = [(); 2].map(|()| RandomStream::new(7, "wifi.down"));
//! assert_eq!(one.next_u64(), other.next_u64());
//! ```

#![warn(unreachable_pub)]

mod rate;
mod rng;
mod size;
mod time;

pub use rate::Rate;
pub use rng::RandomStream;
pub use size::Bytes;
pub use time::{Duration, Time};
