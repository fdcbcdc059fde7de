//! A sender with the send buffers of Linux: their size, and the subflow that gets the data.

use crate::harness;

use anabranch_stack::config::{ConnectionConfig, Profile, ReceiveBuffer, SendBuffers, SimConfig};
use anabranch_stack::scheduler::{AnabranchOptions, LinuxOptions, SchedulerKind};
use anabranch_stack::segment::{DataAck, Flags, MappedDsn, MptcpOption, Segment};
use anabranch_units::{Bytes, Duration, Rate, Time};
use harness::{Pair, Path, Side};

const SIZE: u64 = 3_000_000;
/// The payload that the kernel keeps in one page of 32 KiB.
const PIECE: u64 = 32_728;

/// The kernel's settings: with the CUBIC of RFC 9438, whose slow start overflows the queues, more data is lost and
/// waits on the slow path.
fn config(buffers: Option<SendBuffers>) -> ConnectionConfig {
    ConnectionConfig {
        send_buffers: buffers,
        scheduler: SchedulerKind::Linux(LinuxOptions::DEFAULT),
        ..SimConfig::new(Profile::Linux).connection
    }
}

/// Uploads over a slow first path and a fast second one, and ends the stream once all is written.
fn upload(buffers: Option<SendBuffers>) -> Pair {
    let path = |mbps| Path { rate: Some(Rate::from_mbps(mbps)), queue: 100_000, ..Path::clean(20) };
    let config = config(buffers);
    let mut pair = Pair::new(vec![path(4), path(20)], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, SIZE);
    pair.close_after_backlog(Side::Client);
    assert!(pair.run_until(Time::from_secs(60), |pair| pair.server.read == SIZE), "{:?}", pair.now);
    pair
}

fn share_of_first(pair: &Pair) -> f64 {
    let bytes = |path| -> u64 {
        let sent = pair.data_segments(Side::Client).filter(|(.., at, _, _)| *at == path);
        sent.map(|(.., segment, _)| u64::from(segment.payload_len)).sum()
    };
    bytes(0) as f64 / (bytes(0) + bytes(1)) as f64
}

#[test]
fn a_program_with_a_large_buffer_ends_its_stream_before_a_second_subflow_can_join() {
    let large = upload(Some(SendBuffers::Fixed(Bytes(8 << 20))));
    assert_eq!(share_of_first(&large), 1.0);
    assert!(large.now > Time::from_secs(5), "{:?}", large.now);
    let auto = SendBuffers::Auto { initial: Bytes::from_kib(16), max: Bytes::from_kib(4 << 10) };
    // The kernel, over the same paths: 0.18 to 0.20, and 1/6 would be the share of the rates.
    for (buffers, most) in [(Some(auto), 0.22), (None, 0.35)] {
        let both = upload(buffers);
        assert!(share_of_first(&both) < most, "{buffers:?}: {}", share_of_first(&both));
        assert!(both.now < Time::from_secs(3), "{buffers:?}: {:?}", both.now);
    }
}

#[test]
fn a_connection_takes_two_pieces_at_first_and_its_only_subflow_both() {
    let auto = SendBuffers::Auto { initial: Bytes::from_kib(16), max: Bytes::from_kib(4 << 10) };
    let config = config(Some(auto));
    let path = Path { rate: Some(Rate::from_mbps(10)), queue: 100_000, ..Path::clean(20) };
    let mut pair = Pair::new(vec![path.clone(), path], config.clone(), 1);
    pair.connect(config);
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    let taken = pair.write(Side::Client, SIZE);
    assert_eq!(taken, 2 * PIECE, "46,080 and 4096 bytes, up to the end of a piece");
    let id = pair.client.connection.unwrap();
    pair.pump();
    let subflows = pair.client.endpoint.subflow_stats(id);
    assert_eq!(subflows.len(), 1);
    // Data assigned to the first subflow stays there, although the second joins before it is sent.
    let done = pair.run_until(Time::from_secs(5), |pair| pair.server.read == 2 * PIECE);
    assert!(done);
    assert_eq!(share_of_first(&pair), 1.0);
    assert!(pair.client.endpoint.subflow_stats(id).len() > 1);
}

/// Returns the windows that `receiver` has advertised with data acknowledgements: time, acknowledged bytes of the
/// stream, and window.
fn windows(pair: &Pair, receiver: Side) -> Vec<(Time, u64, u64)> {
    let scale = pair.log.iter().find_map(|(_, side, _, segment, _)| {
        segment.options.syn.filter(|_| *side == receiver).and_then(|syn| syn.window_scale)
    });
    let mut first = None;
    let acks =
        pair.log.iter().filter(|(_, side, _, segment, _)| *side == receiver && segment.payload_len == 0);
    acks.filter_map(|(at, .., segment, _)| {
        let DataAck::Wide(ack) = segment.options.dss?.data_ack? else { return None };
        let first = *first.get_or_insert(ack.0);
        Some((*at, ack.0.wrapping_sub(first), u64::from(segment.window) << scale.unwrap_or(0)))
    })
    .collect()
}

