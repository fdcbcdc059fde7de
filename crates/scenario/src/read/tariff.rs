//! Reads the price and the quota of a path.

use anabranch_link::{Budget, Quotas};
use anabranch_units::Bytes;

use super::sides::is_split;
use crate::model::{Direction, Tariff};
use crate::text::base::{self, number};
use crate::text::keys::rows;
use crate::text::reader::Reader;
use crate::text::source::Problem;
use crate::text::tree::{Node, Value};

rows! {
    /// The keys of a path that describe its tariff.
    pub(super) ROWS, KEYS {
        "quota": Size, "data that the path may carry, both directions together or each by itself; default any";
        "over-quota": Choice(&RULES), "whether results only report a path beyond its quota, or its subflows become backups; default report";
        "price": Number, "price of a GB that it carries; default 0";
        "budget": Number, "the most that the data of the path may cost, by its price; counts as a quota; default any";
    }
}

/// The rules for a path beyond its quota.
const RULES: [&str; 2] = ["report", "backup"];

/// Reads the tariff of a path, the settings of which are separated into the directions of `data` and `acks`.
pub(super) fn read(
    path: &Reader<'_>,
    data: &Reader<'_>,
    acks: &Reader<'_>,
    direction: Direction,
) -> Result<Tariff, Problem> {
    let (up, down) = match direction {
        Direction::Upload => (data, acks),
        Direction::Download => (acks, data),
    };
    let has_sides =
        matches!(path.get("quota").map(|node| &node.value), Some(Value::Table(table)) if is_split(table));
    let quota = |of: &Reader<'_>| of.optional("quota", quota);
    let [total, quota_up, quota_down] = match has_sides {
        true => [None, quota(up)?, quota(down)?],
        false => [quota(path)?, None, None],
    };
    let over_quota = path.optional("over-quota", |node| node.choice("rule", &RULES))?;
    let price_of = |of: &Reader<'_>| of.optional("price", price).map(Option::unwrap_or_default);
    let (price_up, price_down) = (price_of(up)?, price_of(down)?);
    let most = path.optional("budget", budget)?;
    if let Some(node) = path.get("budget").filter(|_| price_up == 0.0 && price_down == 0.0) {
        return Err(Problem::at(&node.span, "the path has no price")
            .help("add for example `price = 2`, the price of a GB, or remove `budget`"));
    }
    let is_lost = |price: f64| price > 0.0 && millionths(price) == 0;
    if let Some(node) = path.get("budget").filter(|_| is_lost(price_up) || is_lost(price_down)) {
        return Err(Problem::at(&node.span, "the price is too low for a budget")
            .help("give a price of at least 0.000001 for a GB, or remove `budget`"));
    }
    let budget = most.map(|most| Budget {
        most: millionths(most),
        up: millionths(price_up),
        down: millionths(price_down),
    });
    let quotas = Quotas { total, up: quota_up, down: quota_down, budget };
    if let Some(node) = path.get("over-quota").filter(|_| quotas.is_none()) {
        return Err(Problem::at(&node.span, "the path has no quota")
            .help("add for example `quota = \"1 GB\"`, or remove `over-quota`"));
    }
    Ok(Tariff { quotas, becomes_backup: over_quota == Some(1), price_up, price_down })
}

fn millionths(value: f64) -> u64 {
    (value * 1e6).round() as u64
}

fn budget(node: &Node) -> Result<f64, Problem> {
    let most = node.number().map_err(|problem| problem.help("give what the path may cost, such as `5`"))?;
    match (1e-6..=1e12).contains(&most) {
        true => Ok(most),
        false => Err(Problem::at(&node.span, format!("a budget of {most} is out of range")).help(
            "give what the path may cost, from 0.000001 to 10¹²; without a budget it may cost anything",
        )),
    }
}

fn quota(node: &Node) -> Result<Bytes, Problem> {
    let size = node.size()?;
    match size.0 {
        0 => Err(Problem::at(&node.span, "a quota of 0 bytes permits no connection")
            .help("give for example `10 GB`, or remove the path")),
        _ => Ok(size),
    }
}

fn price(node: &Node) -> Result<f64, Problem> {
    let price = node.number().map_err(|problem| problem.help("give the price of a GB, such as `0.5`"))?;
    match price < 0.0 {
        true => Err(Problem::at(&node.span, format!("a price of {price} is below 0"))
            .help("give the price of a GB, such as `0.5`")),
        false => Ok(price),
    }
}

/// Returns the canonical form of the values that are not the default, by key.
pub(crate) fn canonical(tariff: &Tariff) -> Vec<(&'static str, String)> {
    let Tariff { quotas: Quotas { total, up, down, budget }, becomes_backup, price_up, price_down } = *tariff;
    let mut all = Vec::new();
    let quotas = [("quota", total), ("quota-up", up), ("quota-down", down)];
    all.extend(quotas.into_iter().filter_map(|(key, quota)| Some((key, base::bytes(quota?)))));
    all.extend(budget.map(|Budget { most, .. }| ("budget", number(most as f64 / 1e6))));
    all.extend(becomes_backup.then(|| ("over-quota", "backup".to_owned())));
    let prices = [("price-up", price_up), ("price-down", price_down)];
    all.extend(prices.into_iter().filter(|(_, price)| *price > 0.0).map(|(key, price)| (key, number(price))));
    all
}
