//! The machine and the date of a measurement.

use serde::{Deserialize, Serialize};

/// A machine, its kernel, and the date of its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor, and the number of cores.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// The date in UTC, such as 2026-11-22.
    pub date: String,
    /// The load average of the last minute at the start.
    pub load: String,
}

impl Machine {
    /// Returns this machine, now.
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let model = model.map_or("processor unknown", |(_, name)| name.trim());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Machine {
            processor: format!("{cores} cores of {model}"),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            date: time::OffsetDateTime::now_utc().date().to_string(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    /// True if it is the same machine, apart from the date and the load.
    pub fn is_like(&self, other: &Machine) -> bool {
        self.processor == other.processor && self.kernel == other.kernel
    }
}

impl core::fmt::Display for Machine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}, {}, {}, load {}", self.processor, self.kernel, self.date, self.load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_and_the_load_make_no_other_machine() {
        let here = Machine::here();
        assert!(here.is_like(&Machine { date: "x".into(), load: "9".into(), ..here.clone() }));
        assert!(!here.is_like(&Machine { processor: "x".into(), ..here.clone() }));
    }
}
