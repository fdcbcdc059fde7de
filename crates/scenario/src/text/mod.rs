//! Text and its parts, which the files above read and write: TOML with places, quantities, declared keys.

pub(crate) mod base;
pub(crate) mod keys;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod tree;
pub mod units;
pub(crate) mod write;
