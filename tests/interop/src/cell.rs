//! The cells of the matrix.

use std::fmt;

/// Defines an enumeration of named values.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// Returns its name, as part of a cell's name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$value => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

choice! {
    /// One of the two implementations.
    Side {
        Kernel = "kernel",
        Anabranch = "anabranch",
    }
}

impl Side {
    pub const fn other(self) -> Side {
        match self {
            Side::Kernel => Side::Anabranch,
            Side::Anabranch => Side::Kernel,
        }
    }
}

choice! {
    Family {
        V4 = "v4",
        V6 = "v6",
    }
}

choice! {
    /// The number of paths, each with its own delay.
    Paths {
        One = "1path",
        Two = "2paths",
        Four = "4paths",
    }
}

impl Paths {
    pub const fn count(self) -> usize {
        match self {
            Paths::One => 1,
            Paths::Two => 2,
            Paths::Four => 4,
        }
    }
}

choice! {
    /// The number of bytes sent in each direction of data, and the loss.
    Load {
        /// One byte.
        Byte = "1B",
        /// A mebibyte.
        Small = "1MiB",
        /// 24 MiB on clean paths: long enough for an event in the middle. Special situations only.
        Medium = "24MiB",
        /// 8 MiB with 1 % of the packets lost in each direction.
        Lossy = "8MiB-loss",
        /// 200 MiB on clean paths.
        Large = "200MiB",
    }
}

impl Load {
    pub const fn bytes(self) -> u64 {
        match self {
            Load::Byte => 1,
            Load::Small => 1 << 20,
            Load::Medium => 24 << 20,
            Load::Lossy => 8 << 20,
            Load::Large => 200 << 20,
        }
    }
}

choice! {
    /// The direction of the data.
    Data {
        /// From the server.
        Down = "down",
        /// From the client.
        Up = "up",
        /// Both at once.
        Both = "both",
    }
}

impl Data {
    /// True if the client, or the server, sends.
    pub const fn flows_from(self, client: bool) -> bool {
        match self {
            Data::Down => !client,
            Data::Up => client,
            Data::Both => true,
        }
    }
}

choice! {
    /// The opener of the additional subflows, and their destination.
    Joins {
        /// None: there is one path.
        None = "single",
        /// The kernel, from its own addresses to the first address of the other side.
        KernelOwn = "kernel-joins",
        /// The kernel, to addresses that anabranch has announced.
        KernelAnnounced = "kernel-joins-announced",
        /// Anabranch, from its own addresses to the first address of the other side.
        AnabranchOwn = "anabranch-joins",
        /// Anabranch, from each of its addresses to each address that the kernel has announced.
        AnabranchAnnounced = "anabranch-joins-announced",
    }
}

choice! {
    /// The side that requests DSS checksums.
    Checksums {
        Off = "nosum",
        /// `net.mptcp.checksum_enabled=1`.
        Kernel = "kernel-sum",
        Anabranch = "anabranch-sum",
    }
}

