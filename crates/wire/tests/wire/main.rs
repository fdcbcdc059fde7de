//! The codec from outside: vectors, properties, and what no honest host would send.

mod icmp;
mod kit;
mod malformed;
mod options;
mod packets;
mod roundtrip;
