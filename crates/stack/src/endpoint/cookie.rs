//! SYN cookies: the peer keeps the state of half-open connections (RFC 4987 section 3.6).
//!
//! The SYN/ACK's sequence number and its MP_CAPABLE key are keyed hashes of the SYN. The third segment
//! returns both, so the answer needs no state, and the connection is still Multipath TCP: RFC 8684 section
//! 3.1 puts both keys in the third ACK for this purpose.
//!
//! | bits of the sequence number | |
//! |---|---|
//! | 31 | which of two secrets |
//! | 30 to 28 | the peer's MSS, rounded down to one of eight |
//! | 27 to 0 | the hash |
//!
//! Window scale, SACK and ECN are in the low bits of the SYN/ACK's timestamp, which the peer echoes, in the
//! format that Linux uses. A peer without timestamps gets none of the three.
//!
//! Each secret makes cookies for 64 s and is valid for another 64 s; then a new one is drawn.

use anabranch_units::{Duration, Time};

use crate::config::{Checksums, Entropy, SimConfig};
use crate::connection::{RecvState, find_capable, own_scale};
use crate::crypto::{self, CookieSecret};
use crate::segment::{Capable, Flags, Key, MptcpOption, Segment, SynOptions, Timestamps};
use crate::seq::Seq;
use crate::shard::Shard;
use crate::subflow::ecn::EcnState;
use crate::timestamp::TimestampTick;

/// The duration for which one secret makes cookies. A cookie is valid for at least this time and at most
/// twice this time.
const EPOCH: Duration = Duration::from_secs(64);

/// The MSS values that a cookie can encode, in bytes. The lowest is the minimum payload of a segment of this
/// stack; 1220 follows from IPv6's minimum MTU; 1380 and 1440 are 1460 less the overhead of common tunnels.
const MSS: [u16; 8] = [64, 536, 1220, 1300, 1380, 1440, 1460, 8940];
const MSS_SHIFT: u32 = 28;
const SECRET_SHIFT: u32 = 31;
const HASH: u32 = (1 << MSS_SHIFT) - 1;

/// The bits of a timestamp that encode options rather than time: 0 to 3 the window scale, or 15 if there is
/// none, 4 SACK, 5 ECN.
const STAMP_OPTIONS: u32 = 0x3f;
const NO_SCALE: u32 = 0xf;
const STAMP_SACK: u32 = 0x10;
const STAMP_ECN: u32 = 0x20;

/// The number of accepted cookies to remember, so that a copy of a third segment opens nothing after its
/// connection has ended.
const SPENT: usize = 1024;

/// A secret and its epoch.
#[derive(Clone, Debug)]
struct Secret {
    epoch: u64,
    secret: CookieSecret,
}

/// The state with which a host makes and verifies cookies.
#[derive(Clone, Debug)]
pub(super) struct Cookies {
    /// The secrets of even and odd epochs.
    secrets: [Option<Secret>; 2],
    /// The keys of recently accepted cookies, each at a position derived from the key; empty before the
    /// first.
    spent: Vec<u64>,
    /// The time at which the last cookie sent expires.
    good_until: Time,
    shard: Shard,
}

/// A cookie: the fields of a SYN/ACK that a third segment must repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cookie {
    /// The local initial sequence number.
    pub isn: Seq,
    /// The local key, if the connection is Multipath TCP.
    pub key: Key,
}

impl Cookies {
    /// Returns the state of an endpoint that has sent no cookie.
    pub(super) fn new(shard: Shard) -> Cookies {
        Cookies { secrets: [None, None], spent: Vec::new(), good_until: Time::ZERO, shard }
    }

    /// True if a cookie that was sent may still be returned.
    pub(super) fn are_out(&self, now: Time) -> bool {
        now < self.good_until
    }

