//! Decodes any bytes as an attack, for a fuzzer to mutate. Missing bytes at the end are zero, and zero
//! usually means the correct value, so that few bytes go far and every string is meaningful.
//!
//! Sixteen bytes configure the endpoint; then steps follow, each a byte for its kind followed by its
//! parameters.

use anabranch_stack::segment::Flags;

use super::step::{Lie, LieDss, Number, Step};
use super::{Attack, honest_data};
use crate::harness::Side;
use crate::random::case::{Case, Knobs};

/// The maximum number of steps in a string.
const MOST_STEPS: usize = 400;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        self.few(1) as u8
    }

    /// Returns the next `n` bytes as a little-endian number.
    fn few(&mut self, n: usize) -> u64 {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Returns the correct number, one near it, or any.
    fn number(&mut self) -> Number {
        let zigzag = |number: u64| (number >> 1) as i32 ^ -((number & 1) as i32);
        match self.byte() {
            small @ 0..0x80 => Number::Near(zigzag(small.into())),
            0x80..0xc0 => Number::Near(zigzag(self.few(2))),
            0xc0..0xf0 => Number::Near(self.few(4) as i32),
            0xf0.. => Number::Any(self.few(8)),
        }
    }
}

/// Decodes `bytes`.
pub fn decode(bytes: &[u8]) -> Attack {
    let bytes = &mut Bytes(bytes);
    let (side, honest, case) = head(bytes);
    let mut steps = Vec::new();
    while !bytes.0.is_empty() && steps.len() < MOST_STEPS {
        steps.push(step(bytes));
    }
    Attack { side, case, honest, steps }
}

fn head(bytes: &mut Bytes) -> (Side, bool, Case) {
    let who = bytes.byte();
    let bit = |at: u8| who >> at & 1 == 1;
    let side = if bit(0) { Side::Server } else { Side::Client };
    let knobs = Knobs {
        flips: bytes.few(2) as u16,
        scheduler: bytes.byte(),
        congestion: bytes.byte(),
        mss: [1400, 64, 536, 8900][usize::from(bytes.byte() % 4)],
        initial_window: 1 + u32::from(bytes.byte().wrapping_add(9) % 20),
        ssthresh: None,
        ack: (1 + u32::from(bytes.byte() % 3), 40, u32::from(bytes.byte() % 20)),
        receive_buffer: [(60_000, 0), (500, 0), (5000, 100_000), (1 << 20, 0)][usize::from(bytes.byte() % 4)],
        send_buffer: [1 << 20, 500, 20_000][usize::from(bytes.byte() % 3)],
        max_subflows: 8 - bytes.byte() % 8,
        size_hint: 0,
        checksums: bytes.byte() % 3,
    };
    let case = Case {
        seed: 1,
        ns3: bit(2),
        mptcp: [!bit(3); 2],
        simultaneous: bit(4),
        path_manager: [1, 0, 3][usize::from(bytes.byte() % 3)],
        fragile: bit(5),
        // Shortly before the wrap, so that few bytes pass it.
        isn: if bit(6) { 0u32.wrapping_sub(3000) } else { 0 },
        dsn: if bit(7) { [(7 << 32) - 3000, 0u64.wrapping_sub(3000)] } else { [0; 2] },
        time_wait_ms: 1 + bytes.few(2),
        knobs: [knobs; 2],
        ..Case::plain()
    };
    (side, !bit(1), case)
}

fn step(bytes: &mut Bytes) -> Step {
    match bytes.byte() {
        0..96 => Step::Segment(segment(bytes)),
        96..128 => honest_data(bytes.byte() % 3, 1 + bytes.few(2) as u32),
        128..144 => Step::Wait(1000 * u32::from(bytes.byte())),
        144..160 => Step::Wait(10_000 * bytes.few(2) as u32),
        160..184 => Step::Write(bytes.few(3) as u32),
        184..200 => Step::Read(bytes.few(3) as u32),
        200..208 => Step::Close,
        208..210 => Step::Abort,
        210..220 => {
            let what = bytes.byte();
            Step::Address(what >> 1, what & 1 == 1)
        }
        220..230 => {
            let what = bytes.byte();
            Step::Backup(what >> 1 & 7, what & 1 == 1)
        }
        230..240 => Step::TooBig(bytes.byte(), bytes.number(), bytes.few(2) as u32),
        240.. => Step::Open(bytes.byte()),
    }
}

fn segment(bytes: &mut Bytes) -> Lie {
    // The options present, besides the flags; the first four are as common as all others together.
    let what = bytes.few(2);
    let has = |at: u32| what >> at & 1 == 1;
    let syn = has(4);
    let flags = match what & 7 {
        0..=2 => Flags::ACK,
        3 => Flags::ACK.with(Flags::FIN),
        4 => Flags::SYN,
        5 => Flags::SYN.with(Flags::ACK),
        6 => Flags::RST.with(Flags::ACK),
        _ => Flags(bytes.byte()),
    };
    let mut lie = Lie { port: bytes.byte() % 3, flags: flags.0, window: 60_000, ..Lie::TRUTH };
    if has(3) {
        (lie.seq, lie.ack) = (bytes.number(), bytes.number());
    }
    if syn || flags.has(Flags::SYN) {
        let what = bytes.byte();
        lie.syn = Some((bytes.few(2) as u16, (what & 1 == 0).then_some(what >> 1 & 15), what & 32 == 0));
    }
    if has(5) {
        lie.window = bytes.few(2) as u16;
    }
    if has(6) {
        lie.len = bytes.few(2) as u32;
    }
    if has(7) {
        lie.timestamps = Some((bytes.few(4) as u32, bytes.few(4) as u32));
    }
    if has(8) {
        for _ in 0..=bytes.byte() % 4 {
            lie.sack.push((bytes.number(), bytes.number()));
        }
    }
    if has(9) {
        let what = bytes.byte();
        lie.dss = Some(LieDss {
            ack: (what & 1 == 0).then(|| bytes.number()),
            mapping: (what & 2 == 0).then(|| (bytes.number(), bytes.number(), bytes.few(2) as u16)),
            fin: what & 4 != 0,
            narrow: what & 8 != 0,
            checksum: (what & 16 != 0).then(|| bytes.few(2) as u16),
        });
    }
    for at in [10, 11] {
        if has(at) {
            lie.options.push(bytes.byte() % 13);
        }
    }
    if !lie.options.is_empty() {
        lie.number = bytes.number().from(1);
    }
    lie
}
