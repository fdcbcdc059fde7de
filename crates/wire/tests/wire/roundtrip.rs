//! Every written segment is parsed to the same segment, and every parsed segment can be written.

use anabranch_stack::segment::{
    AddAddress, Address, AddressIds, Capable, DataAck, Dss, Ecn, Flags, Join, Key, MappedDsn, Mapping,
    MptcpOption, Options, ResetReason, SackBlocks, Segment, SynOptions, Timestamps,
};
use anabranch_stack::seq::{Dsn, Seq};
use anabranch_wire::{Checksum, Checksums, IpFields, checksum, emit, parse};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

fn address(v6: bool) -> BoxedStrategy<Address> {
    let ip = if v6 {
        any::<[u8; 16]>().prop_map(core::net::IpAddr::from).boxed()
    } else {
        any::<[u8; 4]>().prop_map(core::net::IpAddr::from).boxed()
    };
    (ip, any::<u16>()).prop_map(|(ip, port)| Address::new(ip, port)).boxed()
}

fn dss() -> impl Strategy<Value = Dss> {
    let data_ack = of(prop_oneof![
        any::<u32>().prop_map(DataAck::Narrow),
        any::<u64>().prop_map(|dsn| DataAck::Wide(Dsn(dsn))),
    ]);
    let dsn = prop_oneof![
        any::<u32>().prop_map(MappedDsn::Narrow),
        any::<u64>().prop_map(|dsn| MappedDsn::Wide(Dsn(dsn))),
    ];
    let mapping = of((dsn, any::<u32>(), any::<u16>(), of(any::<u16>()))
        .prop_map(|(dsn, ssn, len, checksum)| Mapping { dsn, ssn, len, checksum }));
    (data_ack, mapping, any::<bool>())
        .prop_map(|(data_ack, mapping, data_fin)| Dss { data_ack, mapping, data_fin })
        .prop_filter("says something", |dss| dss.data_ack.is_some() || dss.mapping.is_some())
}

fn capable(flags: Flags) -> impl Strategy<Value = MptcpOption> {
    (0_u8..16, any::<u8>(), any::<u64>(), any::<u64>(), of((any::<u16>(), of(any::<u16>())))).prop_map(
        move |(version, bits, one, two, data)| {
            let (syn, ack) = (flags.has(Flags::SYN), flags.has(Flags::ACK));
            let third = !syn && ack;
            MptcpOption::Capable(Capable {
                version,
                flags: bits,
                sender_key: ack.then_some(Key(one)),
                receiver_key: third.then_some(Key(two)),
                data_len: data.filter(|_| third).map(|data| data.0),
                checksum: data.filter(|_| third).and_then(|data| data.1),
            })
        },
    )
}

fn join(flags: Flags) -> impl Strategy<Value = MptcpOption> {
    (any::<bool>(), any::<u8>(), any::<u64>(), any::<u32>(), any::<[u8; 20]>()).prop_map(
        move |(backup, address_id, hmac, nonce, long)| {
            MptcpOption::Join(match (flags.has(Flags::SYN), flags.has(Flags::ACK)) {
                (true, false) => Join::Syn { backup, address_id, token: hmac as u32, nonce },
                (true, true) => Join::SynAck { backup, address_id, hmac, nonce },
                _ => Join::Ack { hmac: long },
            })
        },
    )
}

fn signal() -> impl Strategy<Value = MptcpOption> {
    let add = (any::<u8>(), any::<bool>().prop_flat_map(address), of(any::<u16>()), of(any::<u64>()))
        .prop_map(|(id, address, port, hmac)| {
            MptcpOption::AddAddress(AddAddress { id, ip: address.ip, port, hmac })
        });
    let remove = vec(any::<u8>(), 1..=8).prop_map(|ids| {
        let mut list = AddressIds::one(ids[0]);
        for id in &ids[1..] {
            list.push(*id);
        }
        MptcpOption::RemoveAddress(list)
    });
    let reasons = [
        ResetReason::Unspecified,
        ResetReason::MptcpError,
        ResetReason::LackOfResources,
        ResetReason::Prohibited,
        ResetReason::TooMuchOutstanding,
        ResetReason::BadPerformance,
        ResetReason::Middlebox,
    ];
    prop_oneof![
        add,
        remove,
        any::<bool>().prop_map(|backup| MptcpOption::Priority { backup }),
        any::<u64>().prop_map(|dsn| MptcpOption::Fail(Dsn(dsn))),
        any::<u64>().prop_map(|key| MptcpOption::FastClose(Key(key))),
        (any::<bool>(), prop::sample::select(reasons.to_vec()))
            .prop_map(|(transient, reason)| MptcpOption::Reset { transient, reason }),
    ]
}

