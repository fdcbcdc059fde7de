//! The settings that a connection may have only in a simulator, apart from the settings of every connection.
//!
//! [`SimOnly`] has them, and [`SimConfig`] is a [`ConnectionConfig`] with them. An [`Endpoint`] accepts either;
//! the runtime for real packets accepts a `ConnectionConfig`, which has no place for them.
//!
//! [`Endpoint`]: crate::endpoint::Endpoint

use core::ops::{Deref, DerefMut};

use anabranch_units::Bytes;

use super::{ConnectionConfig, Profile};
use crate::parameter;
use crate::parameter::{Options, Parameter};
use crate::seq::{Dsn, Seq};

/// Start values of sequence numbers, in place of random ones.
///
/// For simulation and tests only: RFC 8684 derives the data sequence number from the key and RFC 6528
/// requires an unpredictable initial sequence number. Both ends must have the same configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceOrigin {
    /// The initial sequence number of every subflow.
    pub isn: Seq,
    /// The initial data sequence number of the connection's initiator.
    pub initiator: Dsn,
    /// The initial data sequence number of the listener.
    pub listener: Dsn,
}

/// The rule by which a connection that begins with packet scatter opens its subflows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ScatterSwitch {
    /// No packet is scattered.
    #[default]
    Off,
    /// The stream has exceeded a number of bytes.
    Volume,
    /// The connecting side's data has met its first loss: a fast recovery or a timeout.
    Congestion,
    /// The connecting side's window over its smoothed round-trip time has reached a rate.
    Rate,
    /// [`ScatterSwitch::Volume`] or [`ScatterSwitch::Congestion`], whichever is first.
    Either,
    /// No rule: packets are scattered to the end.
    Never,
}

/// RACK's reordering window of a scattered subflow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ScatterWindow {
    /// One smoothed round trip from the start, the largest that RFC 8985 permits.
    #[default]
    RoundTrip,
    /// As for any subflow: a quarter of the least round trip, and more with each round trip that has a DSACK.
    Adaptive,
}

/// A volume of data at which packet scatter ends; by default the 100 KB of MMPTCP's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScatterVolume(pub u32);

impl Default for ScatterVolume {
    fn default() -> ScatterVolume {
        ScatterVolume(100_000)
    }
}

impl From<ScatterVolume> for u64 {
    fn from(volume: ScatterVolume) -> u64 {
        u64::from(volume.0)
    }
}

impl TryFrom<u64> for ScatterVolume {
    type Error = core::num::TryFromIntError;

    fn try_from(bytes: u64) -> Result<ScatterVolume, Self::Error> {
        u32::try_from(bytes).map(ScatterVolume)
    }
}

