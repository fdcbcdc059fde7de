//! TCP's options and every subtype and form of option 30, byte by byte (RFC 8684 section 3).
//!
//! The vectors have Key-A = 0001020304050607 and Key-B = 08090a0b0c0d0e0f, and nonces 11223344 and
//! aabbccdd; tokens, initial data sequence numbers and codes follow from them.

use anabranch_stack::segment::{
    AddAddress, AddressIds, Capable, DataAck, Dss, Flags, Join, Key, MappedDsn, Mapping, MptcpOption,
    Options, ResetReason, SackBlocks, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_wire::{Checksums, parse};

use crate::kit::{ACK, RST, SYN, SYN_ACK, hex, packet_of, read, segment, v4, v6, written};

const KEY_A: Key = Key(0x0001_0203_0405_0607);
const KEY_B: Key = Key(0x0809_0a0b_0c0d_0e0f);
const DSN_A: Dsn = Dsn(0xe3db_22c6_785a_0d45);
const DSN_B: Dsn = Dsn(0x9ac0_c6c2_9ef6_1a05);

fn capable(flags: u8) -> Capable {
    Capable { version: 1, flags, sender_key: None, receiver_key: None, data_len: None, checksum: None }
}

fn one(option: MptcpOption) -> Options {
    let mut options = Options::NONE;
    options.push(option);
    options
}

fn signal(data_ack: Option<DataAck>, mapping: Option<Mapping>, data_fin: bool) -> Options {
    Options { dss: Some(Dss { data_ack, mapping, data_fin }), ..Options::NONE }
}

/// Asserts that `bytes` are parsed as `options`, and are the same, padded, when written again.
#[track_caller]
fn same(flags: Flags, payload: usize, bytes: &str, mut options: Options) {
    let bytes = hex(bytes);
    assert_eq!(usize::from(bytes[1]), bytes.len(), "the vector is whole");
    if flags.has(Flags::SYN) {
        options.syn = Some(SynOptions { mss: 536, window_scale: None, sack_permitted: false });
    }
    assert_eq!(read(flags, &bytes, payload), options);
    options.syn = None;
    let mut padded = bytes;
    padded.resize(padded.len().div_ceil(4) * 4, 1);
    assert_eq!(written(flags, options), padded);
}

/// Asserts that `bytes` are ignored.
#[track_caller]
fn skipped(flags: Flags, payload: usize, bytes: &str) {
    let mut options = read(flags, &hex(bytes), payload);
    options.syn = None;
    assert_eq!(options, Options::NONE);
}

#[test]
fn mp_capable_in_its_five_forms() {
    let form = |c: Capable| one(MptcpOption::Capable(c));
    same(SYN, 0, "1e040101", form(capable(0x01)));
    same(SYN, 0, "1e040181", form(capable(0x81)));
    let answer = Capable { sender_key: Some(KEY_B), ..capable(0x01) };
    same(SYN_ACK, 0, "1e0c0101 08090a0b0c0d0e0f", form(answer));
    let third = Capable { sender_key: Some(KEY_A), receiver_key: Some(KEY_B), ..capable(0x01) };
    same(ACK, 0, "1e140101 0001020304050607 08090a0b0c0d0e0f", form(third));
    let data = Capable { data_len: Some(5), ..third };
    same(ACK, 5, "1e160101 0001020304050607 08090a0b0c0d0e0f 0005", form(data));
    let checked = Capable { flags: 0x81, checksum: Some(0x2fe5), ..data };
    same(ACK, 5, "1e180181 0001020304050607 08090a0b0c0d0e0f 0005 2fe5", form(checked));
    // A future version is for the stack to answer (section 3.1).
    same(SYN, 0, "1e040201", form(Capable { version: 2, ..capable(0x01) }));
}

#[test]
fn the_form_of_mp_capable_is_chosen_by_the_bits_of_the_segment_too() {
    // Version 0 had its key on the SYN.
    skipped(SYN, 0, "1e0c0001 08090a0b0c0d0e0f");
    skipped(SYN, 0, "1e140101 0001020304050607 08090a0b0c0d0e0f");
    skipped(SYN_ACK, 0, "1e040101");
    skipped(SYN_ACK, 0, "1e140101 0001020304050607 08090a0b0c0d0e0f");
    skipped(ACK, 0, "1e040101");
    skipped(ACK, 0, "1e0c0101 08090a0b0c0d0e0f");
    skipped(RST, 0, "1e140101 0001020304050607 08090a0b0c0d0e0f");
}

#[test]
fn mp_join_in_its_three_forms() {
    let syn = |backup| {
        one(MptcpOption::Join(Join::Syn { backup, address_id: 2, token: 0x3417_9de5, nonce: 0x1122_3344 }))
    };
    same(SYN, 0, "1e0c1002 34179de5 11223344", syn(false));
    same(SYN, 0, "1e0c1102 34179de5 11223344", syn(true));
    let answer =
        Join::SynAck { backup: false, address_id: 0, hmac: 0x34e0_ca3a_6df1_7d20, nonce: 0xaabb_ccdd };
    same(SYN_ACK, 0, "1e101000 34e0ca3a6df17d20 aabbccdd", one(MptcpOption::Join(answer)));
    let hmac = hex("820537c6d14447d17344e628d2e4af41cbb80463");
    let third = Join::Ack { hmac: hmac.try_into().expect("20 bytes") };
    same(ACK, 0, "1e181000 820537c6d14447d17344e628d2e4af41cbb80463", one(MptcpOption::Join(third)));
    skipped(SYN_ACK, 0, "1e0c1002 34179de5 11223344");
    skipped(SYN, 0, "1e101000 34e0ca3a6df17d20 aabbccdd");
    skipped(ACK, 0, "1e101000 34e0ca3a6df17d20 aabbccdd");
    skipped(SYN, 0, "1e181000 820537c6d14447d17344e628d2e4af41cbb80463");
}

#[test]
fn reserved_bits_are_sent_as_zero_and_not_looked_at() {
    // `same` has shown that they are written as zero.
    let syn = Join::Syn { backup: true, address_id: 2, token: 1, nonce: 2 };
    assert_eq!(read(SYN, &hex("1e0c1f02 00000001 00000002"), 0).mptcp[0], Some(MptcpOption::Join(syn)));
    let answer = Join::SynAck { backup: false, address_id: 2, hmac: 1, nonce: 2 };
    assert_eq!(
        read(SYN_ACK, &hex("1e101e02 0000000000000001 00000002"), 0).mptcp[0],
        Some(MptcpOption::Join(answer))
    );
    let third = read(ACK, &hex("1e181fff 820537c6d14447d17344e628d2e4af41cbb80463"), 0);
    assert!(matches!(third.mptcp[0], Some(MptcpOption::Join(Join::Ack { .. }))));
    let ack = signal(Some(DataAck::Narrow(7)), None, false);
    assert_eq!(read(ACK, &hex("1e082fe1 00000007"), 0), ack);
    let add = AddAddress { id: 1, ip: [192, 0, 2, 1].into(), port: None, hmac: Some(5) };
    assert_eq!(read(ACK, &hex("1e103e01 c0000201 0000000000000005"), 0), one(MptcpOption::AddAddress(add)));
    let reset = MptcpOption::Reset { transient: false, reason: ResetReason::LackOfResources };
    assert_eq!(read(RST, &hex("1e048e02"), 0), one(reset));
    assert_eq!(read(ACK, &hex("1e035e"), 0), one(MptcpOption::Priority { backup: false }));
    assert_eq!(read(ACK, &hex("1e0c6fff 0000000000000009"), 0), one(MptcpOption::Fail(Dsn(9))));
    assert_eq!(read(ACK, &hex("1e0c7fff 0000000000000009"), 0), one(MptcpOption::FastClose(Key(9))));
}

#[test]
fn the_data_sequence_signal_in_all_its_sizes() {
    let wide = Some(DataAck::Wide(Dsn(DSN_A.0 + 6)));
    let narrow = Some(DataAck::Narrow(0x785a_0d4b));
    same(ACK, 0, "1e082001 785a0d4b", signal(narrow, None, false));
    same(ACK, 0, "1e0c2003 e3db22c6785a0d4b", signal(wide, None, false));
    let map = |dsn, checksum| Some(Mapping { dsn, ssn: 1, len: 100, checksum });
    let (low, full) = (MappedDsn::Narrow(DSN_B.0 as u32 + 1), MappedDsn::Wide(Dsn(DSN_B.0 + 1)));
    for (payload, sum, tail) in [(100, None, ""), (100, Some(0xbeef), "beef")] {
        let extra = tail.len() / 2;
        let case = |len: usize, flags: &str, fields: &str, data_ack, dsn| {
            let bytes = format!("1e{:02x}20{flags} {fields} 00000001 0064 {tail}", len + extra);
            same(ACK, payload, &bytes, signal(data_ack, map(dsn, sum), false));
        };
        case(14, "04", "9ef61a06", None, low);
        case(18, "0c", "9ac0c6c29ef61a06", None, full);
        case(18, "05", "785a0d4b 9ef61a06", narrow, low);
        case(22, "0d", "785a0d4b 9ac0c6c29ef61a06", narrow, full);
        case(22, "07", "e3db22c6785a0d4b 9ef61a06", wide, low);
        case(26, "0f", "e3db22c6785a0d4b 9ac0c6c29ef61a06", wide, full);
    }
    let end = Mapping { dsn: MappedDsn::Wide(Dsn(DSN_B.0 + 101)), ssn: 0, len: 1, checksum: None };
    let fin = |map| signal(Some(DataAck::Wide(Dsn(DSN_A.0 + 6))), Some(map), true);
    same(ACK, 0, "1e1a201f e3db22c6785a0d4b 9ac0c6c29ef61a6a 00000000 0001", fin(end));
    let checked = Mapping { checksum: Some(0x73b7), ..end };
    same(ACK, 0, "1e1c201f e3db22c6785a0d4b 9ac0c6c29ef61a6a 00000000 0001 73b7", fin(checked));
}

#[test]
fn widths_without_their_field_are_ignored() {
    // "a" without "A": no data acknowledgement, so the length is that of the mapping alone.
    let map = Mapping { dsn: MappedDsn::Narrow(9), ssn: 1, len: 100, checksum: None };
    assert_eq!(read(ACK, &hex("1e0e2006 00000009 00000001 0064"), 100), signal(None, Some(map), false));
    // "m" without "M".
    assert_eq!(read(ACK, &hex("1e082009 00000007"), 0), signal(Some(DataAck::Narrow(7)), None, false));
}

#[test]
fn add_addr_of_both_families_with_and_without_port_and_its_echo() {
    let v4 = [192, 0, 2, 1].into();
    let v6 = core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
    let add = |id, ip, port, hmac| one(MptcpOption::AddAddress(AddAddress { id, ip, port, hmac }));
    let (first, second) = (Some(0x409d_8bf2_1f5d_4bc3), Some(0x3805_326f_0088_25cc));
    same(ACK, 0, "1e103001 c0000201 409d8bf21f5d4bc3", add(1, v4, None, first));
    same(ACK, 0, "1e123001 c0000201 1f90 3805326f008825cc", add(1, v4, Some(8080), second));
    same(ACK, 0, "1e083101 c0000201", add(1, v4, None, None));
    same(ACK, 0, "1e0a3101 c0000201 1f90", add(1, v4, Some(8080), None));
    let (long, code) = ("20010db8000000000000000000000001", Some(0xb31f_d832_466a_8135));
    same(ACK, 0, &format!("1e1c3002 {long} b31fd832466a8135"), add(2, v6, None, code));
    same(ACK, 0, &format!("1e1e3002 {long} 1f90 b31fd832466a8135"), add(2, v6, Some(8080), code));
    same(ACK, 0, &format!("1e143102 {long}"), add(2, v6, None, None));
    same(ACK, 0, &format!("1e163102 {long} 1f90"), add(2, v6, Some(8080), None));
    // Version 0 encoded the family in these bits, and had no HMAC; an echo has none, an announcement has one.
    skipped(ACK, 0, "1e083401 c0000201");
    skipped(ACK, 0, "1e103101 c0000201 409d8bf21f5d4bc3");
}

#[test]
fn the_smaller_signals() {
    let mut ids = AddressIds::one(1);
    ids.push(2);
    same(ACK, 0, "1e05400102", one(MptcpOption::RemoveAddress(ids)));
    same(ACK, 0, "1e0351", one(MptcpOption::Priority { backup: true }));
    same(ACK, 0, "1e0350", one(MptcpOption::Priority { backup: false }));
    same(ACK, 0, "1e0c6000 e3db22c6785a0d46", one(MptcpOption::Fail(Dsn(DSN_A.0 + 1))));
    same(ACK, 0, "1e0c7000 08090a0b0c0d0e0f", one(MptcpOption::FastClose(KEY_B)));
    let reset = |transient, reason| one(MptcpOption::Reset { transient, reason });
    same(RST, 0, "1e048000", reset(false, ResetReason::Unspecified));
    same(RST, 0, "1e048001", reset(false, ResetReason::MptcpError));
    same(RST, 0, "1e048102", reset(true, ResetReason::LackOfResources));
    same(RST, 0, "1e048003", reset(false, ResetReason::Prohibited));
    same(RST, 0, "1e048104", reset(true, ResetReason::TooMuchOutstanding));
    same(RST, 0, "1e048005", reset(false, ResetReason::BadPerformance));
    same(RST, 0, "1e048006", reset(false, ResetReason::Middlebox));
    // An unassigned reason is unspecified.
    assert_eq!(read(RST, &hex("1e0480aa"), 0), reset(false, ResetReason::Unspecified));
}

#[test]
fn unknown_subtypes_and_wrong_lengths_are_skipped_and_the_rest_is_read() {
    for subtype in [0x9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf] {
        skipped(ACK, 10, &format!("1e04{subtype:x}000"));
    }
    // Every other length of every subtype, on the segment on which the correct one counts.
    let right: [(u8, Flags, &[usize]); 9] = [
        (0x0, SYN, &[4]),
        (0x1, SYN, &[12]),
        (0x2, ACK, &[]),
        (0x3, ACK, &[16, 18, 28, 30]),
        (0x4, ACK, &[]),
        (0x5, ACK, &[3]),
        (0x6, ACK, &[12]),
        (0x7, ACK, &[12]),
        (0x8, RST, &[4]),
    ];
    for (subtype, flags, right) in right {
        for len in 3..=38 {
            let mut option = vec![30, len as u8, subtype << 4];
            option.resize(len, 0);
            // For DSS this means neither field, and for REMOVE_ADDR every length has a meaning.
            let read = read(flags, &option, 0);
            let nothing = read.dss.is_none() && read.mptcp[0].is_none();
            let meant = right.contains(&len) || (subtype == 4 && len > 3);
            assert_eq!(nothing, !meant, "subtype {subtype}, length {len}");
        }
    }
    // A DSS of each combination of flags has two valid lengths with a mapping, and one without.
    for flags in 0_u8..16 {
        let ack = [0, 4, 0, 8][usize::from(flags & 3)];
        let map = [0, 10, 0, 14][usize::from(flags >> 2 & 3)];
        for len in 4_usize..=30 {
            let mut option = vec![30, len as u8, 0x20, flags];
            option.resize(len, 0);
            let fits = ack + map > 0 && (len == 4 + ack + map || map > 0 && len == 6 + ack + map);
            assert_eq!(read(ACK, &option, 0).dss.is_some(), fits, "flags {flags:04b}, length {len}");
        }
    }
    let after = read(ACK, &hex("1e049000 1e06200100ff 01 1e0351 080a0000000100000002"), 3);
    assert_eq!(after.mptcp[0], Some(MptcpOption::Priority { backup: true }));
    assert_eq!(after.timestamps, Some(Timestamps { value: 1, echo: 2 }));
    assert_eq!(after.dss, None);
}

#[test]
fn several_options_share_a_segment() {
    let read = read(ACK, &hex("1e082001 00000007 1e0351 01 1e05400102 1e0350"), 0);
    assert_eq!(read.dss.and_then(|dss| dss.data_ack), Some(DataAck::Narrow(7)));
    assert_eq!(read.mptcp[0], Some(MptcpOption::Priority { backup: true }));
    // The segment has no place for the third.
    assert!(matches!(read.mptcp[1], Some(MptcpOption::RemoveAddress(_))));
}

#[test]
fn a_dss_on_a_syn_is_skipped_and_of_two_the_first_counts() {
    skipped(SYN, 0, "1e082001 00000007");
    skipped(SYN_ACK, 0, "1e082001 00000007");
    let twice = read(ACK, &hex("1e082001 00000007 1e082001 00000008"), 0);
    assert_eq!(twice.dss.and_then(|dss| dss.data_ack), Some(DataAck::Narrow(7)));
}

#[test]
fn a_syn_stands_on_the_wire_as_linux_writes_it() {
    let syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };
    let times = Timestamps { value: 0x0102_0304, echo: 0 };
    let mut options = one(MptcpOption::Capable(capable(0x01)));
    options.syn = Some(syn);
    options.timestamps = Some(times);
    let bytes = hex("020405b4 0402080a 01020304 00000000 01030307 1e040101");
    assert_eq!(written(SYN, options), bytes);
    assert_eq!(read(SYN, &bytes, 0), options);
    let bare = SynOptions { window_scale: None, ..syn };
    let options = Options { syn: Some(bare), ..Options::NONE };
    assert_eq!(written(SYN, options), hex("020405b4 01010402"));
}