/// Transfers over a path of 100 ms and one of 10 ms; `sender` sends.
fn transfer(sender: Side, memory: bool) -> Pair {
    let config = ConnectionConfig { window_memory: memory, ..config(None) };
    let path = |delay| Path { rate: Some(Rate::from_mbps(50)), ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(50), path(5)], config.clone(), 1);
    pair.connect(config);
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    if sender == Side::Server {
        // The request, which is too short to measure anything.
        pair.write_all(Side::Client, 100);
        assert!(pair.run_until(Time::from_secs(1), |pair| pair.server.read == 100));
    }
    pair.write_all(sender, SIZE);
    let read = move |pair: &Pair| if sender == Side::Client { pair.server.read } else { pair.client.read };
    assert!(pair.run_until(Time::from_secs(60), |pair| read(pair) == SIZE));
    pair
}

#[test]
fn a_client_advertises_half_of_its_memory_until_every_subflow_has_received_data() {
    let pair = transfer(Side::Server, true);
    let on_second = pair.data_segments(Side::Server).find(|(.., path, _, _)| *path == 1).map(|(at, ..)| *at);
    let measured = on_second.unwrap() + Path::clean(5).delay;
    let windows = windows(&pair, Side::Client);
    let before = windows.iter().filter(|(at, ..)| *at < measured);
    let most = before.map(|(.., window)| *window).max().unwrap();
    assert!((64_000..=65_536).contains(&most), "{most}: half of 131,072, and less what is not read");
    assert!(windows.iter().any(|(.., window)| *window > 79_872), "it has grown");
    let freely = transfer(Side::Server, false);
    let before = self::windows(&freely, Side::Client);
    let before = before.iter().filter(|(at, ..)| *at < measured).map(|(.., window)| *window);
    assert_eq!(before.max(), Some(79_872), "without the rule");
}

#[test]
fn a_server_measures_its_memory_before_a_second_subflow_joins() {
    let pair = transfer(Side::Client, true);
    let joined = pair.log.iter().find(|(_, side, path, ..)| (*side, *path) == (Side::Client, 1)).unwrap().0;
    let windows = windows(&pair, Side::Server);
    let before = windows.iter().filter(|(at, ..)| *at < joined);
    assert!(before.clone().count() > 5, "{windows:?}");
    let most = before.map(|(.., window)| *window).max().unwrap();
    assert!((78_000..=79_872).contains(&most), "{most}");
}

#[test]
fn a_subflow_has_its_buffer_from_its_syn_ack_on() {
    let auto = SendBuffers::Auto { initial: Bytes::from_kib(16), max: Bytes::from_kib(4 << 10) };
    let config = config(Some(auto));
    let path = |delay| Path { rate: Some(Rate::from_mbps(1)), queue: 100_000, ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(20), path(50)], config.clone(), 1);
    pair.connect(config);
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    pair.write_all(Side::Client, SIZE);
    assert_eq!(pair.client.written, 2 * PIECE);
    let answered =
        |pair: &Pair| pair.log.iter().any(|(_, side, path, ..)| (*side, *path) == (Side::Server, 1));
    assert!(pair.run_until(Time::from_secs(1), answered));
    let sent = pair.now;
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.written > 2 * PIECE));
    let elapsed = pair.now.since(sent);
    assert!(elapsed < Path::clean(52).delay, "{elapsed:?}: with the SYN/ACK, and not with the fourth ACK");
}

#[test]
fn a_subflow_sends_all_of_its_buffer_although_another_has_delivered_it() {
    const FILE: u64 = 400_000;
    let auto = SendBuffers::Auto { initial: Bytes::from_kib(16), max: Bytes::from_kib(4 << 10) };
    let config = config(Some(auto));
    let path = |kbps: u64| Path { rate: Some(Rate(kbps * 1000)), queue: 100_000, ..Path::clean(10) };
    let mut pair = Pair::new(vec![path(20_000), path(100)], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, FILE);
    assert!(pair.run_until(Time::from_secs(10), |pair| pair.server.read == FILE), "{:?}", pair.now);
    let (done, sent) = (pair.now, pair.data_segments(Side::Client).count());
    pair.run_for(Duration::from_secs(10));
    let after: Vec<_> = pair.data_segments(Side::Client).skip(sent).collect();
    let slow: u64 = after.iter().map(|(.., segment, _)| u64::from(segment.payload_len)).sum();
    assert!(after.iter().all(|(_, _, path, ..)| *path == 1));
    // The data-level timer has reinjected it, and Linux cannot take it back.
    assert!(slow > 10_000, "{slow} bytes after {done:?}");
}

