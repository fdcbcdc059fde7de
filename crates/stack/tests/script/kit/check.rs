//! Compares sent segments with expected ones, and prints segments in relative numbers.

use anabranch_stack::segment::{DataAck, Flags, MappedDsn, Mapping, Segment};
use anabranch_stack::seq::Seq;

use super::Script;
use super::seg::{Map, Seg};

impl Script {
    pub(super) fn differs(&self, want: &Seg, sub: usize, segment: &Segment) -> Option<String> {
        if sub != want.sub {
            return Some(format!("subflow {sub}"));
        }
        let of = &self.subs[sub];
        let own_isn = of.own_isn.unwrap_or(Seq(0));
        let seq = i64::from(segment.seq.0.wrapping_sub(own_isn.0) as i32);
        let acked = i64::from(segment.ack.0.wrapping_sub(of.peer_isn.0) as i32);
        let flags = Flags(segment.flags.0 & !Flags::PSH.0);
        let field = |name: &str, wanted: Option<i64>, got: i64| {
            wanted.filter(|&wanted| wanted != got).map(|_| format!("{name} is {got}"))
        };
        if let Some(wanted) = want.flags.filter(|&wanted| wanted != flags) {
            return Some(format!("flags are {flags:?} and not {wanted:?}"));
        }
        let window = u64::from(segment.window) << if flags.has(Flags::SYN) { 0 } else { of.own_scale };
        let wrong = field("seq", want.seq, seq)
            .or_else(|| field("ack", want.ack, acked))
            .or_else(|| field("window", want.window.map(|w| w as i64), window as i64))
            .or_else(|| field("payload", want.payload.map(i64::from), i64::from(segment.payload_len)));
        if wrong.is_some() {
            return wrong;
        }
        let dss = segment.options.dss;
        if let Some((offset, wide)) = want.data_ack {
            let got = dss.and_then(|dss| dss.data_ack).map(|ack| self.data_ack_of(ack));
            if got != Some((offset, wide)) {
                return Some(format!("data ack is {got:?}"));
            }
        }
        if want.no_data_ack && dss.is_some_and(|dss| dss.data_ack.is_some()) {
            return Some("there is a data ack".into());
        }
        let map = dss.and_then(|dss| dss.mapping).map(|map| self.map_of(&map));
        if want.map.is_some() && map != want.map {
            return Some(format!("mapping is {map:?}"));
        }
        if let (Some(wrong), Some(map)) = (want.checksum, map) {
            let right = self.checksum_of(&map, Some(dss.is_some_and(|dss| dss.data_fin)), self.own_dsn);
            let got = dss.and_then(|dss| dss.mapping).and_then(|map| map.checksum);
            if got != Some(right ^ wrong) {
                return Some(format!("checksum is {got:?} and not {:?}", right ^ wrong));
            }
        }
        if want.no_map && map.is_some() {
            return Some("there is a mapping".into());
        }
        if want.no_dss && dss.is_some() {
            return Some("there is a DSS".into());
        }
        let fin = dss.is_some_and(|dss| dss.data_fin);
        if want.data_fin.is_some_and(|wanted| wanted != fin) {
            return Some(format!("data fin is {fin}"));
        }
        if let Some(wanted) = &want.sack {
            let got = self.blocks(sub, segment);
            if *wanted != got {
                return Some(format!("SACK blocks are {got:?}"));
            }
        }
        let options: Vec<_> = segment.options.mptcp.iter().flatten().collect();
        if let Some(missing) = want.options.iter().find(|wanted| !options.contains(wanted)) {
            return Some(format!("{missing:?} is missing"));
        }
        if want.no_options && !options.is_empty() {
            return Some(format!("there is {options:?}"));
        }
        if want.no_timestamps && segment.options.timestamps.is_some() {
            return Some("there are timestamps".into());
        }
        if let Some(wanted) = want.syn.filter(|&wanted| segment.options.syn != Some(wanted)) {
            return Some(format!("SYN options are {:?} and not {wanted:?}", segment.options.syn));
        }
        let timestamps = segment.options.timestamps.unwrap_or_default();
        field("ts value", want.value_us.map(i64::from), i64::from(timestamps.value))
            .or_else(|| field("ts echo", want.echo_us.map(i64::from), i64::from(timestamps.echo)))
    }

