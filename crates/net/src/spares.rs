//! Buffers that are kept for reuse.

use anabranch_units::Duration;

/// The time after which a buffer that was not used is freed.
pub(crate) const UNUSED: Duration = Duration::from_secs(10);

/// Buffers for reuse, up to a number. The one returned last is used first, as it may still be in a processor cache.
#[derive(Debug)]
pub(crate) struct Spares<T> {
    items: Vec<T>,
    most: usize,
    /// The least number of them since the last `trim`: these were not used.
    least: usize,
}

impl<T> Spares<T> {
    pub(crate) const fn new(most: usize) -> Spares<T> {
        Spares { items: Vec::new(), most, least: 0 }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        let item = self.items.pop();
        self.least = self.least.min(self.items.len());
        item
    }

    pub(crate) fn give(&mut self, item: T) {
        if self.items.len() < self.most {
            self.items.push(item);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Frees those that were not used since the last call.
    pub(crate) fn trim(&mut self) {
        // Those used last are at the end.
        self.items.drain(..self.least);
        self.least = self.items.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_between_two_calls_is_freed() {
        let mut spares = Spares::new(10);
        (0..20).for_each(|at| spares.give(at));
        assert_eq!(spares.len(), 10);
        // They are new.
        spares.trim();
        assert_eq!(spares.len(), 10);
        let used = [spares.take(), spares.take(), spares.take()].map(Option::unwrap);
        assert_eq!(used, [9, 8, 7]);
        used.into_iter().for_each(|one| spares.give(one));
        spares.trim();
        assert_eq!(spares.iter().copied().collect::<Vec<_>>(), [9, 8, 7]);
        spares.trim();
        assert_eq!(spares.len(), 0);
        assert_eq!(spares.take(), None);
    }
}