#[test]
fn the_data_level_waits_as_long_as_when_data_was_last_assigned() {
    const FILE: u64 = 300_000;
    // Deferral moves the data that the silent path has; the wait is another rule.
    let config = ConnectionConfig { tso_defer: false, ..growing() };
    let path = || Path { rate: Some(Rate::from_mbps(20)), queue: 100_000, ..Path::clean(10) };
    let mut pair = Pair::new(vec![path(), path()], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, FILE);
    let joined = |pair: &Pair| pair.data_segments(Side::Client).any(|(_, _, path, ..)| *path == 1);
    assert!(pair.run_until(Time::from_secs(1), joined));
    pair.paths[1].down = true;
    assert!(pair.run_until(Time::from_secs(10), |pair| pair.server.read == FILE), "{:?}", pair.now);
    // Both pieces of the silent subflow wait for the data-level timer. With a new wait at each acknowledgement it takes
    // 826 ms, as the timeout of that subflow doubles; with one that ignores the subflow at once, 649 or 681 ms.
    assert!((700..740).contains(&(pair.now.as_nanos() / 1_000_000)), "{:?}", pair.now);
}

#[test]
fn a_fixed_buffer_is_half_of_its_memory_and_advertises_whole_segments() {
    let upload = |memory| {
        let fixed = ReceiveBuffer::Fixed(Bytes(16_000));
        let config = ConnectionConfig { receive_buffer: fixed, window_memory: memory, ..config(None) };
        let path = Path { rate: Some(Rate::from_mbps(3)), ..Path::clean(7) };
        let mut pair = Pair::new(vec![path], config.clone(), 1);
        pair.connect(config);
        pair.write_all(Side::Client, 50_000);
        assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 50_000));
        windows(&pair, Side::Server).iter().map(|(.., window)| *window).max()
    };
    // 32,000 bytes of memory are 19,500 of payload.
    assert_eq!(upload(true), Some(13 * 1420));
    assert!(upload(false) <= Some(16_000));
}

#[test]
fn only_the_third_ack_and_the_first_two_segments_of_data_carry_the_keys() {
    let with_keys = |repeat_keys| {
        let config = ConnectionConfig { repeat_keys, ..config(None) };
        let mut pair = Pair::new(vec![Path::clean(10)], config.clone(), 1);
        pair.connect(config);
        pair.write_all(Side::Client, 100_000);
        assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 100_000));
        let capable = |segment: &Segment| {
            let keys = |option: &MptcpOption| matches!(option, MptcpOption::Capable(it) if it.receiver_key.is_some());
            segment.options.mptcp.iter().flatten().any(keys)
        };
        assert!(pair.log.iter().any(|(.., segment, _)| capable(segment) && segment.payload_len == 0));
        pair.data_segments(Side::Client).filter(|(.., segment, _)| capable(segment)).count()
    };
    assert_eq!((with_keys(false), with_keys(true)), (2, 10));
}

#[test]
fn the_fin_of_a_plain_tcp_is_sent_with_the_last_data() {
    let fins = |fin_with_data| {
        let plain = ConnectionConfig { mptcp: false, fin_with_data, ..config(None) };
        let mut pair = Pair::new(vec![Path::clean(10)], plain.clone(), 1);
        pair.connect(plain);
        pair.write_all(Side::Client, 50_000);
        pair.close_after_backlog(Side::Client);
        assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 50_000));
        pair.close(Side::Server);
        pair.run_for(Duration::from_secs(1));
        let fins = pair.log.iter().filter(|(_, side, ..)| *side == Side::Client);
        let fins = fins.filter(|(.., segment, _)| segment.flags.has(Flags::FIN));
        fins.map(|(.., segment, _)| segment.payload_len).collect::<Vec<u32>>()
    };
    // 35 segments of 1420 bytes, and the rest.
    assert_eq!((fins(true), fins(false)), (vec![50_000 - 35 * 1420], vec![0]));
}

/// The kernel's growing send buffers.
fn growing() -> ConnectionConfig {
    config(Some(SendBuffers::Auto { initial: Bytes::from_kib(16), max: Bytes::from_kib(4 << 10) }))
}