    /// Makes the cookie that answers `syn`.
    pub(super) fn make(&mut self, now: Time, entropy: &mut Entropy, syn: &Segment) -> Cookie {
        let epoch = epoch_of(now);
        self.good_until = Time::ZERO + EPOCH * (epoch + 2);
        let place = &mut self.secrets[(epoch % 2) as usize];
        if place.as_ref().is_none_or(|secret| secret.epoch != epoch) {
            let bits = [(); 4].map(|()| entropy.next_u64());
            *place = Some(Secret { epoch, secret: CookieSecret::new(bits) });
        }
        let mss = syn.options.syn.map_or(536, |syn| syn.mss);
        let mss = MSS.iter().rposition(|&known| known <= mss).unwrap_or(0) as u32;
        match place {
            Some(Secret { secret, .. }) => {
                let code = secret.code(syn.destination, syn.source, syn.seq);
                Cookie { isn: isn_of(&code, epoch, mss), key: key_of(&code, self.shard) }
            }
            None => Cookie { isn: Seq(0), key: Key(0) },
        }
    }

    /// Returns the cookie that `third` acknowledges, and the SYN it answered as far as it is known; `None` if
    /// it was not sent by this host, has expired, or has already opened a connection.
    pub(super) fn check(&self, now: Time, third: &Segment) -> Option<(Cookie, Segment)> {
        let isn = third.ack.add(u64::from(u32::MAX));
        let syn = third.seq.add(u64::from(u32::MAX));
        let secret = self.secrets[(isn.0 >> SECRET_SHIFT) as usize].as_ref()?;
        if epoch_of(now).saturating_sub(secret.epoch) > 1 {
            return None;
        }
        let mss = isn.0 >> MSS_SHIFT & 7;
        let code = secret.secret.code(third.destination, third.source, syn);
        // First the comparison: a key costs several hashes.
        if isn_of(&code, secret.epoch, mss) != isn {
            return None;
        }
        let cookie = Cookie { isn, key: key_of(&code, self.shard) };
        if self.spent.get(place_of(cookie.key)) == Some(&cookie.key.0) {
            return None;
        }
        Some((cookie, rebuild(third, syn, MSS[mss as usize])))
    }

    /// Records that the cookie has opened a connection, so that it opens no other.
    pub(super) fn spend(&mut self, cookie: Cookie) {
        if self.spent.is_empty() {
            self.spent = vec![0; SPENT];
        }
        if let Some(place) = self.spent.get_mut(place_of(cookie.key)) {
            *place = cookie.key.0;
        }
    }
}

fn isn_of(code: &[u8; 32], epoch: u64, mss: u32) -> Seq {
    let hash = u32::from_be_bytes([code[31], code[30], code[29], code[28]]) & HASH;
    Seq(((epoch % 2) as u32) << SECRET_SHIFT | mss << MSS_SHIFT | hash)
}

/// Returns the first key from the one in the code on with a token of this endpoint. It is as hard to guess.
fn key_of(code: &[u8; 32], shard: Shard) -> Key {
    let mut key = Key(crypto::leftmost_64(code));
    while !shard.has_token(crypto::token(key)) {
        key = Key(key.0.wrapping_add(1));
    }
    key
}

const fn epoch_of(now: Time) -> u64 {
    now.as_nanos() / EPOCH.as_nanos()
}

const fn place_of(key: Key) -> usize {
    key.0 as usize % SPENT
}