#[test]
fn tcps_own_options_are_read_wherever_they_stand() {
    let mut sack = SackBlocks::EMPTY;
    sack.push(Seq(1), Seq(2));
    sack.push(Seq(0xffff_fff0), Seq(4));
    let options = read(ACK, &hex("0512 00000001 00000002 fffffff0 00000004 080a 00000005 00000006"), 0);
    assert_eq!(options.sack, sack);
    assert_eq!(options.timestamps, Some(Timestamps { value: 5, echo: 6 }));
    // Unknown ones are skipped: fast open's cookie, MD5, one of the experimental kinds.
    let skip = "2206aabbccdd fd040001 030301 0402 02041000";
    let syn = SynOptions { mss: 4096, window_scale: Some(1), sack_permitted: true };
    assert_eq!(read(SYN, &hex(skip), 0).syn, Some(syn));
    // An option of a SYN is ignored on other segments.
    assert_eq!(read(ACK, &hex("020405b4 030307 0402"), 0), Options::NONE);
    // Options after the end of the list are ignored.
    assert_eq!(read(ACK, &hex("0101 00 1e0351"), 0), Options::NONE);
}

#[test]
fn values_out_of_range_get_a_sane_meaning() {
    let syn = |bytes: &str| read(SYN, &hex(bytes), 0).syn.expect("on a SYN");
    // RFC 9293 section 3.7.1: 536 without the option; an MSS of zero is ignored.
    assert_eq!(syn("0101").mss, 536);
    assert_eq!(syn("02040000").mss, 536);
    // RFC 7323 section 2.3.
    assert_eq!(syn("0303ff").window_scale, Some(14));
}