/// Uploads `size` bytes over 40 Mbit/s, 16 ms, with a slower path besides. Returns the lengths of the short segments, and the
/// time.
fn upload_of(size: u64, tso_defer: bool) -> (Vec<u32>, Time) {
    let path = |mbps, delay| Path { rate: Some(Rate::from_mbps(mbps)), queue: 150_000, ..Path::clean(delay) };
    let config = ConnectionConfig { tso_defer, ..growing() };
    let mut pair = Pair::new(vec![path(40, 8), path(20, 25)], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, size);
    pair.close_after_backlog(Side::Client);
    assert!(pair.run_until(Time::from_secs(2), |pair| pair.server.read == size), "{:?}", pair.now);
    let lengths = pair.data_segments(Side::Client).map(|(.., segment, _)| segment.payload_len);
    (lengths.filter(|len| *len < 1420).collect(), pair.now)
}

// As captured: 90 KB took a round trip longer here than in the kernel. The end of the first data in the subflow became a
// short segment, for which the end of the flow then waited.
#[test]
fn the_end_of_the_first_data_waits_for_more_and_delays_no_later_end() {
    for (size, least) in [(90_000, 8), (100_000, 3)] {
        let (short, time) = upload_of(size, true);
        assert_eq!(short, [(size % 1420) as u32], "{size}");
        let (more, later) = upload_of(size, false);
        let gain = later.since(time);
        assert!(more.len() > 1 && gain > Duration::from_millis(least), "{size}: {more:?} {gain:?}");
    }
}

// As captured at `mptcp 2.6M/25ms/1 + 38M/109ms/2 2830KB & 1199KB @1 down first=2`: the first join adds its buffer, so that the server's
// program writes on at once. As captured at `mptcp 29M/22ms/2 + 9.2M/102ms/1/0.59% + 2.9M/123ms/4 + 12M/21ms/4 98KB down first=3`: a join
// after the end of the stream is refused (`__mptcp_finish_join`), administratively prohibited.
#[test]
fn a_join_wakes_the_writer_of_a_listener_and_one_after_the_end_of_the_stream_is_refused() {
    const FILE: u64 = 98_000;
    let path = |kbps: u64, delay| Path { rate: Some(Rate(kbps * 1000)), queue: 90_000, ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(2900, 61), path(12_000, 40), path(29_000, 55)], growing(), 1);
    pair.connect(growing());
    pair.write_all(Side::Server, FILE);
    pair.close_after_backlog(Side::Server);
    assert!(pair.run_until(Time::from_secs(2), |pair| pair.client.read == FILE), "{:?}", pair.now);
    let from_server = |path: usize| -> Vec<Flags> {
        let own = pair.log.iter().filter(|(_, side, on, ..)| *side == Side::Server && *on == path);
        own.map(|(.., segment, _)| segment.flags).collect()
    };
    let (second, third) = (from_server(1), from_server(2));
    assert!(second.len() > 2 && second.iter().all(|flags| !flags.has(Flags::RST)), "{second:?}");
    let first_of = |side: Side, is: fn(&Segment) -> bool| {
        let found =
            pair.log.iter().find(|(_, from, on, segment, ..)| (*from, *on) == (side, 1) && is(segment));
        found.unwrap().0
    };
    let joined = first_of(Side::Client, |segment| !segment.flags.has(Flags::SYN)) + Duration::from_millis(40);
    let data = first_of(Side::Server, |segment| segment.payload_len > 0);
    assert!(data.since(joined) < Duration::from_millis(1), "{joined:?} {data:?}");
    assert!(third.len() == 2 && third[0].has(Flags::SYN) && third[1].has(Flags::RST), "{third:?}");
}

// As captured at `mptcp 7.7M/65ms/1 + 3.4M/130ms/4/0.055% 140KB first=1`: the SYN/ACK of the join arrives after the end of the
// stream. The kernel resets the subflow (`mptcp_finish_join`), and closing it assigns all data again (`mptcp_close_ssk`).
#[test]
fn a_join_after_the_end_of_the_stream_is_reset_and_all_data_is_sent_again() {
    const FILE: u64 = 140_000;
    let path = |kbps: u64, delay| Path { rate: Some(Rate(kbps * 1000)), queue: 60_000, ..Path::clean(delay) };
    let mut pair = Pair::new(vec![path(7700, 32), path(3400, 65)], growing(), 1);
    pair.connect(growing());
    pair.write_all(Side::Client, FILE);
    pair.close_after_backlog(Side::Client);
    assert!(pair.run_until(Time::from_secs(2), |pair| pair.server.read == FILE), "{:?}", pair.now);
    pair.run_for(Duration::from_secs(1));
    let of_second = pair.log.iter().filter(|(_, side, path, ..)| *side == Side::Client && *path == 1);
    let flags: Vec<Flags> = of_second.map(|(.., segment, _)| segment.flags).collect();
    assert!(flags.len() == 2 && flags[0].has(Flags::SYN) && flags[1].has(Flags::RST), "{flags:?}");
    let sent = pair.data_segments(Side::Client).map(|(.., segment, _)| u64::from(segment.payload_len));
    let sent: u64 = sent.sum();
    // The kernel has sent 219,872 bytes, 98 ms longer.
    assert!((200_000..240_000).contains(&sent), "{sent}");
}

