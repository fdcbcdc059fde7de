//! One endpoint and a hostile peer: the harness of the tests, and of the fuzz target, that send an endpoint
//! segments no honest peer would send.
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

/// The maximum number of bytes that an attack of some hundred steps may make the endpoint hold at any time.
const MOST_HELD: usize = 8 << 20;

/// An attack on one endpoint.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The side of the endpoint.
    pub side: Side,
    /// Its configuration and random numbers.
    pub case: Case,
    /// True for a correct handshake, so that the later states are reached too.
    pub honest: bool,
    pub steps: Vec<Step>,
}

/// Runs the attack. `held` returns the number of bytes currently allocated.
pub fn attack(attack: &Attack, held: fn() -> usize) -> Reached {
    let Attack { side, honest, steps, .. } = attack;
    // Agreed keys exclude an honest handshake.
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
    // Without further input, it becomes idle.
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

/// Returns an ordinary data segment: the next bytes, at their place.
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
