//! Builds a false segment: each number is the correct one, as far as known, plus a difference.

use anabranch_stack::checksum::of_mapping;
use anabranch_stack::crypto;
use anabranch_stack::segment::{
    AddAddress, AddressIds, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption,
    ResetReason, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::{Dsn, Seq};

use super::step::{Lie, LieDss, Number};
use super::target::Target;
use crate::harness::client_ip;

impl Target {
    pub(super) fn segment(&self, at: usize, lie: &Lie) -> Segment {
        let (source, destination) = self.addresses(at);
        let heard = self.known[at].last;
        let opening = lie.flags & Flags::SYN.0 != 0;
        let expected = match heard {
            Some(last) if !opening && last.ack.0 != 0 => last.ack.0,
            _ if opening => self.isn,
            _ => self.isn.wrapping_add(1),
        };
        let expected_ack = heard.map_or(0, |last| last.seq.add(last.seq_len()).0);
        let near = |number: Number, right: u32| number.from(right.into()) as u32;
        let mut segment = Segment::new(source, destination, Seq(near(lie.seq, expected)), Flags(lie.flags));
        segment.ack = Seq(near(lie.ack, expected_ack));
        segment.window = lie.window;
        segment.payload_len = lie.len;
        segment.options.timestamps = lie.timestamps.map(|(value, echo)| Timestamps { value, echo });
        for &(left, right) in &lie.sack {
            segment.options.sack.push(Seq(near(left, expected_ack)), Seq(near(right, expected_ack)));
        }
        segment.options.syn = lie.syn.map(|(mss, window_scale, sack_permitted)| SynOptions {
            mss,
            window_scale,
            sack_permitted,
        });
        segment.options.dss = lie.dss.as_ref().map(|dss| self.dss(dss, expected.wrapping_sub(self.isn)));
        for &option in &lie.options {
            segment.options.push(self.option(at, option, lie.number));
        }
        segment
    }

    /// `ssn` is the subflow's next number.
    fn dss(&self, lie: &LieDss, ssn: u32) -> Dss {
        let wide = |number| Dsn(number);
        let data_ack = lie.ack.map(|ack| {
            let number = ack.from(self.sent.0);
            if lie.narrow { DataAck::Narrow(number as u32) } else { DataAck::Wide(wide(number)) }
        });
        let next = self.asked.unwrap_or(Dsn(self.base).add(1));
        let mapping = lie.mapping.map(|(data, subflow, len)| {
            let dsn = wide(data.from(next.0));
            let ssn = subflow.from(ssn.into()) as u32;
            let right = if len == 0 { 0 } else { of_mapping(dsn, ssn, len, 0) };
            Mapping {
                dsn: if lie.narrow { MappedDsn::Narrow(dsn.0 as u32) } else { MappedDsn::Wide(dsn) },
                ssn,
                len,
                checksum: lie.checksum.map(|wrong| wrong ^ right),
            }
        });
        Dss { data_ack, mapping, data_fin: lie.fin }
    }

    /// Returns the MPTCP option number `which`. Codes and keys are correct unless `number` is a multiple of
    /// 4.
    fn option(&self, at: usize, which: u8, number: u64) -> MptcpOption {
        let key = self.keys[number as usize % self.keys.len()];
        let token = self.tokens[number as usize % self.tokens.len()];
        let own = self.keys[self.keys.len() - 1];
        let low = number as u32;
        let right = !number.is_multiple_of(4);
        let ip = client_ip((number % 7) as usize);
        let known = &self.known[at];
        let capable = |sender_key, receiver_key, data_len| {
            MptcpOption::Capable(Capable {
                version: 1,
                flags: if number.is_multiple_of(5) { number as u8 } else { Capable::HMAC_SHA256 },
                sender_key,
                receiver_key,
                data_len,
                checksum: None,
            })
        };
        match which {
            0 => capable(None, None, None),
            1 => capable(Some(Key(number)), None, None),
            2 => capable(Some(Key(number)), Some(if right { own } else { key }), None),
            3 => capable(Some(Key(number)), Some(key), Some(number as u16)),
            4 => {
                let token = if right { crypto::token(own) } else { token };
                MptcpOption::Join(Join::Syn {
                    backup: low & 1 == 0,
                    address_id: low as u8,
                    token,
                    nonce: low,
                })
            }
            5 => {
                let code = crypto::join_hmac(self.told, own, low, known.nonce);
                let hmac = if right { crypto::leftmost_64(&code) } else { number };
                MptcpOption::Join(Join::SynAck {
                    backup: low & 16 != 0,
                    address_id: low as u8,
                    hmac,
                    nonce: low,
                })
            }
            6 => {
                let code = crypto::join_hmac(self.told, own, known.own_nonce, known.nonce);
                let hmac = if right { crypto::leftmost_160(&code) } else { [number as u8; 20] };
                MptcpOption::Join(Join::Ack { hmac })
            }
            7 => {
                let (id, port) = (low as u8, (low & 32 != 0).then_some(low as u16));
                let code = crypto::add_address_hmac(self.told, own, id, ip, port);
                let hmac = (!number.is_multiple_of(3)).then_some(if right { code } else { number });
                MptcpOption::AddAddress(AddAddress { id, ip, port, hmac })
            }
            8 => MptcpOption::RemoveAddress(AddressIds::one((number % 4) as u8)),
            9 => MptcpOption::Priority { backup: number.is_multiple_of(2) },
            10 => MptcpOption::FastClose(if right { own } else { Key(number) }),
            11 => MptcpOption::Fail(Dsn(Number::Near(low as i32 >> 8).from(self.sent.0))),
            _ => MptcpOption::Reset { transient: number.is_multiple_of(2), reason: ResetReason::default() },
        }
    }
}