/// Returns the lengths of the bursts of a plain TCP with 100 Mbit/s and 20 ms, once it has left slow start.
fn bursts(tso_defer: bool) -> Vec<usize> {
    let plain = ConnectionConfig { mptcp: false, tso_defer, ..growing() };
    let path = Path { rate: Some(Rate::from_mbps(100)), queue: 300_000, ..Path::clean(10) };
    let mut pair = Pair::new(vec![path], plain.clone(), 1);
    pair.connect(plain);
    pair.write_all(Side::Client, SIZE);
    assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == SIZE));
    let times: Vec<Time> = pair.data_segments(Side::Client).map(|(at, ..)| *at).collect();
    let late: Vec<Time> = times.into_iter().filter(|at| *at > Time::from_millis(150)).collect();
    late.chunk_by(|left, right| left == right).map(<[Time]>::len).collect()
}

// In captures of the kernel at 100 Mbit/s nearly all bursts have 9 or 10 segments.
#[test]
fn a_fast_sender_sends_the_segments_of_a_millisecond_together() {
    let median = |mut bursts: Vec<usize>| {
        bursts.sort_unstable();
        bursts[bursts.len() / 2]
    };
    let (deferred, at_once) = (median(bursts(true)), median(bursts(false)));
    assert!((8..=12).contains(&deferred) && at_once <= 2, "{deferred} {at_once}");
}

// `__tcp_select_window`: 64,240 bytes in units of 1 KiB, rounded up.
#[test]
fn the_third_ack_of_a_client_rounds_its_window_up() {
    let mut pair = Pair::new(vec![Path::clean(10)], growing(), 1);
    pair.connect(growing());
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.server.open));
    let client = pair.log.iter().filter(|(_, side, ..)| *side == Side::Client);
    let windows: Vec<u16> = client.map(|(.., segment, _)| segment.window).collect();
    assert_eq!(windows[..2], [64_240, 63]);
}

/// Returns the data segments that the client has sent: path, first and last offset of the stream.
fn sent_data(pair: &Pair) -> Vec<(usize, u64, u64)> {
    let client = || pair.log.iter().filter(|(_, side, ..)| *side == Side::Client);
    let syn = |path| client().find(|(_, _, on, ..)| *on == path).map(|(.., segment, _)| segment.seq.0);
    let mut origin = None;
    // Those before the first mapping carry the keys.
    let mut before = 0;
    let mut all = Vec::new();
    for (_, _, path, segment, _) in pair.data_segments(Side::Client) {
        let len = u64::from(segment.payload_len);
        let Some(map) = segment.options.dss.and_then(|dss| dss.mapping) else {
            all.push((*path, before, before + len));
            before += len;
            continue;
        };
        let MappedDsn::Wide(dsn) = map.dsn else { panic!("{segment:?}") };
        let inside = segment.seq.0.wrapping_sub(syn(*path).unwrap()).wrapping_sub(map.ssn);
        let after_first = dsn.distance_from(*origin.get_or_insert(dsn)) as u64;
        let start = before + after_first + u64::from(inside);
        all.push((*path, start, start + len));
    }
    all
}

/// Uploads `size` bytes over two paths of which `dead` is silent from `cut` milliseconds on. Returns the time, and the
/// data that the other path sends again, as runs in the order of the stream.
fn fail(paths: [Path; 2], dead: usize, cut: u64, size: u64) -> (Time, Vec<(u64, u64)>) {
    // Deferral moves the data that the silent path has, and with it the first offsets.
    let config = ConnectionConfig { tso_defer: false, ..growing() };
    let mut pair = Pair::new(paths.to_vec(), config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, size);
    pair.run_until(Time::from_millis(cut), |_| false);
    pair.paths[dead].down = true;
    assert!(pair.run_until(Time::from_secs(20), |pair| pair.server.read == size), "{:?}", pair.now);
    let mut sent = vec![false; size as usize];
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (path, start, end) in sent_data(&pair) {
        let bytes = &mut sent[start as usize..end as usize];
        if path != dead && bytes.iter().any(|sent| *sent) {
            match runs.last_mut() {
                Some(run) if run.1 == start => run.1 = end,
                // Data that waited in the buffer of the silent subflow is no gap.
                Some(run) if run.1 < start && start < run.1 + 3 * PIECE => run.1 = end,
                _ => runs.push((start, end)),
            }
        }
        bytes.fill(true);
    }
    (pair.now, runs)
}

