//! Cases that once failed, each with the rule it violated.

use crate::harness;
use crate::random;

use harness::Side;
use random::case::{Case, Knobs, Op, PathSetup};
use random::run::{compare_fast_paths, run};

const PATH: PathSetup = PathSetup { delay_us: 1000, loss: 0, reorder: 0, duplicate: 0, absent: false };

#[test]
fn redundant_continues_after_a_write_that_did_not_fit() {
    run(&Case {
        knobs: [Knobs { scheduler: 2, send_buffer: 1, ..Knobs::PLAIN }, Knobs::PLAIN],
        paths: vec![PATH],
        ops: vec![Op::Write(Side::Client, 735), Op::Advance(4000)],
        ..Case::plain()
    });
}

#[test]
fn redundant_sends_recalled_data_before_its_position() {
    // A subflow ends with an unsent byte, after which the other subflow has continued.
    let small = Knobs { ack: (1, 40, 0), receive_buffer: (20_000, 0), send_buffer: 20_000, ..Knobs::PLAIN };
    run(&Case {
        seed: 10_715_499_780_892_086_779,
        ns3: true,
        simultaneous: true,
        path_manager: 1,
        fragile: true,
        rto_min_ms: 241,
        time_wait_ms: 500,
        knobs: [
            Knobs {
                flips: 20480,
                scheduler: 2,
                congestion: 7,
                receive_buffer: (200, 5976),
                send_buffer: 88_104,
                ..small
            },
            Knobs { scheduler: 2, receive_buffer: (16_800, 0), send_buffer: 4583, ..small },
        ],
        paths: vec![
            PathSetup { delay_us: 190_878, ..PATH },
            PathSetup { delay_us: 44_876, ..PATH },
            PathSetup { absent: true, ..PATH },
            PathSetup { absent: true, ..PATH },
        ],
        ops: vec![
            Op::Advance(292_004),
            Op::Loss(1, false, 119),
            Op::PathDown(0),
            Op::Close(Side::Server),
            Op::Write(Side::Client, 24_034),
            Op::Write(Side::Client, 17_967),
            Op::Advance(993_339),
            Op::Write(Side::Client, 16_800),
            Op::Advance(496_413),
        ],
        ..Case::plain()
    });
}

#[test]
fn a_window_of_one_byte_moves() {
    run(&Case {
        knobs: [
            Knobs { receive_buffer: (1, 0), ack: (1, 40, 0), ..Knobs::PLAIN },
            Knobs { ack: (1, 40, 0), ..Knobs::PLAIN },
        ],
        paths: vec![PATH],
        ops: vec![Op::Write(Side::Server, 803)],
        ..Case::plain()
    });
}

#[test]
fn unsent_data_is_not_starved_by_later_reinjections() {
    // A path that becomes 400 times as long: the timers of both subflows expire alternately.
    run(&Case {
        ns3: true,
        servers: 2,
        knobs: [
            Knobs { flips: 21_086, receive_buffer: (200, 0), ..Knobs::PLAIN },
            Knobs { flips: 20_480, ..Knobs::PLAIN },
        ],
        paths: vec![PATH],
        ops: vec![
            Op::Advance(1),
            Op::Write(Side::Server, 201),
            Op::Delay(0, 400_001),
            Op::Write(Side::Client, 9801),
        ],
        ..Case::plain()
    });
}

#[test]
fn a_copy_that_is_reported_does_not_hide_that_the_peer_speaks_tcp() {
    // A middlebox removes all options after the handshake. The client's first acknowledgement is lost; its
    // second has one SACK block, and space for a data acknowledgement.
    run(&Case {
        seed: 12_657_591_334_747_892_221,
        path_manager: 0,
        knobs: [
            Knobs { receive_buffer: (200, 200), ack: (1, 40, 0), ..Knobs::PLAIN },
            Knobs { ack: (1, 40, 0), ..Knobs::PLAIN },
        ],
        paths: vec![PathSetup { delay_us: 24_001, loss: 168, ..PATH }],
        ops: vec![Op::Strip(0, 8), Op::Write(Side::Server, 1), Op::Advance(544_007)],
        ..Case::plain()
    });
}