/// Declares [`SimOnly`]: a row for each setting that has a name in scenarios, with its field, type, name,
/// meaning, and kind as in [`parameter!`](crate::parameter!). The default of its type must be the behaviour of
/// a real host.
macro_rules! sim_only {
    ($($(#[$doc:meta])+ $field:ident: $type:ty, $name:literal, $what:literal, [$($kind:tt)+];)*) => {
        /// The settings that exist only in a simulator. The default is the behaviour of a real host.
        #[derive(Clone, Copy, PartialEq, Default, Debug)]
        pub struct SimOnly {
            $($(#[$doc])+ pub $field: $type,)*
            /// Start values of sequence numbers.
            pub sequence_origin: Option<SequenceOrigin>,
            /// True if the application takes in-order data at once, so that there is nothing to consume. For
            /// applications that only count.
            pub consume_at_once: bool,
            /// The amount of in-order data, from the start of the stream, before which no [`Event::Readable`]
            /// is emitted; with `consume_at_once`.
            ///
            /// [`Event::Readable`]: crate::event::Event::Readable
            pub readable_from: Bytes,
        }

        impl Options for SimOnly {
            const PARAMETERS: &'static [Parameter<SimOnly>] =
                &[$(parameter!(SimOnly, $name, $what, $($kind)+, $field),)*];
        }
    };
}

sim_only! {
    /// True if all handshakes start together and a subflow may carry data one round trip later: the departure
    /// from RFC 8684 of profile `ns3`.
    simultaneous: bool, "simultaneous", "all handshakes start together (simulator alone)", [bool];
    /// True if the receiver does not acknowledge a segment on its subflow while data before it is missing in
    /// the stream, nor later, until another segment arrives there: the receiver of the ns-3 code that the DMPTCP
    /// paper names.
    withhold_acks: bool, "withhold-acks", "no subflow acknowledges data beyond a hole of the stream (simulator alone)", [bool];
    /// True if timestamps tick every microsecond, so that any two transmissions can be distinguished; otherwise
    /// as often as the clock of the host.
    microsecond_timestamps: bool, "microsecond-timestamps",
        "timestamps tick every microsecond, and not every millisecond as in Linux (simulator alone)", [bool];
    /// Packet scatter of the first subflow, and the rule that ends it.
    scatter_switch: ScatterSwitch, "scatter.switch", "packet scatter: the rule that opens the subflows (simulator alone)",
        [choice ["off" => ScatterSwitch::Off, "volume" => ScatterSwitch::Volume,
            "congestion" => ScatterSwitch::Congestion, "either" => ScatterSwitch::Either, "never" => ScatterSwitch::Never,
            "rate" => ScatterSwitch::Rate]];
    /// The volume of rules [`ScatterSwitch::Volume`] and [`ScatterSwitch::Either`].
    scatter_volume: ScatterVolume, "scatter.volume", "bytes of the stream after which packet scatter ends (simulator alone)",
        [integer 0, 4_294_967_295];
    /// The rate of rule [`ScatterSwitch::Rate`], in bit/s; none: 1/50 of the rate of the path's first link, which the lab
    /// sets, and without which the rule is never reached.
    scatter_rate: Option<u64>, "scatter.rate", "bit/s of window over round trip at which packet scatter ends (simulator alone)",
        [open integer 1, 1_000_000_000_000, "link/50"];
    /// The duplicate acknowledgements that signal a loss on a scattered subflow; none: three more than there are routes
    /// of equal cost, or three for one route.
    scatter_dup_acks: Option<u32>, "scatter.dup-acks", "duplicate ACKs that signal a loss of scattered packets (simulator alone)",
        [open integer 3, 100_000, "routes"];
    /// RACK's reordering window on a scattered subflow.
    scatter_window: ScatterWindow, "scatter.reordering-window", "RACK's reordering window of scattered packets (simulator alone)",
        [choice ["round-trip" => ScatterWindow::RoundTrip, "adaptive" => ScatterWindow::Adaptive]];
}

impl SimOnly {
    /// Returns a setting that differs from a real host's: its name in scenarios, or the name of its field.
    pub fn in_use(&self) -> Option<&'static str> {
        let real = SimOnly::default();
        let mut rows = SimOnly::PARAMETERS.iter();
        let named = rows.find(|row| (row.get)(self) != (row.get)(&real)).map(|row| row.spec.name);
        named.or(match () {
            () if self.sequence_origin.is_some() => Some("sequence-origin"),
            () if self.consume_at_once => Some("consume_at_once"),
            () if self.readable_from > Bytes::ZERO => Some("readable_from"),
            () => None,
        })
    }
}

/// The configuration of one simulated connection.
///
/// ```
/// use anabranch_stack::config::{ConnectionConfig, SimConfig, SimOnly};
///
/// let joins = SimOnly { simultaneous: true, ..SimOnly::default() };
/// let mut config = ConnectionConfig::linux().simulated(joins);
/// config.mss = 1000;
/// assert_eq!(config.for_real_hosts(), Err("simultaneous"));
/// assert_eq!(SimConfig::from(ConnectionConfig::linux()).for_real_hosts(), Ok(&ConnectionConfig::linux()));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// The settings of every connection.
    pub connection: ConnectionConfig,
    /// The settings of a simulated one.
    pub only: SimOnly,
}

impl SimConfig {
    /// Returns the configuration of `profile`.
    pub fn new(profile: Profile) -> SimConfig {
        match profile {
            Profile::Linux => ConnectionConfig::kernel().into(),
            Profile::Ns3 => SimConfig::ns3(),
        }
    }

    /// Returns profile `ns3`: the simulations of the DMPTCP paper.
    pub fn ns3() -> SimConfig {
        ConnectionConfig::ns3().simulated(SimOnly {
            simultaneous: true,
            microsecond_timestamps: true,
            ..SimOnly::default()
        })
    }

    /// Returns the configuration for a host on a real network.
    ///
    /// # Errors
    /// The name of a setting that only a simulator has, if one is in use.
    pub fn for_real_hosts(&self) -> Result<&ConnectionConfig, &'static str> {
        self.only.in_use().map_or(Ok(&self.connection), Err)
    }
}

impl From<ConnectionConfig> for SimConfig {
    fn from(connection: ConnectionConfig) -> SimConfig {
        SimConfig { connection, only: SimOnly::default() }
    }
}

impl Deref for SimConfig {
    type Target = ConnectionConfig;

    fn deref(&self) -> &ConnectionConfig {
        &self.connection
    }
}

impl DerefMut for SimConfig {
    fn deref_mut(&mut self) -> &mut ConnectionConfig {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_in_use_is_noticed() {
        let real = SimOnly::default();
        assert_eq!(real.in_use(), None);
        let origin = SequenceOrigin { isn: Seq(0), initiator: Dsn(0), listener: Dsn(0) };
        for (only, name) in [
            (SimOnly { simultaneous: true, ..real }, "simultaneous"),
            (SimOnly { withhold_acks: true, ..real }, "withhold-acks"),
            (SimOnly { microsecond_timestamps: true, ..real }, "microsecond-timestamps"),
            (SimOnly { sequence_origin: Some(origin), ..real }, "sequence-origin"),
            (SimOnly { scatter_switch: ScatterSwitch::Never, ..real }, "scatter.switch"),
            (SimOnly { scatter_volume: ScatterVolume(1), ..real }, "scatter.volume"),
            (SimOnly { scatter_rate: Some(1), ..real }, "scatter.rate"),
            (SimOnly { scatter_dup_acks: Some(3), ..real }, "scatter.dup-acks"),
            (SimOnly { scatter_window: ScatterWindow::Adaptive, ..real }, "scatter.reordering-window"),
            (SimOnly { consume_at_once: true, ..real }, "consume_at_once"),
            (SimOnly { readable_from: Bytes(1), ..real }, "readable_from"),
        ] {
            assert_eq!(ConnectionConfig::linux().simulated(only).for_real_hosts(), Err(name));
        }
    }
}
