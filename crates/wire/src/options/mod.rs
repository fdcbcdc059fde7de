//! The options of a TCP header.

mod mptcp;

use anabranch_stack::segment::{Flags, OPTION_SPACE, Options, SackBlocks, Segment, SynOptions, Timestamps};
use anabranch_stack::seq::Seq;

use crate::fields::{Reader, Writer};

const END: u8 = 0;
pub(crate) const NOP: u8 = 1;
pub(crate) const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// Multipath TCP (RFC 8684).
pub(crate) const MPTCP: u8 = 30;

/// RFC 7323 section 2.3: a greater shift counts as this one.
const MAX_WINDOW_SCALE: u8 = 14;

/// Reads the options of `segment`. Its flags and payload length are known already.
///
/// An option with an impossible length ends the list, since the bytes that follow cannot be interpreted.
pub(crate) fn parse(bytes: &[u8], segment: &mut Segment) {
    let syn = segment.flags.has(Flags::SYN);
    if syn {
        let mss = default_mss(segment);
        segment.options.syn = Some(SynOptions { mss, window_scale: None, sack_permitted: false });
    }
    let mut reader = Reader(bytes);
    while let Some(kind) = reader.u8() {
        if kind == NOP {
            continue;
        }
        if kind == END {
            return;
        }
        let Some(len) = reader.u8() else { return };
        let Some((body, rest)) =
            usize::from(len).checked_sub(2).and_then(|len| reader.0.split_at_checked(len))
        else {
            return;
        };
        reader.0 = rest;
        if kind == MPTCP {
            mptcp::parse(body, segment);
        } else {
            // An option of a wrong length is skipped.
            let _ = parse_one(kind, Reader(body), &mut segment.options);
        }
    }
}

fn parse_one(kind: u8, mut body: Reader<'_>, options: &mut Options) -> Option<()> {
    match (kind, body.0.len()) {
        (MSS, 2) => {
            let mss = body.u16()?;
            // An MSS of zero would allow no segment.
            if mss > 0 {
                options.syn.as_mut()?.mss = mss;
            }
        }
        (WINDOW_SCALE, 1) => {
            options.syn.as_mut()?.window_scale = Some(body.u8()?.min(MAX_WINDOW_SCALE));
        }
        (SACK_PERMITTED, 0) => options.syn.as_mut()?.sack_permitted = true,
        (SACK, 8 | 16 | 24 | 32) => {
            let mut blocks = SackBlocks::EMPTY;
            while let (Some(left), Some(right)) = (body.u32(), body.u32()) {
                blocks.push(Seq(left), Seq(right));
            }
            options.sack = blocks;
        }
        (TIMESTAMPS, 8) => {
            options.timestamps = Some(Timestamps { value: body.u32()?, echo: body.u32()? });
        }
        _ => {}
    }
    Some(())
}

/// Returns the MSS of a peer that sends no MSS option (RFC 9293 section 3.7.1).
fn default_mss(segment: &Segment) -> u16 {
    if segment.source.ip.is_ipv4() { 536 } else { 1220 }
}

/// Returns the bytes of the options of `segment` and their length, a multiple of four; none if they do not
/// fit.
///
/// The order is as in Linux: MPTCP last, each TCP option preceded by NOPs for alignment as
/// [`Options::wire_len`] counts them. If that is too long the options are packed without NOPs.
pub(crate) fn emit(segment: &Segment) -> Option<([u8; OPTION_SPACE as usize], usize)> {
    let mut space = [0; OPTION_SPACE as usize];
    let mut len = write(&segment.options, None, &mut space);
    if len.is_none() {
        len = write(&segment.options, Some(default_mss(segment)), &mut space);
    }
    len.map(|len| (space, len))
}

/// Writes `options`. If packed, the MSS is left out when it equals the default, `packed`.
fn write(options: &Options, packed: Option<u16>, space: &mut [u8]) -> Option<usize> {
    let mut out = Writer::new(space);
    let align = packed.is_none();
    let nops = |out: &mut Writer<'_>, count: usize| {
        for _ in 0..if align { count } else { 0 } {
            out.u8(NOP);
        }
    };
    let mut sack_permitted = false;
    if let Some(syn) = &options.syn {
        if packed != Some(syn.mss) {
            out.put([MSS, 4]);
            out.u16(syn.mss);
        }
        sack_permitted = syn.sack_permitted;
        if sack_permitted {
            // Shares its alignment with the timestamps if there are any.
            nops(&mut out, if options.timestamps.is_none() { 2 } else { 0 });
            out.put([SACK_PERMITTED, 2]);
        }
    }
    if let Some(timestamps) = &options.timestamps {
        nops(&mut out, if sack_permitted { 0 } else { 2 });
        out.put([TIMESTAMPS, 10]);
        out.u32(timestamps.value);
        out.u32(timestamps.echo);
    }
    if let Some(shift) = options.syn.as_ref().and_then(|syn| syn.window_scale) {
        nops(&mut out, 1);
        out.put([WINDOW_SCALE, 3, shift]);
    }
    if !options.sack.is_empty() {
        let blocks = options.sack.as_slice();
        nops(&mut out, 2);
        out.put([SACK, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out.u32(left.0);
            out.u32(right.0);
        }
    }
    if let Some(dss) = &options.dss {
        mptcp::write_dss(dss, &mut out);
    }
    for option in options.mptcp.iter().flatten() {
        mptcp::write(option, &mut out);
    }
    out.pad(NOP);
    out.finish()
}