#[test]
fn data_retransmitted_under_another_mapping_causes_no_fallback() {
    // A middlebox removes the mappings of some segments. The data they mapped is held, and has been received
    // again; as many bytes have arrived as the subflow has carried, but not at the offsets of a TCP stream.
    let small = Knobs { ack: (1, 40, 0), receive_buffer: (20_000, 0), send_buffer: 20_000, ..Knobs::PLAIN };
    run(&Case {
        seed: 886_744_535_999_302_457,
        path_manager: 0,
        time_wait_ms: 500,
        knobs: [small, Knobs { flips: 2, ..small }],
        paths: vec![PathSetup { delay_us: 4013, ..PATH }],
        ops: vec![
            Op::Advance(12_039),
            Op::Close(Side::Client),
            Op::Burst(0, 5),
            Op::Strip(0, 8),
            Op::Delay(0, 208_027),
            Op::Write(Side::Client, 1),
            Op::Write(Side::Server, 132_001),
        ],
        ..Case::plain()
    });
}

#[test]
fn a_peer_that_uses_tcp_gets_no_retransmission_of_received_data() {
    // A middlebox removes all options of the server's segments, from its first data on. Although the client's
    // acknowledgements are full of SACK blocks, it must notice that they lack data-level information.
    let small = Knobs { ack: (1, 40, 0), receive_buffer: (20_000, 0), send_buffer: 20_000, ..Knobs::PLAIN };
    run(&Case {
        seed: 12_365_191_528_353_824_086,
        ns3: true,
        path_manager: 2,
        time_wait_ms: 500,
        knobs: [
            Knobs { flips: 3223, receive_buffer: (24_193, 0), ..small },
            Knobs { flips: 25_099, initial_window: 11, send_buffer: 23_801, ..small },
        ],
        paths: vec![PathSetup { loss: 241, ..PATH }, PATH, PATH],
        ops: vec![Op::Strip(3, 8), Op::Write(Side::Server, 40_000), Op::Advance(406_001)],
        ..Case::plain()
    });
}

#[test]
fn a_priority_before_the_keys_does_not_make_a_plain_tcp() {
    let slow = PathSetup { delay_us: 227_852, ..PATH };
    run(&Case {
        path_manager: 0,
        paths: vec![slow],
        ops: vec![
            Op::Advance(227_852),
            Op::PathDown(0),
            Op::Write(Side::Client, 2),
            Op::Advance(227_852),
            Op::PathUp(0),
            Op::Backup(Side::Client, 0, false),
        ],
        ..Case::plain()
    });
}

#[test]
fn a_subflow_whose_peer_is_gone_stops_waiting_for_its_fin() {
    run(&Case {
        seed: 1_760_714_144_234_078_225,
        simultaneous: true,
        path_manager: 2,
        paths: vec![PathSetup { delay_us: 200_033, ..PATH }, PATH],
        ops: vec![
            Op::Close(Side::Server),
            Op::Close(Side::Client),
            Op::Advance(968_482),
            Op::Loss(0, true, 182),
            Op::Backup(Side::Server, 0, false),
            Op::Advance(31_683),
            Op::AddressDown(Side::Server, 0),
        ],
        ..Case::plain()
    });
}

#[test]
fn an_announcement_does_not_take_the_place_of_an_acknowledgement() {
    let quick = Knobs { ack: (1, 40, 0), ..Knobs::PLAIN };
    run(&Case {
        knobs: [quick, Knobs { ack: (4, 40, 0), ..Knobs::PLAIN }],
        servers: 2,
        paths: vec![PATH],
        ops: vec![Op::Write(Side::Client, 1), Op::Write(Side::Client, 1)],
        ..Case::plain()
    });
}

#[test]
fn a_subflow_whose_own_window_is_shut_is_not_waited_for_in_vain() {
    run(&Case {
        path_manager: 2,
        knobs: [
            Knobs { scheduler: 3, mss: 8900, ack: (1, 40, 0), ..Knobs::PLAIN },
            Knobs { receive_buffer: (1000, 0), ack: (1, 40, 0), ..Knobs::PLAIN },
        ],
        paths: vec![PathSetup { delay_us: 43_217, ..PATH }],
        ops: vec![Op::Delay(0, 1000), Op::Write(Side::Client, 4001)],
        ..Case::plain()
    });
}

