//! Results for people: tables, bars, sentences and verdicts, in the width of the terminal and with colours.
//!
//! Each module has a function `text` for one kind of result. The text has control characters of colours, which the
//! caller removes where there are none; [`texts`] has the same without colours, for other programs.

#![warn(unreachable_pub)]

pub mod advise;
pub mod compare;
pub mod explain;
pub mod fairness;
#[cfg(test)]
mod made;
pub mod run;
pub mod sweep;
pub mod table;
pub mod terminal;
pub mod texts;
pub mod verdicts;
pub mod visible;
