//! What a right simulation must show: closed forms, and what the papers found.
//! `cargo test --release --test claims -- --nocapture` prints what was measured.

#[path = "../common/mod.rs"]
mod common;

mod fairness;
mod pftk;
mod slow_start;
mod utilisation;