/// Returns the SYN/ACK with a cookie in answer to `syn`. `config` is the negotiated configuration.
pub(super) fn syn_ack(
    cookie: Cookie,
    mptcp: bool,
    now: Time,
    tick: TimestampTick,
    syn: &Segment,
    config: &SimConfig,
) -> Segment {
    let headers = if syn.destination.ip.is_ipv4() { 40 } else { 60 };
    let mut answer = Segment::new(syn.destination, syn.source, cookie.isn, Flags::SYN.with(Flags::ACK));
    answer.ack = syn.seq.add(1);
    answer.window = RecvState::new(config.receive_buffer).window_field(0);
    let mut options = SynOptions {
        mss: config.mtu.saturating_sub(headers).min(65_535) as u16,
        window_scale: None,
        sack_permitted: false,
    };
    if let Some(timestamps) = syn.options.timestamps.filter(|_| config.timestamps) {
        let offered = syn.options.syn.unwrap_or_default();
        let scale = own_scale(config.receive_buffer.max().get());
        let peer = SynOptions { sack_permitted: offered.sack_permitted && config.sack, ..offered };
        let mut ecn = EcnState::default();
        ecn.negotiate(syn, config.ecn);
        options.window_scale = offered.window_scale.map(|_| scale);
        options.sack_permitted = peer.sack_permitted;
        answer.flags = answer.flags.with(ecn.syn_flags(true, false));
        let value = stamp(tick, now, peer, ecn.is_agreed());
        answer.options.timestamps = Some(Timestamps { value, echo: timestamps.value });
    }
    answer.options.syn = Some(options);
    if mptcp {
        let checksum = if config.checksums == Checksums::Required { Capable::CHECKSUM } else { 0 };
        answer.options.push(MptcpOption::Capable(Capable {
            version: 1,
            flags: Capable::HMAC_SHA256 | checksum,
            sender_key: Some(cookie.key),
            receiver_key: None,
            data_len: None,
            checksum: None,
        }));
    }
    answer
}

/// Returns the timestamp of a SYN/ACK with a cookie: at most `now`, and with the options of `syn` in its low
/// bits.
pub(super) fn stamp(tick: TimestampTick, now: Time, syn: SynOptions, ecn: bool) -> u32 {
    let now = tick.value(now);
    let mut options = syn.window_scale.map_or(NO_SCALE, |shift| u32::from(shift.min(14)));
    options |= if syn.sack_permitted { STAMP_SACK } else { 0 };
    options |= if ecn { STAMP_ECN } else { 0 };
    let stamp = now & !STAMP_OPTIONS | options;
    // Later timestamps must not be lower.
    if options > now & STAMP_OPTIONS { stamp.wrapping_sub(STAMP_OPTIONS + 1) } else { stamp }
}

/// Rebuilds the SYN from `third` and the cookie.
fn rebuild(third: &Segment, seq: Seq, mss: u16) -> Segment {
    let mut syn = Segment::new(third.source, third.destination, seq, Flags::SYN);
    if !third.options.have_no_mptcp() {
        // Only a peer that offered Multipath TCP sends MP_CAPABLE here. It repeats the checksum flag (RFC
        // 8684 section 3.1).
        let checksum = find_capable(&third.options).map_or(0, |capable| capable.flags & Capable::CHECKSUM);
        syn.options.push(MptcpOption::Capable(Capable {
            version: 1,
            flags: Capable::HMAC_SHA256 | checksum,
            sender_key: None,
            receiver_key: None,
            data_len: None,
            checksum: None,
        }));
    }
    let mut options = SynOptions { mss, window_scale: None, sack_permitted: false };
    if let Some(timestamps) = third.options.timestamps {
        let echo = timestamps.echo;
        options.sack_permitted = echo & STAMP_SACK != 0;
        options.window_scale =
            Some(echo & NO_SCALE).filter(|&shift| shift != NO_SCALE).map(|shift| shift as u8);
        if echo & STAMP_ECN != 0 {
            syn.flags = syn.flags.with(Flags::ECE).with(Flags::CWR);
        }
        syn.options.timestamps = Some(Timestamps { value: timestamps.value, echo: 0 });
    }
    syn.options.syn = Some(options);
    syn
}

#[cfg(test)]
mod tests {
    use anabranch_units::RandomStream;

    use super::*;
    use crate::segment::Address;

    fn syn(mss: u16) -> Segment {
        let end = |host, port| Address::new([10, 0, 0, host].into(), port);
        let mut syn = Segment::new(end(2, 5000), end(1, 80), Seq(7), Flags::SYN);
        syn.options.syn = Some(SynOptions { mss, window_scale: None, sack_permitted: false });
        syn
    }

    fn third(cookie: Cookie) -> Segment {
        let syn = syn(0);
        let mut third = Segment::new(syn.source, syn.destination, Seq(8), Flags::ACK);
        third.ack = cookie.isn.add(1);
        third
    }