#[test]
fn a_paced_subflow_sends_its_fin() {
    let slow = PathSetup { delay_us: 300_001, ..PATH };
    run(&Case {
        seed: 12_533_433_603_579_056,
        ns3: true,
        knobs: [Knobs { flips: 8128, initial_window: 1, ack: (1, 40, 0), ..Knobs::PLAIN }, Knobs::PLAIN],
        paths: vec![slow, PathSetup { absent: true, ..PATH }, PATH],
        ops: vec![
            Op::Close(Side::Server),
            Op::Write(Side::Client, 2801),
            Op::Advance(1_450_010),
            Op::Delay(0, 1001),
            Op::Write(Side::Client, 4200),
        ],
        ..Case::plain()
    });
}

#[test]
fn no_segment_is_lost_at_the_time_of_its_retransmission() {
    run(&Case {
        seed: 945_001_220_230_461_184,
        simultaneous: true,
        knobs: [
            Knobs { flips: 21_634, ack: (1, 40, 0), ..Knobs::PLAIN },
            Knobs {
                scheduler: 2,
                send_buffer: 4201,
                receive_buffer: (20_000, 0),
                ack: (1, 40, 0),
                ..Knobs::PLAIN
            },
        ],
        paths: vec![
            PathSetup { delay_us: 500_001, reorder: 175, ..PATH },
            PathSetup { delay_us: 15_376, ..PATH },
        ],
        ops: vec![
            Op::Advance(60_000),
            Op::Write(Side::Client, 1),
            Op::PathDown(1),
            Op::Advance(1_940_004),
            Op::Write(Side::Server, 5000),
            Op::Advance(61_504),
        ],
        ..Case::plain()
    });
}

#[test]
fn unsent_data_of_an_ended_subflow_is_not_requested_twice() {
    let quick = Knobs { ack: (1, 40, 0), receive_buffer: (20_000, 0), ..Knobs::PLAIN };
    run(&Case {
        seed: 4_907_426_730_685_071_595,
        simultaneous: true,
        time_wait_ms: 500,
        knobs: [Knobs { flips: 2752, scheduler: 2, ..quick }, quick],
        paths: vec![PATH, PathSetup { delay_us: 60_000, ..PATH }, PATH],
        ops: vec![
            Op::Burst(0, 1),
            Op::Delay(1, 1000),
            Op::Advance(1_001_000),
            Op::Write(Side::Client, 7001),
            Op::AddressDown(Side::Server, 0),
            Op::Advance(1000),
        ],
        ..Case::plain()
    });
}

/// Returns the position of a congestion control in the list of all.
fn place(name: &str) -> u8 {
    let all = anabranch_stack::congestion::CongestionKind::ALL;
    all.iter().position(|kind| kind.name() == name).expect("a built-in congestion control") as u8
}

#[test]
fn a_copy_that_need_not_go_any_more_makes_room() {
    run(&Case {
        seed: 4_555_047_075_897_331_207,
        path_manager: 3,
        time_wait_ms: 500,
        knobs: [
            Knobs {
                flips: 11_584,
                congestion: place("lia"),
                receive_buffer: (20_000, 0),
                ack: (1, 40, 0),
                ..Knobs::PLAIN
            },
            Knobs {
                flips: 10_697,
                receive_buffer: (20_000, 2400),
                send_buffer: 460,
                max_subflows: 2,
                ack: (3, 4, 2),
                ..Knobs::PLAIN
            },
        ],
        paths: vec![PathSetup { delay_us: 5598, loss: 135, duplicate: 199, ..PATH }],
        ops: vec![
            Op::Write(Side::Server, 461),
            Op::Write(Side::Client, 30_801),
            Op::Advance(43_665),
            Op::Write(Side::Client, 1401),
            Op::Advance(6717),
            Op::Write(Side::Server, 921),
            Op::Backup(Side::Client, 1, true),
            Op::Delay(0, 10),
        ],
        ..Case::plain()
    });
}

