//! Results for people: tables, bars, sentences and verdicts, in the width of the terminal and with colours.
//!
//! Each module has a function `text` for one kind of result. The text has control characters of colours, which the
//! caller removes where there are none; [`texts`] has the same without colours, for other programs.
//!
//! ```
//! use anabranch_show::table::{Align, Table};
//!
//! let mut table = Table::new().column("scheduler", Align::Left).column("mean ms", Align::Right);
//! table.row(vec!["tcp".to_owned(), "294".to_owned()]);
//! assert_eq!(table.render(80), "scheduler  mean ms\ntcp            294\n");
//! ```

#![warn(unreachable_pub)]

pub mod advise;
pub mod compare;
pub mod explain;
pub mod fairness;
pub mod inspect;
#[cfg(test)]
mod made;
pub mod run;
pub mod sweep;
pub mod table;
pub mod terminal;
pub mod texts;
mod usage;
pub mod verdicts;
pub mod visible;