    fn blocks(&self, sub: usize, segment: &Segment) -> Vec<(i64, i64)> {
        let isn = self.subs[sub].peer_isn.0;
        let offset = |seq: Seq| i64::from(seq.0.wrapping_sub(isn) as i32);
        segment.options.sack.as_slice().iter().map(|&(l, r)| (offset(l), offset(r))).collect()
    }

    fn data_ack_of(&self, ack: DataAck) -> (i64, bool) {
        match ack {
            DataAck::Wide(dsn) => (dsn.distance_from(self.peer_dsn), true),
            DataAck::Narrow(low) => (i64::from(low.wrapping_sub(self.peer_dsn.0 as u32) as i32), false),
        }
    }

    pub fn map_of(&self, map: &Mapping) -> Map {
        let (data, wide) = match map.dsn {
            MappedDsn::Wide(dsn) => (dsn.distance_from(self.own_dsn), true),
            MappedDsn::Narrow(low) => (i64::from(low.wrapping_sub(self.own_dsn.0 as u32) as i32), false),
        };
        Map { data, ssn: map.ssn, len: map.len, wide }
    }

    /// Checks that the bytes of a segment are those of its mapping (row M1).
    pub(super) fn check_bytes(&self, sub: usize, segment: &Segment, stream_offset: u64) {
        let Some(isn) = self.subs[sub].own_isn.filter(|_| segment.payload_len > 0) else { return };
        let seq = segment.seq.0.wrapping_sub(isn.0);
        let start = match segment.options.dss.and_then(|dss| dss.mapping) {
            Some(map) => self.map_of(&map).data + i64::from(seq.wrapping_sub(map.ssn) as i32),
            None => i64::from(seq) - 1,
        };
        assert_eq!(stream_offset as i64, start, "the bytes of {}", self.show(sub, segment, true));
    }

    pub(super) fn show(&self, sub: usize, segment: &Segment, own: bool) -> String {
        let of = &self.subs[sub];
        let own_isn = of.own_isn.unwrap_or(Seq(0)).0;
        let (from, to) = if own { (own_isn, of.peer_isn.0) } else { (of.peer_isn.0, own_isn) };
        let seq = segment.seq.0.wrapping_sub(from) as i32;
        let ack = segment.ack.0.wrapping_sub(to) as i32;
        let mut text = format!(
            "#{sub} {:?} seq {seq} ack {ack} win {} len {}",
            segment.flags, segment.window, segment.payload_len
        );
        for &(left, right) in segment.options.sack.as_slice() {
            let edge = |seq: Seq| seq.0.wrapping_sub(to) as i32;
            text += &format!(" sack {}..{}", edge(left), edge(right));
        }
        if let Some(dss) = segment.options.dss {
            let (own_dsn, peer_dsn) =
                if own { (self.own_dsn, self.peer_dsn) } else { (self.peer_dsn, self.own_dsn) };
            match dss.data_ack {
                Some(DataAck::Wide(dsn)) => text += &format!(" data ack {}", dsn.distance_from(peer_dsn)),
                Some(DataAck::Narrow(low)) => {
                    text += &format!(" data ack32 {}", low.wrapping_sub(peer_dsn.0 as u32) as i32);
                }
                None => {}
            }
            if let Some(map) = dss.mapping {
                let data = match map.dsn {
                    MappedDsn::Wide(dsn) => dsn.distance_from(own_dsn),
                    MappedDsn::Narrow(low) => i64::from(low.wrapping_sub(own_dsn.0 as u32) as i32),
                };
                text += &format!(" map {data}+{}@{}", map.len, map.ssn);
            }
            if dss.data_fin {
                text += " DATA_FIN";
            }
        }
        for option in segment.options.mptcp.iter().flatten() {
            text += &format!(" {option:?}");
        }
        text
    }
}