/// Timeouts of 200 ms without backoff or timestamps, and round trips of 449 ms: every segment is
/// retransmitted before it is acknowledged, by the subflows alternately, until the user timeout. The
/// connection must end, even if not cleanly.
#[test]
fn a_timeout_that_never_learns_ends_with_the_user_timeout() {
    let plain = Knobs { receive_buffer: (20_000, 0), ..Knobs::PLAIN };
    run(&Case {
        ns3: true,
        path_manager: 1,
        servers: 2,
        rto_min_ms: 200,
        rto_max_ms: 3000,
        user_timeout_ms: 900_000,
        time_wait_ms: 500,
        knobs: [
            Knobs { flips: 50_906, mss: 8900, send_buffer: 20_000, ack: (2, 40, 2), ..plain },
            Knobs {
                flips: 32,
                scheduler: 6,
                congestion: place("bbr"),
                mss: 308,
                send_buffer: 9037,
                ack: (1, 40, 0),
                ..plain
            },
        ],
        paths: vec![PathSetup { delay_us: 224_528, ..PATH }],
        ops: vec![Op::Write(Side::Client, 37_801), Op::Write(Side::Server, 40_000)],
        ..Case::plain()
    });
}

const SMALL: Knobs =
    Knobs { receive_buffer: (20_000, 0), send_buffer: 20_000, ack: (1, 40, 0), ..Knobs::PLAIN };

fn hasty() -> Case {
    Case { rto_min_ms: 200, rto_max_ms: 3000, user_timeout_ms: 900_000, time_wait_ms: 500, ..Case::plain() }
}

/// All acknowledgements with a data acknowledgement are lost, and then a middlebox removes options: data
/// retransmitted at the data level would be taken for new data.
#[test]
fn nothing_is_retransmitted_to_a_peer_that_may_use_tcp() {
    run(&Case {
        seed: 3_141_998_355_388_994_930,
        path_manager: 1,
        servers: 2,
        knobs: [SMALL, Knobs { receive_buffer: (200, 0), ..SMALL }],
        paths: vec![PathSetup { delay_us: 1000, loss: 21, ..PATH }],
        ops: vec![
            Op::Advance(1_002_000),
            Op::Write(Side::Client, 101),
            Op::Burst(0, 2),
            Op::Advance(1_507_020),
            Op::Strip(0, 4),
            Op::Advance(247_642),
            Op::Loss(0, true, 70),
            Op::Write(Side::Server, 1),
            Op::Advance(245_338),
        ],
        ..hasty()
    });
}

/// The second segment has lost its options and overtakes the first.
#[test]
fn payload_without_options_that_came_too_early_leads_back_to_tcp_in_its_turn() {
    run(&Case {
        seed: 0,
        path_manager: 0,
        knobs: [Knobs { send_buffer: 1 << 20, ..SMALL }, Knobs { receive_buffer: (1 << 20, 0), ..SMALL }],
        paths: vec![PathSetup { delay_us: 718, ..PATH }, PATH, PATH],
        ops: vec![
            Op::Advance(1437),
            Op::Write(Side::Client, 1),
            Op::Strip(0, 4),
            Op::Delay(3, 717),
            Op::Write(Side::Client, 1),
            Op::Advance(60_000),
        ],
        ..hasty()
    });
}

/// Damage is detected in data that is no longer needed, after the end of the stream.
#[test]
fn no_subflow_event_is_emitted_after_the_end() {
    run(&Case {
        seed: 92_578_467_392_957_072,
        path_manager: 1,
        knobs: [
            Knobs { receive_buffer: (33_192, 0), checksums: 1, ..SMALL },
            Knobs { flips: 8192, scheduler: 2, send_buffer: 1 << 20, ..SMALL },
        ],
        paths: vec![PATH, PATH, PATH],
        ops: vec![
            Op::Write(Side::Client, 1),
            Op::Advance(4000),
            Op::Damage(0, 170),
            Op::Delay(0, 207_001),
            Op::Write(Side::Server, 1401),
        ],
        ..hasty()
    });
}

/// The peer has fallen back to TCP and signalled it, and then data it had sent before arrives.
#[test]
fn an_overtaken_data_acknowledgement_does_not_bring_mptcp_back() {
    run(&Case {
        seed: 0,
        path_manager: 0,
        knobs: [
            Knobs { flips: 859, receive_buffer: (1 << 20, 0), ..SMALL },
            Knobs { flips: 11_840, ..SMALL },
        ],
        paths: vec![PathSetup { delay_us: 18_831, ..PATH }, PATH],
        ops: vec![
            Op::Advance(60_000),
            Op::Write(Side::Server, 1401),
            Op::Delay(0, 1884),
            Op::Strip(0, 20),
            Op::Write(Side::Client, 1),
            Op::Advance(500_000),
        ],
        ..hasty()
    });
}

