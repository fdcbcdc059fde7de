//! Random operations over random path sets: what they are, and what must hold.
#![allow(dead_code)]

pub mod case;
pub mod run;
