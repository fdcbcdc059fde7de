//! Congestion controls on simulated paths: ECN, BBR, shared bottlenecks. `cargo test --release -p
//! anabranch-sim --test congestion -- --ignored --nocapture` prints tables of shares and of decisions.

#[path = "../common/mod.rs"]
mod common;

mod bbr;
mod detection;
mod ecn;
mod properties;
mod survey;
