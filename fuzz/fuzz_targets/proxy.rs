//! Any bytes as a message of the Convert protocol, as the request of an application by SOCKS 5 or HTTP, and as the
//! messages of HTTP, and a scheduler gets their sizes.

#![no_main]

use anabranch_proxy::chew;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    chew::convert(bytes, &[3; 32]);
    chew::front(bytes);
    chew::sizes(bytes);
});
