//! One network link, in one direction, as a deterministic element without I/O.
//!
//! Packets are offered to a [`Link`], which returns each at the time of its arrival. It reads no clock: the
//! caller passes the time in, and the simulator and the emulator share all of its code.
//!
//! ```
//! use anabranch_link::{Capacity, Link, LinkConfig, Polled, Pushed};
//! use anabranch_units::{Duration, Rate, Time};
//!
//! let config = LinkConfig {
//!     capacity: Capacity::Rate(Rate::from_mbps(12)),
//!     delay: Duration::from_millis(10),
//!     ..LinkConfig::default()
//! };
//! let mut link = Link::new("wifi.down", 1, config)?;
//! assert_eq!(link.push(Time::ZERO, "data", 1500), Pushed::Queued);
//! // 1500 bytes take 1 ms at 12 Mbit/s, then 10 ms to the far end.
//! let arrival = link.next_event();
//! assert_eq!(arrival, Time::from_millis(11));
//! assert!(matches!(link.poll(arrival), Some(Polled::Arrived(a)) if a.packet == "data"));
//! assert_eq!(link.next_event(), Time::NEVER);
//! # Ok::<(), anabranch_link::LinkConfigError>(())
//! ```
//!
//! # The life of a packet
//!
//! 1. **Offered.** [`Link::push`] gives the packet the next number, counted from 1, and makes its random
//!    draws: loss, jitter, reordering, duplication. The n-th draw belongs to the n-th packet offered,
//!    whatever happens to it next, so two runs with one seed that offer the same packets lose the same
//!    packets (common random numbers). With [`LossDraws::Separate`] it belongs to the n-th packet that carries data
//!    ([`Link::push_as`]), so that the same data packets are lost even if other packets differ, as between a
//!    simulation and an emulation of it.
//! 2. **Dropped on entry**, if the link is down, if the packet exceeds the MTU, by its draw or the drop
//!    list, if it exceeds the policer, if RED drops it, or if the queue is full; in this order. A lost packet
//!    takes neither queue space nor capacity, as with Linux's netem.
//! 3. **Queued**, first in first out, or in service. The departure time is known at once. When a step of the
//!    timeline changes the rate, the delay or the state of the link, the departures of queued packets are
//!    recomputed from the time of the step, with the exact remaining work. On a link with CoDel, FQ-CoDel, a shaper
//!    or cross traffic the next packet is chosen, and possibly dropped, when the one before it has departed.
//! 4. **In propagation**, for the delay that applied when the packet's last bit departed. The arrival time no
//!    longer changes, even if the link goes down.
//! 5. **Arrived.** [`Link::poll`] returns it.
//!
//! Arrivals keep the order of departures, even if the delay has just decreased or the jitter is smaller: a
//! packet that would overtake arrives together with the one before it. Only [`Reordering`] and [`Jitter`]
//! with `reorder` let packets overtake.

#![warn(unreachable_pub)]
#![forbid(unsafe_code)]

mod aqm;
mod bucket;
mod capacity;
mod config;
mod counters;
mod cross;
mod effect;
mod error;
mod impairments;
mod jitter;
mod link;
mod loss;
mod middlebox;
mod output;
mod queue;
mod quotas;
mod red;
mod redraw;
mod server;
mod timeline;
mod trace;

pub use aqm::{Aqm, Codel, FqCodel, Red};
pub use bucket::TokenBucket;
pub use capacity::Capacity;
pub use config::{LinkConfig, LossDraws, Reordering, WhenDown};
pub use counters::{Counters, Tally};
pub use cross::CrossTraffic;
pub use effect::{Effect, Effects};
pub use error::LinkConfigError;
pub use jitter::{Jitter, JitterShape};
pub use link::{Label, Link};
pub use loss::{DropReason, GilbertElliott, Loss, LossCause};
pub use middlebox::{
    Connection, Middlebox, MiddleboxConfig, MiddleboxCounters, Nat, Passed, Passing, Proxy, Strip,
};
pub use output::{Arrival, Dropped, Polled, Pushed};
pub use queue::{QueueLimit, ResolvedLimit};
pub use quotas::{Budget, Quotas};
pub use redraw::{Redraw, Redrawn};
pub use timeline::{Change, Step};
pub use trace::{Trace, TraceError};
