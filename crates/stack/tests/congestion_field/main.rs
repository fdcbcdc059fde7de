//! The congestion controls of the field, each compared with its formulas and claimed properties.

#[path = "../congestion_common/mod.rs"]
mod congestion_common;

mod balia;
mod cubic_linux;
mod cubic_linux_counts;
mod curves;
mod growth;
mod lisa;
mod olia;
mod path;
mod sets;
mod single;
mod together;
mod vegas;
mod veno;
mod westwood;
mod wvegas;
