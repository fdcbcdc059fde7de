//! One endpoint and a peer that lies: the harness of the tests, and of the fuzz target, that tell an endpoint
//! what no honest peer would.
#![allow(dead_code, reason = "each test and the fuzz target use a part")]

pub mod bytes;
pub mod lie;
pub mod step;
pub mod target;

use anabranch_stack::segment::Flags;
use anabranch_units::Duration;

use crate::harness::Side;
use crate::random::case::Case;
use step::{Lie, Number, Step};
pub use target::{Reached, Target};

/// How many bytes an attack of some hundred steps may make the endpoint hold at any time.
const MOST_HELD: usize = 8 << 20;

/// What is told to which endpoint.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Whether the endpoint is the client.
    pub side: Side,
    /// What it is told, and the numbers that it draws.
    pub case: Case,
    /// The handshake is as it should be, so that the later states are reached as well.
    pub honest: bool,
    pub steps: Vec<Step>,
}

/// Runs it. `held` says how many bytes are allocated now, everything counted.
pub fn attack(attack: &Attack, held: fn() -> usize) -> Reached {
    let Attack { side, honest, steps, .. } = attack;
    // Agreed keys have no handshake to be honest in.
    let case = &Case { simultaneous: attack.case.simultaneous && !honest, ..attack.case.clone() };
    let before = held();
    let within = || {
        let grown = held().saturating_sub(before);
        assert!(grown < MOST_HELD, "{grown} bytes are held");
    };
    let mut target = Target::new(*side, case.config(*side), case.seed);
    target.listen();
    if *honest {
        shake_hands(&mut target);
    }
    for step in steps {
        target.step(step);
        within();
    }
    // Left alone, it comes to rest.
    for _ in 0..4 {
        target.run_for(Duration::from_secs(600));
    }
    within();
    target.reached
}

fn shake_hands(target: &mut Target) {
    let plain = |flags: Flags, options: Vec<u8>| {
        Step::Segment(Lie {
            flags: flags.0,
            window: 20_000,
            syn: flags.has(Flags::SYN).then_some((1460, Some(7), true)),
            options,
            number: 1,
            ..Lie::TRUTH
        })
    };
    if target.side() == Side::Client {
        target.step(&plain(Flags::SYN.with(Flags::ACK), vec![1]));
    } else {
        target.step(&plain(Flags::SYN, vec![0]));
        target.step(&plain(Flags::ACK, vec![2]));
    }
    assert!(target.reached.opened, "the honest handshake");
    target.step(&Step::Write(5000));
}

/// What an ordinary data segment says: the next bytes, where they belong.
pub fn honest_data(port: u8, len: u32) -> Step {
    Step::Segment(Lie {
        port,
        window: 60_000,
        len,
        dss: Some(step::LieDss {
            ack: Some(Number::Near(0)),
            mapping: Some((Number::Near(0), Number::Near(0), len as u16)),
            ..step::LieDss::default()
        }),
        ..Lie::TRUTH
    })
}
