//! Multipath TCP (RFC 8684) as a pure state machine over numbers.
//!
//! The stack reads no clock, opens no socket, starts no thread, has no source of randomness and holds no
//! payload bytes. Its inputs are events with their times; its outputs are segments to send and the time of
//! the next wake-up. So the same code runs in a simulator and on a real network.

#![warn(unreachable_pub)]

pub mod checksum;
pub mod config;
pub mod congestion;
mod connection;
pub mod crypto;
pub mod endpoint;
pub mod event;
pub mod known;
pub mod observer;
pub mod parameter;
pub mod path_manager;
mod pieces;
pub mod prediction;
mod ranges;
pub mod scheduler;
pub mod segment;
pub mod selection;
pub mod seq;
pub mod shard;
pub mod stats;
mod subflow;
mod timer_table;
pub mod timestamp;
pub mod transfer_model;

/// The examples of the guide compile and run.
#[cfg(doctest)]
#[doc = include_str!("../GUIDE.md")]
struct Guide;
