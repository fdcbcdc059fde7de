//! Returns the memory of many connections to the system after they have ended.

use std::convert::Infallible;
use std::time::Duration;

use anabranch_net::{Host, return_freed_memory};

/// The interval at which the memory usage is checked.
const EVERY: Duration = Duration::from_secs(1);
/// Smaller usage is not worth returning.
const WORTH: u64 = 2 << 20;

/// Watches the memory of `host`.
pub(crate) async fn follow(host: Host) -> Infallible {
    let mut peak = Peak::default();
    loop {
        tokio::time::sleep(EVERY).await;
        if peak.has_passed(host.memory_used() + host.memory_spare()) {
            // A failed task is one that panicked, which this one cannot.
            let _ = tokio::task::spawn_blocking(return_freed_memory).await;
        }
    }
}

/// The greatest usage since memory was last returned.
#[derive(Default)]
struct Peak(u64);

impl Peak {
    /// True once the usage has fallen to a quarter of its peak.
    fn has_passed(&mut self, used: u64) -> bool {
        self.0 = self.0.max(used);
        let passed = self.0 >= WORTH && used <= self.0 / 4;
        if passed {
            self.0 = used;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_at_each_fall_to_a_quarter() {
        let mut peak = Peak::default();
        let uses = [0, 100, 30, 25, 24, 0, 40, 10, 10];
        let returned: Vec<u64> =
            uses.into_iter().filter(|megabytes| peak.has_passed(megabytes << 20)).collect();
        assert_eq!(returned, [25, 0, 10]);
        assert!(!Peak(WORTH - 1).has_passed(0));
    }
}
