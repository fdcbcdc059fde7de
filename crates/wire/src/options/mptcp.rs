//! Option kind 30: Multipath TCP (RFC 8684 section 3).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_stack::segment::{
    AddAddress, AddressIds, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption,
    ResetReason, Segment,
};
use anabranch_stack::seq::Dsn;

use super::MPTCP;
use crate::fields::{Reader, Writer};

// The subtypes of RFC 8684 section 7.2.
const MP_CAPABLE: u8 = 0x0;
const MP_JOIN: u8 = 0x1;
const DSS: u8 = 0x2;
const ADD_ADDR: u8 = 0x3;
const REMOVE_ADDR: u8 = 0x4;
const MP_PRIO: u8 = 0x5;
const MP_FAIL: u8 = 0x6;
const MP_FASTCLOSE: u8 = 0x7;
const MP_TCPRST: u8 = 0x8;

/// MP_JOIN flag B, MP_PRIO flag B, ADD_ADDR flag E, MP_TCPRST flag T: the last bit of each.
const FLAG: u8 = 0x01;

// The flags of the data sequence signal (section 3.3).
const DSS_FIN: u8 = 0x10;
const DSS_DSN_8: u8 = 0x08;
const DSS_MAPPING: u8 = 0x04;
const DSS_ACK_8: u8 = 0x02;
const DSS_ACK: u8 = 0x01;

/// Reads one option into `segment`; `body` is the option without kind and length.
///
/// An option with an unknown subtype, a wrong length, or a form that does not belong on this segment is
/// skipped as if it were absent (section 3). Of several options with the same meaning the first counts;
/// options beyond the number that a segment can hold are skipped too.
pub(super) fn parse(body: &[u8], segment: &mut Segment) {
    let mut reader = Reader(body);
    let Some(first) = reader.u8() else { return };
    let (subtype, low) = (first >> 4, first & 0x0f);
    if subtype == DSS {
        // A SYN has nothing to map or to acknowledge.
        if !segment.flags.has(Flags::SYN) && segment.options.dss.is_none() {
            segment.options.dss = parse_dss(reader);
        }
        return;
    }
    let option = match subtype {
        MP_CAPABLE => parse_capable(reader, low, segment.flags).map(MptcpOption::Capable),
        MP_JOIN => parse_join(reader, low, segment.flags).map(MptcpOption::Join),
        ADD_ADDR => parse_add_address(reader, low).map(MptcpOption::AddAddress),
        REMOVE_ADDR => parse_remove_address(reader).map(MptcpOption::RemoveAddress),
        // Version 0 had a form with an address ID, which must be ignored.
        MP_PRIO if body.len() == 1 => Some(MptcpOption::Priority { backup: low & FLAG != 0 }),
        MP_FAIL if body.len() == 10 => parse_64(reader).map(|dsn| MptcpOption::Fail(Dsn(dsn))),
        MP_FASTCLOSE if body.len() == 10 => parse_64(reader).map(|key| MptcpOption::FastClose(Key(key))),
        MP_TCPRST if body.len() == 2 => reader
            .u8()
            .map(|reason| MptcpOption::Reset { transient: low & FLAG != 0, reason: reset_reason(reason) }),
        _ => None,
    };
    if let Some(option) = option {
        segment.options.push(option);
    }
}

/// Reads MP_CAPABLE (section 3.1). The flags of the segment and the length together determine the form;
/// version 0 had other forms of the same lengths.
fn parse_capable(mut body: Reader<'_>, version: u8, flags: Flags) -> Option<Capable> {
    let form = (flags.has(Flags::SYN), flags.has(Flags::ACK), body.0.len() + 3);
    if !matches!(form, (true, false, 4) | (true, true, 12) | (false, true, 20 | 22 | 24)) {
        return None;
    }
    let mut capable = Capable {
        version,
        flags: body.u8()?,
        sender_key: None,
        receiver_key: None,
        data_len: None,
        checksum: None,
    };
    capable.sender_key = body.u64().map(Key);
    capable.receiver_key = body.u64().map(Key);
    capable.data_len = body.u16();
    capable.checksum = body.u16();
    Some(capable)
}