    fn entropy() -> Entropy {
        Entropy::Seeded(RandomStream::new(1, "cookies"))
    }

    #[test]
    fn a_secret_is_good_in_its_epoch_and_in_the_next() {
        // Made at the beginning, in the middle and at the end of an epoch.
        for made in [0, 20, 63] {
            let (mut cookies, mut entropy) = (Cookies::new(Shard::WHOLE), entropy());
            let cookie = cookies.make(Time::from_secs(made), &mut entropy, &syn(1460));
            for later in made..500 {
                let now = Time::from_secs(later);
                let known = cookies.check(now, &third(cookie)).map(|(known, _)| known);
                assert_eq!(known, Some(cookie).filter(|_| later < 128), "made at {made}, back at {later}");
                assert_eq!(cookies.are_out(now), later < 128);
            }
            // A later cookie does not make it valid again.
            for later in [130, 200, 260] {
                let mut cookies = cookies.clone();
                let other = cookies.make(Time::from_secs(later), &mut entropy, &syn(1460));
                assert!(cookies.are_out(Time::from_secs(later)) && other.key != cookie.key);
                assert_eq!(cookies.check(Time::from_secs(later), &third(cookie)), None, "at {later}");
                assert!(cookies.check(Time::from_secs(later), &third(other)).is_some());
            }
        }
    }

    #[test]
    fn a_secret_replaces_that_of_the_epoch_before_the_last() {
        let (mut cookies, mut entropy) = (Cookies::new(Shard::WHOLE), entropy());
        let [first, second, third] =
            [10, 70, 130].map(|at| cookies.make(Time::from_secs(at), &mut entropy, &syn(1460)));
        assert!(first.key != third.key && first.isn != third.isn);
        let good = |cookie| cookies.check(Time::from_secs(130), &super::tests::third(cookie)).is_some();
        assert_eq!([first, second, third].map(good), [false, true, true]);
    }

    #[test]
    fn the_mss_is_rounded_down() {
        let (mut cookies, mut entropy) = (Cookies::new(Shard::WHOLE), entropy());
        let cases = [(0, 64), (64, 64), (535, 64), (536, 536), (1219, 536), (1220, 1220), (1460, 1460)];
        for (offered, kept) in cases.into_iter().chain([(1299, 1220), (1461, 1460), (65_535, 8940)]) {
            let cookie = cookies.make(Time::ZERO, &mut entropy, &syn(offered));
            let (_, again) = cookies.check(Time::ZERO, &third(cookie)).expect("a valid cookie");
            assert_eq!(again.options.syn.map(|syn| syn.mss), Some(kept), "{offered}");
            assert_eq!((again.seq, again.source), (Seq(7), syn(0).source));
        }
        // RFC 9293 section 3.7.1: without the option the MSS is 536.
        let mut bare = syn(0);
        bare.options.syn = None;
        let cookie = cookies.make(Time::ZERO, &mut entropy, &bare);
        assert_eq!(cookie.isn.0 >> MSS_SHIFT & 7, 1);
    }

    #[test]
    fn a_stamp_keeps_the_options_and_is_no_later_than_now() {
        let tick = TimestampTick::MILLISECOND;
        for now in (0..300).chain([u64::from(u32::MAX), 1 << 32, (1 << 32) + 5]) {
            for (shift, sack, ecn) in [(None, true, false), (Some(0), false, false), (Some(14), true, true)] {
                let options = SynOptions { mss: 0, window_scale: shift, sack_permitted: sack };
                let value = stamp(tick, Time::from_millis(now), options, ecn);
                assert!((now as u32).wrapping_sub(value) < 64, "{value} at {now}");
                let mut third = third(Cookie { isn: Seq(0), key: Key(0) });
                third.options.timestamps = Some(Timestamps { value: 0, echo: value });
                let again = rebuild(&third, Seq(0), 1460);
                let kept = again.options.syn.map(|syn| (syn.window_scale, syn.sack_permitted));
                assert_eq!((kept, again.flags.has(Flags::ECE)), (Some((shift, sack)), ecn));
            }
        }
    }
}
