//! What a cell of the matrix is.

use std::fmt;

/// An enumeration whose values have names.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// Every value.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// Its name, as part of a cell's name.
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
    /// One of the two who speak.
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
    /// How many paths there are, each with a delay of its own.
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
    /// How much is sent in each direction in which data flows, and over what.
    Load {
        /// One byte.
        Byte = "1B",
        /// A mebibyte.
        Small = "1MiB",
        /// 24 MiB on clean paths: long enough for something to happen in the middle. Special situations
        /// alone.
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
    /// Which way the data flows.
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
    /// Whether the client, or the server, sends.
    pub const fn flows_from(self, client: bool) -> bool {
        match self {
            Data::Down => !client,
            Data::Up => client,
            Data::Both => true,
        }
    }
}

choice! {
    /// Who opens the further subflows, and where to.
    Joins {
        /// Nobody: there is one path.
        None = "single",
        /// The kernel, from addresses of its own to the first address of the other side.
        KernelOwn = "kernel-joins",
        /// The kernel, to addresses that anabranch has announced.
        KernelAnnounced = "kernel-joins-announced",
        /// Anabranch, from addresses of its own to the first address of the other side.
        AnabranchOwn = "anabranch-joins",
        /// Anabranch, from every address of its own to every one that the kernel has announced.
        AnabranchAnnounced = "anabranch-joins-announced",
    }
}

choice! {
    /// Who asks for DSS checksums.
    Checksums {
        Off = "nosum",
        /// `net.mptcp.checksum_enabled=1`.
        Kernel = "kernel-sum",
        Anabranch = "anabranch-sum",
    }
}

choice! {
    /// What else happens.
    Situation {
        /// Nothing.
        Plain = "plain",
        /// Anabranch withdraws an address in mid-transfer.
        AnabranchRemoves = "anabranch-removes-address",
        /// The kernel withdraws an address in mid-transfer.
        KernelRemoves = "kernel-removes-address",
        /// Anabranch's further address is a backup from the start.
        AnabranchBackup = "anabranch-backup",
        /// The kernel's further address is a backup from the start.
        KernelBackup = "kernel-backup",
        /// Anabranch makes a subflow a backup in mid-transfer (MP_PRIO).
        AnabranchPrio = "anabranch-mp-prio",
        /// The kernel makes a subflow a backup in mid-transfer (MP_PRIO).
        KernelPrio = "kernel-mp-prio",
        /// A path is cut in mid-transfer and mended.
        CutRestored = "cut-and-restored",
        /// A path swallows everything from mid-transfer on.
        Blackhole = "blackhole",
        /// The client closes its direction first, and then hears the answer.
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
        /// Neighbouring segments with the same options become one.
        Coalesce = "coalesce",
        /// Payload is changed on one path of two, with DSS checksums.
        AlterPayload = "alter-payload",
        /// Anabranch as the server opens the further subflow, to a port at which the kernel's path manager listens.
        ServerJoins = "server-joins",
        /// The client's first segments after the SYN are lost, the third ACK among them, on many short connections: by a
        /// list, or with the load `8MiB-loss` at random.
        LostHandshakes = "lost-handshakes",
        /// TUN devices with segmentation offload, without delay.
        Offload = "offload",
        /// `mptcpize run wget` fetches from `anabranch serve`.
        Wget = "wget",
        /// `mptcpize run curl` fetches from `anabranch serve`, a range at a time.
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
    /// Whether such a cell can be: the choices exclude one another in places.
    pub fn is_valid(&self) -> bool {
        let joins = match self.joins {
            Joins::None => true,
            // The kernel takes joins at ports it listens to, which as a client it does only where its path
            // manager is told to.
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

    /// How many subflows there are meant to be, the first included.
    pub fn subflows(&self) -> usize {
        let paths = self.paths.count();
        match self.joins {
            Joins::None => 1,
            Joins::KernelOwn | Joins::KernelAnnounced | Joins::AnabranchOwn => paths,
            // Eight is as many as either side allows.
            Joins::AnabranchAnnounced => (paths * paths).min(8),
        }
    }

    /// Who opens the further subflows.
    pub fn joiner(&self) -> Option<Side> {
        match self.joins {
            Joins::None => None,
            Joins::KernelOwn | Joins::KernelAnnounced => Some(Side::Kernel),
            Joins::AnabranchOwn | Joins::AnabranchAnnounced => Some(Side::Anabranch),
        }
    }

    /// Whether `side` sends data.
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
