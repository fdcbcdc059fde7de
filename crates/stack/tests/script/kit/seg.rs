//! One segment of a script, to be injected or expected.

use anabranch_stack::segment::{Flags, MptcpOption, SynOptions};

use super::A;

/// A mapping in a script: stream offset, subflow offset, length with the DATA_FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Map {
    pub data: i64,
    pub ssn: u32,
    pub len: u16,
    pub wide: bool,
}

/// A segment of a script. When injected, unset fields have their usual values; when expected, unset fields
/// are ignored.
#[derive(Clone, Debug, Default)]
pub struct Seg {
    pub sub: usize,
    pub flags: Option<Flags>,
    pub seq: Option<i64>,
    pub ack: Option<i64>,
    pub window: Option<u64>,
    pub payload: Option<u32>,
    pub data_ack: Option<(i64, bool)>,
    pub no_data_ack: bool,
    pub map: Option<Map>,
    pub no_map: bool,
    pub data_fin: Option<bool>,
    /// The mapping's checksum: 0 for the correct one, else the error in it.
    pub checksum: Option<u16>,
    /// The offset of the payload in the stream, if neither the mapping nor plain TCP determines it.
    pub stream: Option<i64>,
    /// True if a byte was changed in transit.
    pub damaged: bool,
    pub no_dss: bool,
    pub sack: Option<Vec<(i64, i64)>>,
    pub options: Vec<MptcpOption>,
    pub no_options: bool,
    pub syn: Option<SynOptions>,
    /// Value and echo, in milliseconds of the script's clock.
    pub value_us: Option<u32>,
    pub echo_us: Option<u32>,
    pub no_timestamps: bool,
    /// True if a router has marked it.
    pub ce: bool,
}

/// Returns a segment on subflow `sub`.
pub fn seg(sub: usize) -> Seg {
    Seg { sub, ..Seg::default() }
}

/// Returns a pure acknowledgement up to `ack`.
pub fn ack(sub: usize, ack: i64) -> Seg {
    seg(sub).flags(A).ack(ack).payload(0)
}

/// Returns a data segment from subflow offset `seq` on.
pub fn data(sub: usize, seq: i64, len: u32) -> Seg {
    seg(sub).seq(seq).payload(len)
}

/// Returns data with its own mapping: at `ssn` on the subflow, `at` in the stream.
pub fn mapped(sub: usize, ssn: u32, at: i64, len: u16) -> Seg {
    data(sub, i64::from(ssn), u32::from(len)).data_ack(0).map(at, ssn, len)
}

impl Seg {
    /// Moves it to another subflow.
    pub fn on(mut self, sub: usize) -> Seg {
        self.sub = sub;
        self
    }
    pub fn flags(mut self, flags: Flags) -> Seg {
        self.flags = Some(flags);
        self
    }
    pub fn seq(mut self, seq: i64) -> Seg {
        self.seq = Some(seq);
        self
    }
    pub fn ack(mut self, ack: i64) -> Seg {
        self.ack = Some(ack);
        self
    }
    /// Sets the window in bytes, scaled on the wire.
    pub fn window(mut self, bytes: u64) -> Seg {
        self.window = Some(bytes);
        self
    }
    pub fn payload(mut self, len: u32) -> Seg {
        self.payload = Some(len);
        self
    }
    /// Sets the data acknowledgement, 64 bits wide.
    pub fn data_ack(mut self, offset: i64) -> Seg {
        self.data_ack = Some((offset, true));
        self
    }
    pub fn data_ack32(mut self, offset: i64) -> Seg {
        self.data_ack = Some((offset, false));
        self
    }
    pub fn no_data_ack(mut self) -> Seg {
        self.no_data_ack = true;
        self
    }
    /// Sets the mapping, with a 64-bit DSN.
    pub fn map(mut self, data: i64, ssn: u32, len: u16) -> Seg {
        self.map = Some(Map { data, ssn, len, wide: true });
        self
    }
    pub fn map32(mut self, data: i64, ssn: u32, len: u16) -> Seg {
        self.map = Some(Map { data, ssn, len, wide: false });
        self
    }
    /// Sets the correct checksum.
    pub fn checked(mut self) -> Seg {
        self.checksum = Some(0);
        self
    }
    /// Sets the offset of its payload in the stream.
    pub fn stream(mut self, offset: i64) -> Seg {
        self.stream = Some(offset);
        self
    }
    pub fn no_map(mut self) -> Seg {
        self.no_map = true;
        self
    }
    pub fn data_fin(mut self) -> Seg {
        self.data_fin = Some(true);
        self
    }
    pub fn no_data_fin(mut self) -> Seg {
        self.data_fin = Some(false);
        self
    }
    pub fn no_dss(mut self) -> Seg {
        self.no_dss = true;
        self
    }
    /// Sets exactly these blocks.
    pub fn sack(mut self, blocks: &[(i64, i64)]) -> Seg {
        self.sack = Some(blocks.to_vec());
        self
    }
    pub fn option(mut self, option: MptcpOption) -> Seg {
        self.options.push(option);
        self
    }
    /// Forbids MPTCP options other than a DSS.
    pub fn no_options(mut self) -> Seg {
        self.no_options = true;
        self
    }
    /// Forbids option 30.
    pub fn no_mptcp(self) -> Seg {
        self.no_options().no_dss()
    }
    pub fn syn(mut self, options: SynOptions) -> Seg {
        self.syn = Some(options);
        self
    }
    pub fn value_us(mut self, value: u32) -> Seg {
        self.value_us = Some(value);
        self
    }
    pub fn echo_us(mut self, echo: u32) -> Seg {
        self.echo_us = Some(echo);
        self
    }
    pub fn no_timestamps(mut self) -> Seg {
        self.no_timestamps = true;
        self
    }
    /// Marks it by a router.
    pub fn ce(mut self) -> Seg {
        self.ce = true;
        self
    }
}

/// Returns a short form for messages.
pub fn describe(want: &Seg) -> String {
    let mut text = format!("#{}", want.sub);
    if let Some(flags) = want.flags {
        text += &format!(" {flags:?}");
    }
    for (name, value) in [
        ("seq", want.seq),
        ("ack", want.ack),
        ("window", want.window.map(|w| w as i64)),
        ("len", want.payload.map(i64::from)),
    ] {
        if let Some(value) = value {
            text += &format!(" {name} {value}");
        }
    }
    if let Some((offset, _)) = want.data_ack {
        text += &format!(" data ack {offset}");
    }
    if let Some(map) = want.map {
        text += &format!(" map {}+{}@{}", map.data, map.len, map.ssn);
    }
    for &(left, right) in want.sack.iter().flatten() {
        text += &format!(" sack {left}..{right}");
    }
    for option in &want.options {
        text += &format!(" {option:?}");
    }
    text
}
