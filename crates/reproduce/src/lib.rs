//! Claims of published papers, judged by simulation.
//!
//! A paper has a directory of scenarios and a file of claims ([`claims`]). A claim states which runs are
//! compared, in which measure, and which result counts as holding, before anything is simulated. Runs are
//! measured by [`measure`], kept in a [`journal`], and judged by [`judge`]: a claim holds if the 95 % interval
//! lies in the range that the claim requires, fails if it lies outside, and is undecided otherwise. If the
//! plain result does not hold, the claim's variants are tried, and a variant that holds is reported as one.
//!
//! ```
//! use anabranch_reproduce::library;
//!
//! for paper in library::papers()? {
//!     assert!(!paper.claims.is_empty(), "{}", paper.title);
//! }
//! # Ok::<(), anabranch_reproduce::ClaimsError>(())
//! ```

#![warn(unreachable_pub)]

pub mod choice;
pub mod claims;
mod combine;
mod comparison;
mod course;
pub mod figure;
pub mod finding;
pub mod html;
pub mod journal;
pub mod judge;
pub mod library;
pub mod measure;
mod meter;
mod metric;
mod model;
mod observe;
pub mod parts;
pub mod recorded;
pub mod reproduce;
pub mod session;
pub mod take;
mod value;
mod values;
pub mod window;

pub use claims::{Claim, ClaimsError, Kind, Paper};
pub use judge::Status;
pub use metric::Metric;
