//! Where the time of a flow went.
#![allow(dead_code)]

mod account;
mod cause;
mod chain;
mod record;
mod story;
#[cfg(test)]
mod tests;

pub use cause::{Cause, Parts};
pub(crate) use record::Notes;