// `__mptcp_retransmit_pending_data`: once the silent subflow is stale, all data is assigned again.
#[test]
fn all_data_is_sent_at_once_when_a_silent_subflow_is_stale() {
    let path = || Path { rate: Some(Rate::from_mbps(20)), queue: 150_000, ..Path::clean(15) };
    let (done, runs) = fail([path(), path()], 0, 300, 2_000_000);
    // The kernel needs 1.37 to 1.50 s; with one reinjection after each round trip it took 2 s and more.
    assert!(done < Time::from_millis(1600), "{done:?}");
    let (start, end) = runs.last().unwrap();
    assert!(end - start > 400_000, "{runs:?}");
}

// `__mptcp_retrans`: from the data acknowledgement to the end of the piece.
#[test]
fn a_check_sends_the_first_piece_up_to_its_end_on_an_idle_subflow() {
    let fast = Path { rate: Some(Rate::from_mbps(20)), queue: 50_000, ..Path::clean(10) };
    let slow = Path { rate: Some(Rate::from_mbps(10)), queue: 75_000, ..Path::clean(30) };
    let (_, runs) = fail([fast, slow], 1, 500, 4_000_000);
    // The last run is all data. Each of the others is a part of a piece, and goes up to its end if the window admits it.
    let ((start, end), checks) = runs.split_last().unwrap();
    assert!(end - start > 200_000, "{runs:?}");
    assert!(checks.iter().all(|(start, end)| start % PIECE != 0 && end - start < PIECE), "{runs:?}");
    assert!(checks.iter().any(|(_, end)| end % PIECE == 0), "{runs:?}");
}

// `mptcp_subflow_get_retrans` uses a backup after two checks without progress, and the scheduler uses nothing else once
// the main path is stale.
#[test]
fn a_backup_takes_over_within_two_seconds() {
    const FILE: u64 = 6_000_000;
    let config = growing();
    let main = Path { rate: Some(Rate::from_mbps(10)), queue: 125_000, ..Path::clean(50) };
    let spare = Path { rate: Some(Rate::from_mbps(100)), queue: 125_000, ..Path::clean(5) };
    let mut pair = Pair::new(vec![main, spare], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, FILE);
    let second = anabranch_stack::event::SubflowId(1);
    let id = pair.client.connection.unwrap();
    let joined = |pair: &Pair| pair.client.endpoint.subflow_stats(id).len() == 2;
    assert!(pair.run_until(Time::from_secs(1), joined));
    pair.run_for(Duration::from_millis(20));
    pair.set_backup(Side::Server, second, true);
    pair.run_until(Time::from_secs(2), |_| false);
    let cut = pair.now;
    pair.paths[0].down = true;
    assert!(pair.run_until(Time::from_secs(30), |pair| pair.server.read == FILE), "{:?}", pair.now);
    let took = pair.now.since(cut);
    assert!(took < Duration::from_millis(2200), "{took:?}");
}

/// Returns a connection over a path and a backup that sends `bytes`, the first path of which fails after `cut` milliseconds.
fn with_backup(sender: Side, paths: [Path; 2], bytes: u64, cut: u64) -> Pair {
    let config = growing();
    let mut pair = Pair::new(paths.to_vec(), config.clone(), 1);
    pair.connect(config);
    pair.write_all(sender, 1000);
    let id = pair.client.connection.unwrap();
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.endpoint.subflow_stats(id).len() == 2));
    pair.run_for(Duration::from_millis(150));
    pair.write_all(sender, bytes);
    pair.run_for(Duration::from_millis(cut));
    pair.paths[0].down = true;
    pair
}

// As captured at `mptcp 3.4M/32ms/2/down=0.21s + 80M/46ms/0.5/backup 531KB down first=1`: the peer of a download has sent
// nothing on the backup before, and the first piece is there after 0.3 s, and not once the silent subflow is stale (0.9 s).
#[test]
fn a_backup_carries_the_first_piece_of_a_download_after_two_checks() {
    let main = Path { rate: Some(Rate(3_400_000)), queue: 27_000, ..Path::clean(16) };
    let spare = Path { rate: Some(Rate::from_mbps(80)), queue: 230_000, backup: true, ..Path::clean(23) };
    let mut pair = with_backup(Side::Server, [main, spare], 531_000, 200);
    let cut = pair.now;
    let on_backup = |pair: &Pair| pair.data_segments(Side::Server).any(|(.., on, _, _)| *on == 1);
    assert!(!on_backup(&pair));
    assert!(pair.run_until(cut + Duration::from_secs(5), on_backup));
    let waited = pair.now.since(cut);
    assert!(waited < Duration::from_millis(600), "{waited:?}");
}