/// Reads MP_JOIN (section 3.2). Reserved bits are ignored.
fn parse_join(mut body: Reader<'_>, low: u8, flags: Flags) -> Option<Join> {
    let (len, address_id) = (body.0.len() + 3, body.u8()?);
    let backup = low & FLAG != 0;
    match (flags.has(Flags::SYN), flags.has(Flags::ACK), len) {
        (true, false, 12) => Some(Join::Syn { backup, address_id, token: body.u32()?, nonce: body.u32()? }),
        (true, true, 16) => Some(Join::SynAck { backup, address_id, hmac: body.u64()?, nonce: body.u32()? }),
        (false, true, 24) => Some(Join::Ack { hmac: body.bytes()? }),
        _ => None,
    }
}

/// Reads the DSS option (section 3.3). The flags say which fields are present; two more bytes are the
/// checksum of a mapping.
fn parse_dss(mut body: Reader<'_>) -> Option<Dss> {
    let flags = body.u8()?;
    // Flag "a" counts only with "A", "m" only with "M".
    let data_ack = match (flags & DSS_ACK != 0, flags & DSS_ACK_8 != 0) {
        (false, _) => None,
        (true, false) => Some(DataAck::Narrow(body.u32()?)),
        (true, true) => Some(DataAck::Wide(Dsn(body.u64()?))),
    };
    let mapping = if flags & DSS_MAPPING != 0 {
        let dsn = if flags & DSS_DSN_8 != 0 {
            MappedDsn::Wide(Dsn(body.u64()?))
        } else {
            MappedDsn::Narrow(body.u32()?)
        };
        Some(Mapping { dsn, ssn: body.u32()?, len: body.u16()?, checksum: body.u16() })
    } else {
        None
    };
    // A DSS option that neither acknowledges nor maps has no length in the table of section 3.3.
    let whole = body.0.is_empty() && (data_ack.is_some() || mapping.is_some());
    whole.then_some(Dss { data_ack, mapping, data_fin: flags & DSS_FIN != 0 })
}

/// Reads ADD_ADDR (section 3.4.1). The length determines the address family and whether there is a port.
fn parse_add_address(mut body: Reader<'_>, low: u8) -> Option<AddAddress> {
    let echo = low & FLAG != 0;
    let (v6, with_port) = match (body.0.len() + 3, echo) {
        (16, false) | (8, true) => (false, false),
        (18, false) | (10, true) => (false, true),
        (28, false) | (20, true) => (true, false),
        (30, false) | (22, true) => (true, true),
        _ => return None,
    };
    let id = body.u8()?;
    let ip: IpAddr = if v6 {
        Ipv6Addr::from(body.bytes::<16>()?).into()
    } else {
        Ipv4Addr::from(body.bytes::<4>()?).into()
    };
    let port = if with_port { Some(body.u16()?) } else { None };
    let hmac = if echo { None } else { Some(body.u64()?) };
    Some(AddAddress { id, ip, port, hmac })
}

/// Reads REMOVE_ADDR (section 3.4.2). Of a list longer than the stack can hold, the first IDs count.
fn parse_remove_address(mut body: Reader<'_>) -> Option<AddressIds> {
    let mut ids = AddressIds::one(body.u8()?);
    while let Some(id) = body.u8() {
        ids.push(id);
    }
    Some(ids)
}

/// Reads a reserved octet and 64 bits.
fn parse_64(mut body: Reader<'_>) -> Option<u64> {
    body.u8()?;
    body.u64()
}

/// Returns the reset reason (section 3.6); a value without a meaning is unspecified.
fn reset_reason(value: u8) -> ResetReason {
    match value {
        0x01 => ResetReason::MptcpError,
        0x02 => ResetReason::LackOfResources,
        0x03 => ResetReason::Prohibited,
        0x04 => ResetReason::TooMuchOutstanding,
        0x05 => ResetReason::BadPerformance,
        0x06 => ResetReason::Middlebox,
        _ => ResetReason::Unspecified,
    }
}

fn reset_value(reason: ResetReason) -> u8 {
    match reason {
        ResetReason::Unspecified => 0x00,
        ResetReason::MptcpError => 0x01,
        ResetReason::LackOfResources => 0x02,
        ResetReason::Prohibited => 0x03,
        ResetReason::TooMuchOutstanding => 0x04,
        ResetReason::BadPerformance => 0x05,
        ResetReason::Middlebox => 0x06,
    }
}