choice! {
    /// The special situation.
    Situation {
        /// Nothing.
        Plain = "plain",
        /// Anabranch withdraws an address in mid-transfer.
        AnabranchRemoves = "anabranch-removes-address",
        /// The kernel withdraws an address in mid-transfer.
        KernelRemoves = "kernel-removes-address",
        /// Anabranch's additional address is a backup from the start.
        AnabranchBackup = "anabranch-backup",
        /// The kernel's additional address is a backup from the start.
        KernelBackup = "kernel-backup",
        /// Anabranch makes a subflow a backup in mid-transfer (MP_PRIO).
        AnabranchPrio = "anabranch-mp-prio",
        /// The kernel makes a subflow a backup in mid-transfer (MP_PRIO).
        KernelPrio = "kernel-mp-prio",
        /// A path is cut in mid-transfer and restored.
        CutRestored = "cut-and-restored",
        /// A path loses all packets from mid-transfer on.
        Blackhole = "blackhole",
        /// The client closes its direction first, and then receives the answer.
        HalfClose = "half-close",
        /// A forged reset ends one subflow in mid-transfer.
        SubflowReset = "subflow-reset",
        /// Anabranch aborts in mid-transfer (MP_FASTCLOSE).
        AnabranchFastClose = "anabranch-fast-close",
        /// The kernel aborts in mid-transfer (MP_FASTCLOSE).
        KernelFastClose = "kernel-fast-close",
        /// Option 30 is stripped from the SYN.
        StripSyn = "strip-syn",
        /// Option 30 is stripped from the SYN/ACK.
        StripSynAck = "strip-synack",
        /// Option 30 is stripped from everything after the SYN/ACK.
        StripAfterSyns = "strip-after-syns",
        /// Option 30 is stripped from the first payload on.
        StripData = "strip-data",
        /// Sequence numbers are rewritten.
        RewriteSequence = "rewrite-sequence",
        /// Segments are split.
        Split = "split",
        /// Adjacent segments with the same options are joined.
        Coalesce = "coalesce",
        /// Payload is changed on one path of two, with DSS checksums.
        AlterPayload = "alter-payload",
        /// Anabranch as the server opens the additional subflow, to a port on which the kernel's path manager
        /// listens.
        ServerJoins = "server-joins",
        /// The client's first segments after the SYN are lost, including the third ACK, on many short
        /// connections: by a list, or with the load `8MiB-loss` at random.
        LostHandshakes = "lost-handshakes",
        /// TUN devices with segmentation offload, without delay.
        Offload = "offload",
        /// `mptcpize run wget` downloads from `anabranch serve`.
        Wget = "wget",
        /// `mptcpize run curl` downloads from `anabranch serve`, one range at a time.
        Curl = "curl",
        /// `mptcpize run iperf3` over the streams of anabranch, which relays them to another iperf3.
        Iperf3 = "iperf3",
    }
}

/// One cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    pub client: Side,
    pub family: Family,
    pub paths: Paths,
    pub load: Load,
    pub data: Data,
    pub joins: Joins,
    pub checksums: Checksums,
    pub situation: Situation,
}

impl Cell {
    /// True if the choices can be combined.
    pub fn is_valid(&self) -> bool {
        let joins = match self.joins {
            Joins::None => true,
            // The kernel accepts joins on ports on which it listens; as a client it does so only if its path
            // manager is configured to.
            Joins::AnabranchOwn | Joins::AnabranchAnnounced => {
                self.client == Side::Anabranch || self.situation == Situation::ServerJoins
            }
            // Anabranch announces addresses as a server.
            Joins::KernelAnnounced => self.client == Side::Kernel,
            Joins::KernelOwn => true,
        };
        let joins = joins && (self.situation != Situation::Plain || self.load != Load::Medium);
        joins && (self.paths == Paths::One) == (self.joins == Joins::None)
    }

    /// Returns the expected number of subflows, including the first.
    pub fn subflows(&self) -> usize {
        let paths = self.paths.count();
        match self.joins {
            Joins::None => 1,
            Joins::KernelOwn | Joins::KernelAnnounced | Joins::AnabranchOwn => paths,
            // Both sides permit at most eight.
            Joins::AnabranchAnnounced => (paths * paths).min(8),
        }
    }

    /// Returns the opener of the additional subflows.
    pub fn joiner(&self) -> Option<Side> {
        match self.joins {
            Joins::None => None,
            Joins::KernelOwn | Joins::KernelAnnounced => Some(Side::Kernel),
            Joins::AnabranchOwn | Joins::AnabranchAnnounced => Some(Side::Anabranch),
        }
    }

    /// True if `side` sends data.
    pub fn sends(&self, side: Side) -> bool {
        self.data.flows_from(side == self.client)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { client, family, paths, load, data, joins, checksums, situation } = self;
        if *situation != Situation::Plain {
            write!(f, "{situation}.")?;
        }
        write!(f, "{client}-client.{family}.{paths}.{joins}.{load}-{data}.{checksums}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_subflows_as_pairs_of_addresses_and_at_most_eight() {
        let cell = Cell {
            client: Side::Anabranch,
            family: Family::V4,
            paths: Paths::Two,
            load: Load::Small,
            data: Data::Up,
            joins: Joins::AnabranchAnnounced,
            checksums: Checksums::Off,
            situation: Situation::Plain,
        };
        assert_eq!(cell.subflows(), 4);
        assert_eq!(Cell { paths: Paths::Four, ..cell }.subflows(), 8);
        assert_eq!(Cell { joins: Joins::KernelOwn, ..cell }.subflows(), 2);
        assert!(cell.is_valid() && !Cell { client: Side::Kernel, ..cell }.is_valid());
    }
}
