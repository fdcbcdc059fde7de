//! The settings that a connection may have in a simulator alone, apart from those of every connection.
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

/// Declares [`SimOnly`]: a row for each setting that has a name in scenarios, with its field, type, name,
/// meaning, and kind as in [`parameter!`](crate::parameter!). The default of its type must be the behaviour of
/// a real host.
macro_rules! sim_only {
    ($($(#[$doc:meta])+ $field:ident: $type:ty, $name:literal, $what:literal, [$($kind:tt)+];)*) => {
        /// The settings that exist in a simulator alone. The default is the behaviour of a real host.
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
}

impl SimOnly {
    /// Returns a setting that differs from a real host's: its name in scenarios, or that of its field.
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
        ConnectionConfig::ns3().simulated(SimOnly { simultaneous: true, ..SimOnly::default() })
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
            (SimOnly { sequence_origin: Some(origin), ..real }, "sequence-origin"),
            (SimOnly { consume_at_once: true, ..real }, "consume_at_once"),
            (SimOnly { readable_from: Bytes(1), ..real }, "readable_from"),
        ] {
            assert_eq!(ConnectionConfig::linux().simulated(only).for_real_hosts(), Err(name));
        }
    }
}