fn start(out: &mut Writer<'_>, len: u32, subtype: u8, low: u8) {
    out.put([MPTCP, len as u8, subtype << 4 | low]);
}

/// Writes the DSS option; reserved bits are zero.
pub(super) fn write_dss(dss: &Dss, out: &mut Writer<'_>) {
    start(out, dss.wire_len(), DSS, 0);
    let ack = match dss.data_ack {
        None => 0,
        Some(DataAck::Narrow(_)) => DSS_ACK,
        Some(DataAck::Wide(_)) => DSS_ACK | DSS_ACK_8,
    };
    let mapping = match dss.mapping.map(|mapping| mapping.dsn) {
        None => 0,
        Some(MappedDsn::Narrow(_)) => DSS_MAPPING,
        Some(MappedDsn::Wide(_)) => DSS_MAPPING | DSS_DSN_8,
    };
    out.u8(ack | mapping | if dss.data_fin { DSS_FIN } else { 0 });
    match dss.data_ack {
        None => {}
        Some(DataAck::Narrow(low)) => out.u32(low),
        Some(DataAck::Wide(dsn)) => out.u64(dsn.0),
    }
    if let Some(mapping) = &dss.mapping {
        match mapping.dsn {
            MappedDsn::Narrow(low) => out.u32(low),
            MappedDsn::Wide(dsn) => out.u64(dsn.0),
        }
        out.u32(mapping.ssn);
        out.u16(mapping.len);
        if let Some(checksum) = mapping.checksum {
            out.u16(checksum);
        }
    }
}

/// Writes any other option; reserved bits are zero.
pub(super) fn write(option: &MptcpOption, out: &mut Writer<'_>) {
    let len = option.wire_len();
    let bit = u8::from;
    match option {
        MptcpOption::Capable(capable) => {
            start(out, len, MP_CAPABLE, capable.version & 0x0f);
            out.u8(capable.flags);
            // The fields that follow a missing field are missing too.
            if let Some(key) = capable.sender_key {
                out.u64(key.0);
                if let Some(key) = capable.receiver_key {
                    out.u64(key.0);
                    if let Some(data_len) = capable.data_len {
                        out.u16(data_len);
                        if let Some(checksum) = capable.checksum {
                            out.u16(checksum);
                        }
                    }
                }
            }
        }
        MptcpOption::Join(Join::Syn { backup, address_id, token, nonce }) => {
            start(out, len, MP_JOIN, bit(*backup));
            out.u8(*address_id);
            out.u32(*token);
            out.u32(*nonce);
        }
        MptcpOption::Join(Join::SynAck { backup, address_id, hmac, nonce }) => {
            start(out, len, MP_JOIN, bit(*backup));
            out.u8(*address_id);
            out.u64(*hmac);
            out.u32(*nonce);
        }
        MptcpOption::Join(Join::Ack { hmac }) => {
            start(out, len, MP_JOIN, 0);
            out.u8(0);
            out.put(*hmac);
        }
        MptcpOption::AddAddress(add) => {
            start(out, len, ADD_ADDR, bit(add.hmac.is_none()));
            out.u8(add.id);
            match add.ip {
                IpAddr::V4(ip) => out.put(ip.octets()),
                IpAddr::V6(ip) => out.put(ip.octets()),
            }
            if let Some(port) = add.port {
                out.u16(port);
            }
            if let Some(hmac) = add.hmac {
                out.u64(hmac);
            }
        }
        MptcpOption::RemoveAddress(ids) => {
            start(out, len, REMOVE_ADDR, 0);
            for id in ids.as_slice() {
                out.u8(*id);
            }
        }
        MptcpOption::Priority { backup } => start(out, len, MP_PRIO, bit(*backup)),
        MptcpOption::Fail(dsn) => {
            start(out, len, MP_FAIL, 0);
            out.u8(0);
            out.u64(dsn.0);
        }
        MptcpOption::FastClose(key) => {
            start(out, len, MP_FASTCLOSE, 0);
            out.u8(0);
            out.u64(key.0);
        }
        MptcpOption::Reset { transient, reason } => {
            start(out, len, MP_TCPRST, bit(*transient));
            out.u8(reset_value(*reason));
        }
    }
}
