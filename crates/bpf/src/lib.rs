//! Coupled congestion control for the Multipath TCP of the stock Linux kernel: LIA, OLIA, BALIA and wVegas as
//! `tcp_congestion_ops` in BPF.

#![warn(unreachable_pub)]

mod law;

pub use law::Law;
