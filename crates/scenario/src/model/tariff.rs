//! The price of a path, and the data that it may carry.

use anabranch_link::{Budget, Quotas};

/// The price of a path, and its quotas. No packet is dropped because of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tariff {
    /// The data that it may carry.
    pub quotas: Quotas,
    /// True if the subflows of the path become backups once a quota is exceeded.
    pub becomes_backup: bool,
    /// The price of a GB (10⁹ bytes) that the client sends.
    pub price_up: f64,
    /// The price of a GB that the client receives.
    pub price_down: f64,
}

impl Tariff {
    /// True if the data of the path is free and unlimited.
    pub fn is_none(&self) -> bool {
        *self == Tariff::default()
    }

    /// Returns the cost of these bytes.
    pub fn cost(&self, up: u64, down: u64) -> f64 {
        (up as f64 * self.price_up + down as f64 * self.price_down) / 1e9
    }

    /// Describes the tariff.
    pub fn remarks(&self) -> Vec<String> {
        let Tariff { quotas: Quotas { total, up, down, budget }, becomes_backup, price_up, price_down } =
            *self;
        let mut remarks = Vec::new();
        let quotas = [(total, ""), (up, " up"), (down, " down")];
        remarks.extend(quotas.iter().filter_map(|(quota, way)| Some(format!("quota of {}{way}", (*quota)?))));
        remarks.extend(budget.map(|Budget { most, .. }| format!("budget of {}", most as f64 / 1e6)));
        remarks.extend(becomes_backup.then(|| "a backup beyond it".to_owned()));
        match price_up == price_down {
            true if price_up > 0.0 => remarks.push(format!("{price_up} for a GB")),
            true => {}
            false => remarks.push(format!("{price_up} for a GB up, {price_down} down")),
        }
        remarks
    }
}
