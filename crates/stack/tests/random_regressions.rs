//! Cases that once failed, by hand, with the rule that each holds.

mod harness;
mod random;

use harness::Side;
use random::case::{Case, Knobs, Op, PathSetup};
use random::run::run;

const PATH: PathSetup = PathSetup { delay_us: 1000, loss: 0, reorder: 0, duplicate: 0, absent: false };

#[test]
fn redundant_goes_on_after_a_write_that_did_not_fit() {
    run(&Case {
        knobs: [Knobs { scheduler: 2, send_buffer: 1, ..Knobs::PLAIN }, Knobs::PLAIN],
        paths: vec![PATH],
        ops: vec![Op::Write(Side::Client, 735), Op::Advance(4000)],
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
