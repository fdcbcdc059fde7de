//! Departures that represent several segments: one mapping, with each segment lost and repaired individually.

use crate::harness;

use anabranch_stack::config::{Checksums, ConnectionConfig};
use anabranch_stack::segment::{Mapping, MptcpOption, Segment};
use anabranch_units::{Bytes, Duration, Rate, Time};
use harness::{Pair, Path, Side};

const LIMIT: u32 = 65_000;
const BYTES: u64 = 400_000;

fn pair(paths: Vec<Path>, config: &ConnectionConfig, limit: u32) -> Pair {
    let mut pair = Pair::new(paths, config.clone(), 3);
    pair.client.endpoint.set_burst_limit(limit);
    pair.server.endpoint.set_burst_limit(limit);
    pair
}

fn transfer(pair: &mut Pair, config: &ConnectionConfig) {
    pair.connect(config.clone());
    pair.write_all(Side::Client, BYTES);
    let done = pair.run_until(Time::from_secs(600), |pair| pair.server.read == BYTES);
    pair.close_after_backlog(Side::Client);
    let done = done && pair.run_until(Time::from_secs(600), |pair| pair.server.peer_closed);
    assert!(done && pair.server.read == BYTES, "{} at {:?}", pair.server.read, pair.now);
    pair.client.endpoint.assert_consistent();
}

fn mapping(segment: &Segment) -> Option<Mapping> {
    segment.options.dss.and_then(|dss| dss.mapping)
}

/// Returns the length of the first data in an MP_CAPABLE (RFC 8684 section 3.1).
fn first_mapping(segment: &mut Segment) -> Option<&mut u16> {
    segment.options.mptcp.iter_mut().flatten().find_map(|option| match option {
        MptcpOption::Capable(capable) => capable.data_len.as_mut(),
        _ => None,
    })
}

/// Returns all transmissions of each segment that the client has sent more than once, by sequence number.
fn repeated(pair: &Pair) -> Vec<Vec<Segment>> {
    let mut sent: std::collections::BTreeMap<u32, Vec<Segment>> = std::collections::BTreeMap::new();
    for (_, _, _, segment, _) in pair.data_segments(Side::Client) {
        sent.entry(segment.seq.0).or_default().push(*segment);
    }
    sent.into_values().filter(|times| times.len() > 1).collect()
}

#[test]
fn a_lost_segment_of_a_burst_is_retransmitted_alone() {
    // The first flight: one burst of 40 segments, each with the keys and the length of the whole burst.
    let config = ConnectionConfig { initial_window: 40, ..ConnectionConfig::linux() };
    for lost in [2, 6, 25, 39, 40] {
        let path = Path { rate: Some(Rate::from_mbps(100)), ..Path::clean(20) };
        let mut pair = pair(vec![path], &config, LIMIT);
        let mut count = 0;
        pair.drop = Box::new(move |_, side, _, segment| {
            count += u32::from(side == Side::Client && segment.payload_len > 0);
            side == Side::Client && segment.payload_len > 0 && count == lost
        });
        transfer(&mut pair, &config);
        let again = repeated(&pair);
        let [times] = &again[..] else { panic!("of one lost segment {} came again", again.len()) };
        let [mut first, second] = times[..] else { panic!("{} times", times.len()) };
        assert_eq!((first.payload_len, second.payload_len), (1400, 1400));
        // RFC 8684 sections 3.1 and 3.3.1: the mapping, which covers more than this segment, is repeated
        // unchanged. By then the keys are confirmed.
        assert_eq!(first_mapping(&mut first), Some(&mut (40 * 1400)));
        let again = mapping(&second).unwrap();
        assert_eq!((again.ssn, again.len), (1, 40 * 1400));
        let (_, subflows) = pair.client.final_stats.clone().unwrap_or_else(|| {
            let id = pair.client.connection.unwrap();
            (pair.client.endpoint.stats(id).unwrap(), pair.client.endpoint.subflow_stats(id))
        });
        let counters = subflows[0].counters;
        assert_eq!((counters.segments_lost, counters.segments_retransmitted), (1, 1));
        assert_eq!((counters.timeouts, counters.recoveries), (0, 1));
    }
}

#[test]
fn the_same_segments_leave_at_the_same_times_with_and_without_bursts() {
    for (seed, loss) in [(0.0, 0.0), (0.02, 0.0), (0.05, 0.1)].into_iter().enumerate() {
        let mut config = ConnectionConfig::linux();
        config.mptcp = seed != 1;
        // Bursts of the driver are not those marked for the receiver (PSH).
        config.ack.push = false;
        let path = |delay| Path { loss: [loss.0; 2], reorder: loss.1, ..Path::clean(delay) };
        let run = |limit| {
            let mut pair = pair(vec![path(10), path(35)], &config, limit);
            transfer(&mut pair, &config);
            assert_eq!(pair.bursts > 0, limit > 0);
            let log: Vec<_> = pair
                .log
                .iter()
                .map(|(at, side, path, segment, lost)| {
                    let mut bare = *segment;
                    bare.options.dss = None;
                    if let Some(len) = first_mapping(&mut bare) {
                        *len = 0;
                    }
                    (*at, *side, *path, bare, *lost)
                })
                .collect();
            (log, pair.bursts)
        };
        let (single, _) = run(0);
        let (bursts, count) = run(LIMIT);
        let differs = single.iter().zip(&bursts).position(|(one, other)| one != other);
        if let Some(at) = differs {
            panic!("{loss:?}: number {at}: {:?}\nand {:?}", single[at], bursts[at]);
        }
        assert_eq!(single.len(), bursts.len());
        assert!(count > 10, "{count}");
    }
}

#[test]
fn a_burst_ends_with_the_limit_and_with_the_data() {
    let mut config = ConnectionConfig { initial_window: 100, ..ConnectionConfig::linux() };
    config.ack.growth = false;
    config.ack.push = false;
    for limit in [0, 1400, 2799, 2800, 10_000, LIMIT, u32::MAX] {
        let mut pair = pair(vec![Path::clean(10)], &config, limit);
        transfer(&mut pair, &config);
        let longest = pair.data_segments(Side::Client).filter_map(|(.., segment, _)| mapping(segment));
        let longest = longest.map(|mapping| u32::from(mapping.len)).max().unwrap();
        // The DATA_FIN occupies one octet of the last mapping, which may be short.
        let most = limit.clamp(1400, LIMIT);
        assert!(longest <= most + 1 && longest >= most - most % 1400, "{longest} of {most}");
    }
}

#[test]
fn with_checksums_each_segment_is_sent_separately() {
    let config = ConnectionConfig { checksums: Checksums::Required, ..ConnectionConfig::linux() };
    let mut pair = pair(vec![Path::clean(10)], &config, LIMIT);
    transfer(&mut pair, &config);
    assert_eq!(pair.bursts, 0);
}

#[test]
fn a_paced_burst_is_one_millisecond_at_the_pacing_rate() {
    let config = ConnectionConfig { pacing: true, send_buffer: Bytes(BYTES), ..ConnectionConfig::linux() };
    let mut pair = pair(vec![Path::clean(50)], &config, LIMIT);
    transfer(&mut pair, &config);
    // In slow start, twice the window of at most 290 segments, in a round trip of 100 ms.
    let mut at_once = std::collections::BTreeMap::new();
    for (at, ..) in
        pair.data_segments(Side::Client).filter(|(at, ..)| *at > Time::ZERO + Duration::from_millis(150))
    {
        *at_once.entry(*at).or_insert(0) += 1;
    }
    let most = at_once.values().max().unwrap();
    assert!((2..=6).contains(most), "{most} segments at once");
}
