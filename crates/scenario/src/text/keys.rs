//! Declarations of tables: their keys, with the forms of the values.
//!
//! A reader takes the keys that it knows from the same declaration ([`rows!`]), so that the schema has exactly those.

/// A key of a table.
pub(crate) struct Row {
    pub name: &'static str,
    pub shape: Shape,
    /// The meaning, with the default.
    pub what: &'static str,
}

/// The keys of a table.
pub(crate) struct Keys {
    /// The name of its definition in the schema.
    pub name: &'static str,
    pub rows: &'static [&'static [Row]],
    pub required: &'static [&'static str],
    /// Sets of keys; each set has at least one member in the table.
    pub one_of: &'static [&'static [&'static str]],
    /// The kinds of the table, if some keys belong only to some kinds.
    pub kinds: Option<Kinds>,
    /// The directions; a setting may have a value for each.
    pub sides: Option<Sides>,
}

/// The directions of a path or a link.
#[derive(Clone, Copy)]
pub(crate) struct Sides {
    /// The keys of tables with a value for each.
    pub pairs: &'static [[&'static str; 2]],
    /// The keys that have one value for both.
    pub whole: &'static [&'static str],
}

impl Keys {
    /// A table without required keys.
    pub(crate) const fn new(name: &'static str, rows: &'static [&'static [Row]]) -> Keys {
        Keys { name, rows, required: &[], one_of: &[], kinds: None, sides: None }
    }

    pub(crate) const fn requires(self, required: &'static [&'static str]) -> Keys {
        Keys { required, ..self }
    }
}

/// The kinds of a table by the value of one of its keys.
pub(crate) struct Kinds {
    pub key: &'static str,
    /// The kind of a table without that key; none if it is required.
    pub default: Option<&'static str>,
    /// The keys that every kind has.
    pub common: &'static [&'static str],
    /// The further keys of each kind.
    pub own: fn() -> Vec<(&'static str, &'static [&'static str])>,
}

/// The form of a value.
pub(crate) enum Shape {
    Bool,
    /// A whole number from the first to the second.
    Whole(i64, i64),
    Number,
    Text,
    /// A text or a whole number.
    Name,
    Rate,
    Time,
    Size,
    Probability,
    Load,
    Queue,
    Choice(&'static [&'static str]),
    /// One of these names.
    Named(fn() -> Vec<&'static str>),
    List(&'static Shape),
    /// A value, or a list of such values.
    OneOrMore(&'static Shape),
    AnyOf(&'static [Shape]),
    Table(&'static Keys),
    /// A definition that is derived from other declarations.
    Derived(Derived),
}

/// Definitions from the declarations of algorithms and of connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derived {
    /// A scheduler by name, with parameters.
    Scheduler,
    /// The parameters of each scheduler.
    SchedulerDefaults,
    Congestion,
    /// The knobs of a connection.
    Connection,
    /// An item of `schedulers`.
    Contender,
    Condition,
    /// Values for keys of a scenario, in nested tables or at dotted keys.
    Settings,
    /// The same with lists and ranges in place of values.
    Varied,
}

/// Declares the rows of a table, and the list of their names.
macro_rules! rows {
    ($(#[$doc:meta])* $vis:vis $rows:ident, $keys:ident { $($name:literal: $shape:expr, $what:literal;)* }) => {
        $(#[$doc])*
        $vis const $rows: &[$crate::text::keys::Row] = {
            #[allow(unused_imports)]
            use $crate::text::keys::{Derived, Shape, Shape::*};
            &[$($crate::text::keys::Row { name: $name, shape: $shape, what: $what }),*]
        };
        $(#[$doc])*
        $vis const $keys: &[&str] = &[$($name),*];
    };
}

pub(crate) use rows;
