//! Results that a correct simulation must reproduce: closed forms, and findings of papers. `cargo test
//! --release --test claims -- --nocapture` prints the measurements.

#[path = "../common/mod.rs"]
mod common;

mod fairness;
mod pftk;
mod slow_start;
mod utilisation;