fn options(flags: Flags) -> impl Strategy<Value = Options> {
    let syn = flags.has(Flags::SYN);
    let on_syn =
        (1_u16.., of(0_u8..=14), any::<bool>()).prop_map(move |(mss, window_scale, sack_permitted)| {
            syn.then_some(SynOptions { mss, window_scale, sack_permitted })
        });
    let timestamps = of((any::<u32>(), any::<u32>()).prop_map(|(value, echo)| Timestamps { value, echo }));
    let sack = vec((any::<u32>(), any::<u32>()), 0..=4).prop_map(|blocks| {
        let mut list = SackBlocks::EMPTY;
        for (left, right) in blocks {
            list.push(Seq(left), Seq(right));
        }
        list
    });
    let handshake = syn || flags.has(Flags::ACK);
    let opening = prop_oneof![capable(flags), join(flags), signal()]
        .prop_filter("on this segment", move |o| {
            handshake || !matches!(o, MptcpOption::Capable(_) | MptcpOption::Join(_))
        });
    let mptcp = of((opening, of(signal())));
    let dss = of(dss()).prop_map(move |dss| dss.filter(|_| !syn));
    (on_syn, timestamps, sack, dss, mptcp)
        .prop_map(|(syn, timestamps, sack, dss, mptcp)| {
            let mut options = Options { syn, timestamps, sack, dss, ..Options::NONE };
            if let Some((first, second)) = mptcp {
                options.push(first);
                if let Some(second) = second {
                    options.push(second);
                }
            }
            options
        })
        .prop_filter("fits", |options| options.wire_len() <= 40)
}

pub fn segments() -> impl Strategy<Value = Segment> {
    let flags = (0_u8..=0xff).prop_map(|bits| Flags(bits & 0xdf));
    (any::<bool>(), prop_oneof![Just(Flags::SYN), Just(Flags(0x12)), Just(Flags::ACK), flags])
        .prop_flat_map(|(v6, flags)| {
            (
                (address(v6), address(v6)),
                (any::<u32>(), any::<u32>(), any::<u16>()),
                prop_oneof![Just(0), 0_u32..3000],
                prop::sample::select(&[Ecn::NotEct, Ecn::Ect0, Ecn::Ce]),
                options(flags),
                Just(flags),
            )
        })
        .prop_map(|((source, destination), (seq, ack, window), payload_len, ecn, options, flags)| {
            let ack = Seq(if flags.has(Flags::ACK) { ack } else { 0 });
            let mut segment = Segment::new(source, destination, Seq(seq), flags);
            (segment.ack, segment.window, segment.payload_len) = (ack, window, payload_len);
            (segment.ecn, segment.options) = (ecn, options);
            segment
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_the_same(segment in segments(), seed in any::<u8>()) {
        let mut out = vec![0xee; 4000];
        let len = emit(&segment, &IpFields::default(), Checksum::Full, &mut out, |payload| {
            payload.fill(seed);
        }).expect("a segment that fits");
        prop_assert_eq!(len as u32, segment.wire_len());
        prop_assert!(out[len..].iter().all(|byte| *byte == 0xee), "nothing behind it is touched");
        let parsed = parse(&out[..len], Checksums::Verify).expect("what was written is whole");
        let payload_sum = checksum::sum(&out[parsed.payload]);
        prop_assert_eq!(parsed.segment, Segment { payload_sum, ..segment });
    }
}
