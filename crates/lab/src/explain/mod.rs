//! Where the time of a flow went.
#![allow(dead_code)]

mod cause;
mod chain;
mod story;
#[cfg(test)]
mod tests;

pub use cause::{Cause, Parts};
