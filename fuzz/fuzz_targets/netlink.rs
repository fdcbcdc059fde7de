//! Any bytes as the payload of a netlink message of the path manager or of socket diagnostics.

#![no_main]

use anabranch_kernel::diag::{parse_connection, parse_subflow};
use anabranch_kernel::pm::parse_event;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let _ = (parse_event(payload), parse_connection(payload), parse_subflow(payload));
});
