//! Any bytes as a message of the Convert protocol, and as the request of an application by SOCKS 5 or HTTP.

#![no_main]

use anabranch_proxy::chew;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    chew::convert(bytes, &[3; 32]);
    chew::front(bytes);
});
