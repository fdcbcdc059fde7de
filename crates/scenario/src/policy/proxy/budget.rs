//! Budgets of metered paths, greatest rates of paths, prices of paths, and size hints.

use core::ops::RangeInclusive;

use anabranch_units::{Bytes, Rate};

use super::super::{is_named, ports};
use super::{items, path_name};
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::Node;

/// The use of a path whose budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spent {
    /// It is a backup.
    #[default]
    Backup,
    /// New connections do not use it.
    Off,
}

const SPENTS: [(&str, Spent); 2] = [("backup", Spent::Backup), ("off", Spent::Off)];

/// The budget of a path, or of several paths together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The name of the path, which may end in `*`.
    pub path: String,
    /// The payload, sent and received, of a calendar month in UTC.
    pub monthly: Bytes,
    /// The use of the path for the rest of the month, once the budget is spent.
    pub spent: Spent,
}

impl Budget {
    /// True if the path uses this budget.
    pub fn covers(&self, path: &str) -> bool {
        is_named(path, core::slice::from_ref(&self.path))
    }
}

/// The greatest rates of a path, in IP packets. Each path that the name covers has them by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The name of the path, which may end in `*`.
    pub path: String,
    /// The greatest rate at which it sends; none for any.
    pub send: Option<Rate>,
    /// The greatest rate at which it receives; none for any.
    pub receive: Option<Rate>,
}

impl Cap {
    /// True if the path has these rates.
    pub fn covers(&self, path: &str) -> bool {
        is_named(path, core::slice::from_ref(&self.path))
    }
}

/// The price of a path. Each path that the name covers has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// The name of the path, which may end in `*`.
    pub path: String,
    /// The price of a GB (10⁹ bytes), greater than 0; the path with the lowest one is used first.
    pub price: f64,
    /// A connection uses the path only if without it it is expected to take at least this many times as long.
    pub slower: f64,
}

/// The least and the default `slower` of a price.
const SLOWER: (f64, f64) = (1.0, 2.0);

impl Price {
    /// True if the path has this price.
    pub fn covers(&self, path: &str) -> bool {
        is_named(path, core::slice::from_ref(&self.path))
    }
}

/// The expected size of connections to some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeHint {
    /// The ports of destinations; none for any.
    pub ports: Vec<RangeInclusive<u16>>,
    /// The size.
    pub size: Bytes,
}

pub(super) fn budget(node: &Node) -> Result<Budget, Problem> {
    let reader = Reader::of(node, "a budget", &["path", "monthly", "spent"])?;
    let spent = |node: &Node| Ok(SPENTS[node.choice("use", &SPENTS.map(|(name, _)| name))?].1);
    Ok(Budget {
        path: reader.required("path", "\"10.86.84.2\"", path_name)?,
        monthly: reader.required("monthly", "\"10GB\"", Node::size)?,
        spent: reader.optional("spent", spent)?.unwrap_or_default(),
    })
}

pub(super) fn cap(node: &Node) -> Result<Cap, Problem> {
    let reader = Reader::of(node, "a cap", &["path", "send", "receive"])?;
    let cap = Cap {
        path: reader.required("path", "\"10.86.84.2\"", path_name)?,
        send: reader.optional("send", Node::rate)?,
        receive: reader.optional("receive", Node::rate)?,
    };
    if cap.send.is_none() && cap.receive.is_none() {
        return Err(Problem::at(&node.span, "this cap has no rate")
            .help("add for example `receive = \"5Mbit/s\"`, or `send` for the other direction"));
    }
    Ok(cap)
}

pub(super) fn price(node: &Node) -> Result<Price, Problem> {
    let reader = Reader::of(node, "a price", &["path", "price", "slower"])?;
    let price = |node: &Node| {
        let remedy = "give the price of a GB, such as `0.5`; a path that costs nothing needs no `[[price]]`";
        match node.number() {
            Ok(price) if price > 0.0 => Ok(price),
            Ok(price) => {
                Err(Problem::at(&node.span, format!("a price of {price} is not above 0")).help(remedy))
            }
            Err(problem) => Err(problem.help(remedy)),
        }
    };
    let slower = |node: &Node| {
        let remedy =
            "give the factor by which a connection without this path has to be slower, such as `1.5`";
        match node.number() {
            Ok(factor) if factor >= SLOWER.0 => Ok(factor),
            Ok(factor) => {
                Err(Problem::at(&node.span, format!("a factor of {factor} is below 1")).help(remedy))
            }
            Err(problem) => Err(problem.help(remedy)),
        }
    };
    Ok(Price {
        path: reader.required("path", "\"10.86.84.2\"", path_name)?,
        price: reader.required("price", "2.5", price)?,
        slower: reader.optional("slower", slower)?.unwrap_or(SLOWER.1),
    })
}

pub(super) fn size_hint(node: &Node) -> Result<SizeHint, Problem> {
    let reader = Reader::of(node, "a size hint", &["port", "size"])?;
    Ok(SizeHint {
        ports: items(&reader, "port", ports)?,
        size: reader.required("size", "\"5MB\"", Node::size)?,
    })
}
