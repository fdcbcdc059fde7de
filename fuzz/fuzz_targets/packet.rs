//! Any bytes as a packet.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/wire/tests/wire/chew.rs"]
mod chew;

fuzz_target!(|packet: &[u8]| chew::chew(packet));
