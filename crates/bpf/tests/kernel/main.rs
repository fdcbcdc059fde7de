//! The BPF programs: their arithmetic against the laws of the stack, their objects, and, with the feature `load`, the programs in
//! this kernel.
#![cfg(target_os = "linux")]

#[cfg(feature = "load")]
mod connections;
mod laws;
mod objects;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
