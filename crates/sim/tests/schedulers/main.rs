//! What schedulers do end to end: what their papers claim, and the acceptance matrix of the field.
//! `cargo test --release --package anabranch-sim --test schedulers -- --nocapture` prints what was measured;
//! docs/reproduction.md says what of it holds, and why the rest does not.

mod cp;
mod matrix;
mod single;
mod stms;
mod watch;