/// Both sides detect damage, and one signal of it is lost: one falls back to TCP and the other retransmits
/// the damaged data.
#[test]
fn data_mapped_to_an_earlier_place_never_counts_as_new() {
    run(&Case {
        seed: 10_434_432_373_120_608_447,
        path_manager: 0,
        knobs: [
            Knobs { flips: 1, mss: 8900, receive_buffer: (704, 4896), send_buffer: 1 << 20, ..SMALL },
            Knobs { receive_buffer: (10_848, 0), checksums: 1, ..SMALL },
        ],
        paths: vec![PathSetup { delay_us: 10_667, loss: 62, ..PATH }],
        ops: vec![
            Op::Damage(0, 114),
            Op::Write(Side::Server, 7009),
            Op::Write(Side::Client, 10_849),
            Op::Advance(1_128_004),
        ],
        ..hasty()
    });
}

#[test]
fn the_first_data_acknowledgement_on_a_subflow_shortens_the_wait_for_the_head_on_the_fast_path_too() {
    // It arrives with the next expected data. The fast path recorded it without checking the data-level
    // timer.
    let small = Knobs { ack: (1, 40, 0), receive_buffer: (1000, 0), send_buffer: 20_000, ..Knobs::PLAIN };
    let path = |delay_us| PathSetup { delay_us, ..PATH };
    compare_fast_paths(&Case {
        ns3: true,
        simultaneous: true,
        fragile: true,
        time_wait_ms: 500,
        knobs: [Knobs { scheduler: 3, mss: 8900, ..small }, Knobs { mss: 8900, ..small }],
        paths: vec![PathSetup { duplicate: 16, ..path(11_861) }, path(17_666), path(156_644), path(10)],
        ops: vec![
            Op::Burst(3, 1),
            Op::Advance(1333),
            Op::Strip(0, 20),
            Op::Write(Side::Client, 1),
            Op::AddressUp(Side::Client, 0),
            Op::Duplicate(0, 0),
            Op::Advance(311_955),
            Op::Write(Side::Server, 2001),
        ],
        ..Case::plain()
    });
}

/// The server's only subflow is acknowledged by an echo of ADD_ADDR, which has no data acknowledgement; those before it were
/// lost. Its options are removed from then on, and the client would take a copy of the data for new data.
#[test]
fn data_of_the_only_subflow_is_not_sent_twice_because_its_data_acknowledgement_is_lost() {
    compare_fast_paths(&Case {
        seed: 2_657_608_850_806_160_586,
        time_wait_ms: 500,
        knobs: [
            Knobs { ack: (1, 40, 0), receive_buffer: (20_000, 0), send_buffer: 20_000, ..Knobs::PLAIN },
            Knobs {
                flips: 20_544,
                scheduler: 5,
                ssthresh: Some(1),
                ack: (1, 40, 0),
                receive_buffer: (200, 0),
                max_subflows: 1,
                ..Knobs::PLAIN
            },
        ],
        servers: 2,
        paths: vec![
            PathSetup { delay_us: 12_412, loss: 234, ..PATH },
            PathSetup { delay_us: 10, ..PATH },
            PATH,
        ],
        ops: vec![
            Op::PathDown(1),
            Op::Write(Side::Server, 9801),
            Op::Advance(285_467),
            Op::Burst(0, 1),
            Op::Advance(92_803),
            Op::Strip(3, 8),
            Op::Write(Side::Client, 1),
            Op::PathUp(0),
            Op::Advance(142_060),
        ],
        ..Case::plain()
    });
}

#[test]
fn anabranch_waits_for_no_subflow_that_cannot_send() {
    run(&Case {
        ns3: true,
        path_manager: 1,
        time_wait_ms: 500,
        knobs: [
            Knobs {
                scheduler: 0,
                ack: (1, 40, 0),
                receive_buffer: (1000, 0),
                send_buffer: 20_000,
                ..Knobs::PLAIN
            },
            Knobs {
                scheduler: 21,
                ack: (1, 40, 0),
                receive_buffer: (20_000, 0),
                send_buffer: 20_000,
                ..Knobs::PLAIN
            },
        ],
        servers: 2,
        paths: vec![PATH],
        ops: vec![
            Op::Write(Side::Client, 1),
            Op::Advance(6000),
            Op::PathDown(0),
            Op::Write(Side::Server, 2001),
            Op::Advance(200_000),
        ],
        ..Case::plain()
    });
}
