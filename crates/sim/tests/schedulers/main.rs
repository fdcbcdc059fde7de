//! Schedulers end to end: the claims of their papers, and the acceptance matrix of the field. `cargo test
//! --release --package anabranch-sim --test schedulers -- --nocapture` prints the measurements;
//! docs/reproduction.md says which claims hold, and why the others do not.

mod cp;
mod matrix;
mod prediction;
mod single;
mod stms;
mod watch;
