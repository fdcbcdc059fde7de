//! Captures of other people, formats made from one capture, damaged files, and scenarios.

mod anonymise;
mod captures;
mod formats;
mod hostile;
mod kit;
mod scenarios;
