//! The data that a path may carry, and what it may cost.

use anabranch_units::Bytes;

/// The data that a path may carry; none for any. No link acts on it: it is for those who count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The data that both directions may carry together.
    pub total: Option<Bytes>,
    /// The data that the client may send.
    pub up: Option<Bytes>,
    /// The data that the client may receive.
    pub down: Option<Bytes>,
    /// The greatest price of both directions together.
    pub budget: Option<Budget>,
}

/// A limit of the cost of a path, with its prices. All are millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most that it may cost.
    pub most: u64,
    /// The price of a GB (10⁹ bytes) that the client sends.
    pub up: u64,
    /// The price of a GB that the client receives.
    pub down: u64,
}

impl Budget {
    /// True if these bytes cost more.
    pub fn is_exceeded(&self, up: u64, down: u64) -> bool {
        let of = |bytes: u64, price: u64| u128::from(bytes) * u128::from(price);
        let cost = of(up, self.up).saturating_add(of(down, self.down));
        cost > u128::from(self.most) * 1_000_000_000
    }
}

impl Quotas {
    /// True if any data may be carried.
    pub fn is_none(&self) -> bool {
        *self == Quotas::default()
    }

    /// True if these bytes exceed a quota.
    pub fn is_exceeded(&self, up: u64, down: u64) -> bool {
        let exceeded = |quota: Option<Bytes>, bytes: u64| quota.is_some_and(|quota| bytes > quota.0);
        exceeded(self.total, up.saturating_add(down))
            || exceeded(self.up, up)
            || exceeded(self.down, down)
            || self.budget.is_some_and(|budget| budget.is_exceeded(up, down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_each_direction_by_its_price() {
        // 0.5 for a GB up, 2 for a GB down, at most 0.01.
        let budget = Budget { most: 10_000, up: 500_000, down: 2_000_000 };
        let over = |up, down| Quotas { budget: Some(budget), ..Quotas::default() }.is_exceeded(up, down);
        assert_eq!([over(20_000_000, 0), over(20_000_001, 0)], [false, true]);
        assert_eq!([over(0, 5_000_000), over(0, 5_000_001)], [false, true]);
        assert_eq!([over(10_000_000, 2_500_000), over(10_000_000, 2_500_001)], [false, true]);
        assert!(over(u64::MAX, u64::MAX) && !over(0, 0));
        let dear = Budget { most: u64::MAX, up: u64::MAX, down: u64::MAX };
        assert!(dear.is_exceeded(u64::MAX, u64::MAX) && !dear.is_exceeded(500_000_000, 500_000_000));
    }
}