#[test]
fn lengths_that_cannot_be_true_end_the_options() {
    for bad in ["0800", "0801", "081e", "1e00", "1e01", "1e28", "ff", "1e"] {
        let options = read(ACK, &hex(&format!("1e0351 01 0101{bad}")), 4);
        assert_eq!(options, one(MptcpOption::Priority { backup: true }), "{bad}");
    }
}

#[test]
fn the_padded_length_is_the_one_the_stack_counts() {
    let mut options = one(MptcpOption::Priority { backup: true });
    options.push(MptcpOption::RemoveAddress(AddressIds::one(3)));
    options.timestamps = Some(Timestamps { value: 1, echo: 2 });
    options.sack.push(Seq(1), Seq(2));
    let bytes = written(ACK, options);
    assert_eq!(bytes.len() as u32, options.wire_len());
    assert_eq!(bytes, hex("0101080a0000000100000002 0101050a0000000100000002 1e0351 1e044003 01"));
}

#[test]
fn what_does_not_fit_aligned_is_packed() {
    // RFC 8684 section 3.4.1: ADD_ADDR of IPv6 with a port, 30 bytes, beside the 10 of timestamps.
    let ip = core::net::Ipv6Addr::LOCALHOST.into();
    let mut options =
        one(MptcpOption::AddAddress(AddAddress { id: 1, ip, port: Some(80), hmac: Some(0x0123) }));
    options.timestamps = Some(Timestamps { value: 1, echo: 2 });
    assert!(options.wire_len() > 40);
    let bytes = written(ACK, options);
    assert_eq!(bytes.len(), 40);
    assert_eq!(read(ACK, &bytes, 0), options);
    assert_eq!(packet_of(&anabranch_stack::segment::Segment { options, ..segment(ACK) }).len(), 80);
}

// RFC 9293 section 3.7.1: without the option 536 over IPv4, and 1220 over IPv6.
#[test]
fn a_syn_without_the_option_has_the_default_mss_of_its_family() {
    for ((source, destination), mss) in [(v4(), 536), (v6(), 1220)] {
        let syn = Segment { source, destination, ..segment(SYN) };
        assert_eq!(
            parse(&packet_of(&syn), Checksums::Verify).unwrap().segment.options.syn.map(|syn| syn.mss),
            Some(mss)
        );
    }
}
