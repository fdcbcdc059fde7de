//! Reads scenarios: each table by the file of its name, the whole by `scenario`, a file and its overrides by `document`.
//!
//! A file declares the keys of its tables in rows and reads them; the schema and the canonical form use the same rows.

pub(crate) mod change;
pub(crate) mod classes;
pub(crate) mod contender;
pub(crate) mod distribution;
mod document;
pub(crate) mod endpoints;
pub(crate) mod files;
pub mod knobs;
pub(crate) mod link;
pub(crate) mod middlebox;
pub(crate) mod network;
pub mod parameters;
pub(crate) mod path;
pub(crate) mod phases;
pub mod presets;
pub(crate) mod queueing;
pub(crate) mod scenario;
mod sides;
pub(crate) mod tariff;
pub(crate) mod traffic;

pub use document::Document;