// `__mptcp_clean_una` stops the data-level timer only once everything written is acknowledged; otherwise nothing makes the
// silent subflow stale, and its backup gets no new data.
#[test]
fn a_backup_gets_new_data_although_everything_sent_has_arrived() {
    const FILE: u64 = 4_000_000;
    let main = Path { rate: Some(Rate::from_mbps(26)), queue: 94_000, ..Path::clean(29) };
    let spare = Path { rate: Some(Rate::from_mbps(34)), queue: 970_000, backup: true, ..Path::clean(57) };
    let mut pair = with_backup(Side::Client, [main, spare], FILE, 20);
    let cut = pair.now;
    assert!(pair.run_until(cut + Duration::from_secs(60), |pair| pair.server.read == 1000 + FILE));
    let took = pair.now.since(cut);
    // The kernel has sent new data on the backup after 1.43 s, and with 34 Mbit/s 4 MB take 0.95 s.
    assert!(took < Duration::from_millis(3300), "{took:?}");
}

/// Returns a plain TCP sender over a long clean path, with a window of some 100 segments.
fn grown() -> Pair {
    let config = kernel_tcp();
    let mut pair = Pair::new(vec![Path::clean(50)], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, 200_000);
    assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 200_000));
    pair.run_for(Duration::from_millis(100));
    pair
}

fn window(pair: &Pair) -> u64 {
    pair.client.endpoint.subflow_stats(pair.client.connection.unwrap())[0].cwnd_bytes / 1448
}

// `tcp_cwnd_restart` and `tcp_cwnd_application_limited`: a window of the kernel is halved for each timeout without a
// transmission, and for each in which the application does not fill it it moves half of the way towards its use.
#[test]
fn a_window_decays_while_the_application_does_not_fill_it() {
    let before = window(&grown());
    assert!(before > 80, "{before}");
    // A timeout is 200 ms more than a round trip of 100 ms, or three at first.
    let mut idle = grown();
    idle.run_for(Duration::from_millis(400));
    idle.write_all(Side::Client, 1448);
    idle.run_for(Duration::from_millis(100));
    assert!((before / 2 - 1..=before / 2 + 1).contains(&window(&idle)), "{before} {}", window(&idle));
    let mut narrow = grown();
    for _ in 0..60 {
        narrow.write_all(Side::Client, 3 * 1448);
        narrow.run_for(Duration::from_millis(50));
    }
    assert!((10..16).contains(&window(&narrow)), "{}", window(&narrow));
}

/// Returns an upload of 200 MB over paths of 350 ms in each direction, after 20 s.
fn long_fat(paths: usize, config: ConnectionConfig) -> Pair {
    let path = Path { rate: Some(Rate::from_mbps(100)), ..Path::clean(350) };
    let mut pair = Pair::new(vec![path; paths], config.clone(), 1);
    pair.connect(config);
    pair.write_all(Side::Client, 200_000_000);
    pair.run_until(Time::from_secs(20), |_| false);
    pair
}

/// Returns the most payload that a path has carried within a round trip of 700 ms, in KB.
fn most_in_flight(pair: &Pair, path: usize) -> u64 {
    let sent: Vec<_> = pair.data_segments(Side::Client).filter(|(.., on, _, _)| *on == path).collect();
    let (mut first, mut bytes, mut most) = (0, 0, 0);
    for (at, .., segment, _) in &sent {
        bytes += u64::from(segment.payload_len);
        while sent[first].0 + Duration::from_millis(700) <= *at {
            bytes -= u64::from(sent[first].3.payload_len);
            first += 1;
        }
        most = most.max(bytes);
    }
    most / 1000
}

/// The kernel's settings with another scheduler.
fn kernel_min_rtt() -> ConnectionConfig {
    ConnectionConfig { scheduler: SchedulerKind::MinRtt, ..SimConfig::new(Profile::Linux).connection }
}

fn kernel_tcp() -> ConnectionConfig {
    ConnectionConfig { mptcp: false, mss: 1448, ..kernel_min_rtt() }
}

fn sent(pair: &Pair) -> u64 {
    pair.data_segments(Side::Client).map(|(.., segment, _)| u64::from(segment.payload_len)).sum()
}

// `tcp_sndbuf_expand` in net/ipv4/tcp_input.c: up to `tcp_wmem`; `sk_stream_write_space` in net/core/stream.c wakes the
// program once a third is free.
#[test]
fn a_plain_tcp_waits_for_its_send_buffer_on_a_long_fat_path() {
    // A buffer for the connection replaces it.
    let own = sent(&long_fat(1, ConnectionConfig { kernel_buffers: false, ..kernel_tcp() }));
    let kernel = sent(&long_fat(1, kernel_tcp()));
    assert!(kernel < own * 3 / 4, "{kernel} {own}");
    // A program that sets SO_SNDBUF has the buffer that it sets.
    let fixed = ConnectionConfig { send_buffers: Some(SendBuffers::Fixed(Bytes(16 << 20))), ..kernel_tcp() };
    let fixed = sent(&long_fat(1, fixed));
    assert!(fixed > own * 9 / 10, "{fixed} {own}");
}

// `__mptcp_sync_sndbuf` in net/mptcp/protocol.h: the connection has the sum of its subflows' buffers.
#[test]
fn a_subflow_has_no_more_in_flight_than_its_send_buffer_admits_with_any_scheduler() {
    let pair = long_fat(2, kernel_min_rtt());
    for path in [0, 1] {
        let most = most_in_flight(&pair, path);
        assert!((3_000..4_200).contains(&most), "path {path}: {most}");
    }
}

// `tcp_sendmsg_locked` in net/ipv4/tcp.c stores data in packets of up to half of the peer's window, as long as the buffer
// is not full, and `mptcp_sendmsg` in pieces of a page.
#[test]
fn every_sender_begins_with_the_kernels_buffer() {
    for (config, taken) in [(kernel_tcp(), 2 * 22 * 1448), (kernel_min_rtt(), 2 * PIECE)] {
        let path = Path { rate: Some(Rate::from_mbps(10)), queue: 100_000, ..Path::clean(20) };
        let mut pair = Pair::new(vec![path], config.clone(), 1);
        pair.connect(config);
        assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
        assert_eq!(pair.write(Side::Client, SIZE), taken);
    }
}

// A program that waits for space completes the last segment once it may write (RFC 9293 section 3.8.6.2.1).
#[test]
fn a_multipath_sender_sends_whole_segments_while_the_program_waits_for_space() {
    let path = |mbps| Path { rate: Some(Rate::from_mbps(mbps)), queue: 100_000, ..Path::clean(20) };
    let anabranch = SchedulerKind::Anabranch(AnabranchOptions::DEFAULT);
    for (paths, scheduler) in [(1, SchedulerKind::MinRtt), (2, anabranch)] {
        let config = ConnectionConfig { scheduler, ..kernel_min_rtt() };
        let mut pair = Pair::new([20, 10][..paths].iter().copied().map(path).collect(), config.clone(), 1);
        pair.connect(config);
        pair.write_all(Side::Client, SIZE);
        assert!(pair.run_until(Time::from_secs(10), |pair| pair.server.read == SIZE), "{:?}", pair.now);
        let lengths = pair.data_segments(Side::Client).map(|(.., segment, _)| u64::from(segment.payload_len));
        let short: Vec<_> = lengths.filter(|length| *length < 1420).collect();
        // The end, and on two paths a copy of it and one more where their data meets.
        assert!((1..2 * paths).contains(&short.len()), "{paths}: {short:?}");
    }
}

#[test]
fn the_short_end_of_a_stream_that_is_closed_waits_for_nothing() {
    let mut pair = Pair::new(vec![Path::clean(100)], kernel_min_rtt(), 1);
    pair.connect(kernel_min_rtt());
    assert!(pair.run_until(Time::from_secs(1), |pair| pair.client.open));
    let accepted = pair.write(Side::Client, SIZE);
    assert_ne!(accepted % 1420, 0);
    // The program gives the rest up. Slow start sends 47 segments in three round trips.
    pair.close(Side::Client);
    let opened = pair.now;
    assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == accepted));
    assert!(pair.now.since(opened) < Duration::from_millis(550), "{:?}", pair.now.since(opened));
}

// Only the kernel's own scheduler asks whether the buffer of a subflow has space (`mptcp_subflow_get_send`), and the buffer grows only while
// the program waits. A slow start of 10, 20 and 40 segments needs more than its initial 24.
#[test]
fn a_subflow_fills_its_window_once_everything_is_written() {
    let first = Path { rate: Some(Rate::from_mbps(100)), queue: 500_000, ..Path::clean(20) };
    let second = Path { backup: true, ..first.clone() };
    let mut pair = Pair::new(vec![first, second], kernel_min_rtt(), 1);
    pair.connect(kernel_min_rtt());
    pair.write_all(Side::Client, 100_000);
    assert!(pair.run_until(Time::from_secs(5), |pair| pair.server.read == 100_000));
    let sent: Vec<_> = pair.data_segments(Side::Client).map(|(at, ..)| *at).collect();
    let third = sent.iter().filter(|at| at.since(sent[30]) < Duration::from_millis(30)).count() - 30;
    assert_eq!(third, 40, "{} segments", sent.len());
}
