//! Paths that were measured: the memory of `proxy --memory` and of `kernel steer` as `--path` options.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_kernel::memory::{Memory, Remembered};
use anabranch_units::Time;
use ipnet::IpNet;

use crate::failure::Failure;
use crate::output;

/// The memory of `kernel steer`, where it is by default.
const OF_KERNEL: &str = "/var/lib/anabranch/paths.json";

/// Paths that were measured.
#[derive(clap::Args)]
pub(super) struct Measured {
    /// Advise for the paths in this memory of `proxy --memory`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "paths", "condition", "from_kernel"])]
    from_proxy: Option<PathBuf>,
    /// Advise for the paths in the memory of `kernel steer`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = OF_KERNEL,
        conflicts_with_all = ["scenario", "paths", "condition"])]
    from_kernel: Option<PathBuf>,
    /// The destination, if the memory has paths towards several networks; without it the network with the most paths
    #[arg(long, value_name = "IP")]
    towards: Option<IpAddr>,
    /// The greatest age of a value
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = crate::args::parse_span)]
    max_age: Duration,
}

impl Measured {
    /// Returns the `--path` options of the measured paths; none if they are not asked for.
    pub(super) fn paths(&self) -> Result<Option<Vec<String>>, Failure> {
        let (file, source) = match (&self.from_proxy, &self.from_kernel) {
            (Some(file), _) => (file, Source::Proxy),
            (None, Some(file)) => (file, Source::Kernel),
            (None, None) if self.towards.is_some() => {
                let text = "--towards chooses among measured paths: add --from-proxy FILE or --from-kernel";
                return Err(Failure::Usage(text.to_owned()));
            }
            (None, None) => return Ok(None),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Time(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let text = read(file, source)?;
        let found = choose(&text, now, self.max_age, self.towards);
        let found = found.map_err(|why| Failure::Usage(why.text(file, source, self.max_age)))?;
        for name in &found.without_rate {
            output::warn(format_args!(
                "{name} is left out: no transfer has shown its rate yet; download some megabytes over it"
            ));
        }
        let options: Vec<String> = found.options.iter().map(|one| format!("--path {one}")).collect();
        output::remark(format_args!(
            "measured towards {}, at most {} old: {}",
            found.network,
            age(found.oldest),
            options.join(" ")
        ));
        if !found.others.is_empty() {
            let others: Vec<String> = found.others.iter().map(ToString::to_string).collect();
            output::remark(format_args!("--towards chooses another network: {}", others.join(", ")));
        }
        Ok(Some(found.options))
    }
}

#[derive(Clone, Copy)]
enum Source {
    Proxy,
    Kernel,
}

impl Source {
    /// Returns the way to get a memory.
    fn remedy(self) -> &'static str {
        match self {
            Source::Proxy => {
                "run `anabranch proxy --to HOST:PORT --key FILE --memory FILE` and use it for a while"
            }
            Source::Kernel => "run `anabranch kernel steer` for a while",
        }
    }
}

fn read(file: &Path, source: Source) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::NotFound => format!("; {}", source.remedy()),
            _ => String::new(),
        };
        Failure::Usage(format!("cannot read the memory of paths {}: {error}{help}", file.display()))
    })
}

/// The measured paths towards one network.
#[derive(Debug)]
struct Found {
    network: IpNet,
    options: Vec<String>,
    without_rate: Vec<String>,
    /// The greatest age of a value.
    oldest: Duration,
    /// Other networks with paths.
    others: Vec<IpNet>,
}

/// The reason that there are no paths.
#[derive(Debug, PartialEq)]
enum Missing {
    NotAMemory,
    Empty,
    /// The newest value has this age.
    Old(Duration),
    /// There is no path to the network of this destination.
    Elsewhere(IpAddr, Vec<IpNet>),
    /// This one network has too few paths with a rate.
    Few(IpNet, Vec<String>, Vec<String>),
}

impl Missing {
    fn text(&self, file: &Path, source: Source, most: Duration) -> String {
        let (file, remedy) = (file.display(), source.remedy());
        match self {
            Missing::NotAMemory => format!("{file} is no memory of paths of this version; {remedy}"),
            Missing::Empty => format!("{file} has no path; {remedy}"),
            Missing::Old(newest) => format!(
                "the newest value in {file} is {} old, and --max-age is {}; {remedy}, or raise --max-age",
                age(*newest),
                age(most)
            ),
            Missing::Elsewhere(to, networks) => {
                let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
                format!("{file} has no path towards {to}; it has paths towards {}", networks.join(", "))
            }
            Missing::Few(network, with, without) => {
                let with =
                    if with.is_empty() { "no path".to_owned() } else { format!("only {}", with.join(", ")) };
                let without = match without.as_slice() {
                    [] => String::new(),
                    names => format!(", and no rate of {}", names.join(", ")),
                };
                format!(
                    "{file} has {with} with a rate towards {network}{without}; advice needs two: download some megabytes over \
                     each path, or give them with --path"
                )
            }
        }
    }
}

/// Chooses the paths towards one network in the text of a memory.
fn choose(text: &str, now: Time, most: Duration, towards: Option<IpAddr>) -> Result<Found, Missing> {
    let memory = Memory::parse(text);
    let is_memory = text.trim().is_empty() || Memory::is_memory(text);
    if memory.is_empty() {
        return Err(if is_memory { Missing::Empty } else { Missing::NotAMemory });
    }
    let age_of = |path: &Remembered| Duration::from_nanos(now.0.saturating_sub(path.updated().0));
    let newest = memory.iter().map(|(_, _, path)| age_of(path)).min().unwrap_or_default();
    let mut networks: BTreeMap<IpNet, Vec<(&str, &Remembered)>> = BTreeMap::new();
    for (name, network, path) in memory.iter().filter(|(_, _, path)| age_of(path) <= most) {
        networks.entry(network).or_default().push((name, path));
    }
    if networks.is_empty() {
        return Err(Missing::Old(newest));
    }
    let has_rate = |path: &Remembered| path.rate_bps.is_some_and(|rate| rate >= 1.0);
    let network = match towards {
        Some(to) => networks.keys().find(|network| network.contains(&to.to_canonical())).copied(),
        // The most paths with a rate; of equal ones the newest.
        None => networks
            .iter()
            .max_by_key(|(_, paths)| {
                let known = paths.iter().filter(|(_, path)| has_rate(path)).count();
                (known, paths.len(), paths.iter().map(|(_, path)| path.updated()).max())
            })
            .map(|(network, _)| *network),
    };
    let Some(network) = network else {
        let to = towards.unwrap_or(IpAddr::from([0; 4]));
        return Err(Missing::Elsewhere(to, networks.into_keys().collect()));
    };
    let paths = networks.remove(&network).unwrap_or_default();
    let (with, without): (Vec<_>, Vec<_>) = paths.into_iter().partition(|(_, path)| has_rate(path));
    let names = |list: &[(&str, &Remembered)]| list.iter().map(|(name, _)| (*name).to_owned()).collect();
    if with.len() < 2 {
        return Err(Missing::Few(network, names(&with), names(&without)));
    }
    Ok(Found {
        network,
        options: with.iter().map(|(name, path)| option(name, path)).collect(),
        without_rate: names(&without),
        oldest: with.iter().map(|(_, path)| age_of(path)).max().unwrap_or_default(),
        others: networks.into_keys().collect(),
    })
}

/// Returns the value of `--path` for a remembered path. A variation is a uniform jitter with the same mean deviation; the mean RTT stays.
fn option(name: &str, path: &Remembered) -> String {
    let rtt_us = (path.rtt_s * 1e6).round().max(1.0);
    // The mean deviation of a uniform distribution is a quarter of its width.
    let jitter_us = (4.0 * path.variation_s * 1e6).min(rtt_us).round();
    let rate = path.rate_bps.unwrap_or_default().round();
    let mut text = format!("{rate}bit/s,{}us", (rtt_us - jitter_us / 2.0).round().max(1.0));
    if path.loss > 0.0 {
        text += &format!(",loss={:.4}%", (100.0 * path.loss).min(99.0));
    }
    if jitter_us >= 1.0 {
        text += &format!(",jitter={jitter_us}us");
    }
    // An address of IPv6 is a name without its colons.
    text + ",name=" + &name.replace([':', '.'], "-")
}

/// Returns an age in words.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::scenario::Document;

    const HOUR: u64 = 3600;
    const DAY: Duration = Duration::from_secs(24 * HOUR);

    fn memory(paths: &[(&str, &str, Option<f64>, u64)]) -> String {
        let mut memory = Memory::default();
        for (name, to, rate, at) in paths {
            let values = Remembered::new(0.020, 0.001, *rate, 0.002, Time::from_secs(*at));
            memory.note(name, to.parse().unwrap(), values);
        }
        memory.text()
    }

    #[test]
    fn the_network_with_the_most_measured_paths_is_chosen_or_the_given_one() {
        let text = memory(&[
            ("wlan0", "192.0.2.1", Some(3e7), 1000 * HOUR),
            ("wwan0", "192.0.2.1", Some(1e7), 1000 * HOUR),
            ("eth0", "192.0.2.1", None, 1000 * HOUR),
            ("wlan0", "198.51.100.1", Some(5e7), 1000 * HOUR + 60),
            ("10.0.0.1", "2001:db8::1", Some(5e7), 1000 * HOUR),
            ("fd00::2", "2001:db8::1", Some(5e7), 1000 * HOUR),
        ]);
        let now = Time::from_secs(1001 * HOUR);
        let found = choose(&text, now, DAY, Some("192.0.2.200".parse().unwrap())).unwrap();
        assert_eq!(found.network.to_string(), "192.0.2.0/24");
        assert_eq!(found.options[0], "30000000bit/s,18000us,loss=0.2000%,jitter=4000us,name=wlan0");
        assert_eq!((found.options.len(), found.without_rate.as_slice()), (2, &["eth0".to_owned()][..]));
        assert_eq!((found.oldest.as_secs(), found.others.len()), (HOUR, 2));
        // The scenario of every option can be read.
        for to in ["192.0.2.200", "2001:db8::7"] {
            let found = choose(&text, now, DAY, Some(to.parse().unwrap())).unwrap();
            let mut document = Document::bare();
            document.set_paths(&found.options).unwrap();
            assert_eq!(document.scenario().unwrap().conditions[0].experiment.paths().len(), 2);
        }
        let most = choose(&text, now, DAY, None).unwrap();
        assert_eq!(most.options.len(), 2);
    }

    #[test]
    fn a_memory_without_paths_gives_the_reason_and_a_remedy() {
        let now = Time::from_secs(1000 * HOUR);
        let words = |text: &str, to: Option<&str>| {
            let missing = choose(text, now, DAY, to.map(|to| to.parse().unwrap())).unwrap_err();
            missing.text(Path::new("p.json"), Source::Proxy, DAY)
        };
        let old = memory(&[("wlan0", "192.0.2.1", Some(3e7), 900 * HOUR)]);
        let one =
            memory(&[("wlan0", "192.0.2.1", Some(3e7), 999 * HOUR), ("a", "192.0.2.1", None, 999 * HOUR)]);
        for (text, to, expected) in [
            ("", None, ["p.json has no path", "--memory FILE"]),
            (Memory::default().text().as_str(), None, ["p.json has no path", "--memory FILE"]),
            ("{\"version\": 1, \"pa", None, ["no memory of paths", "--memory FILE"]),
            ("{\"a\": 1}", None, ["no memory of paths", "--memory FILE"]),
            (&old, None, ["4 days old", "raise --max-age"]),
            (&one, None, ["only wlan0 with a rate towards 192.0.2.0/24, and no rate of a", "--path"]),
            (&one, Some("9.9.9.9"), ["no path towards 9.9.9.9", "192.0.2.0/24"]),
        ] {
            let got = words(text, to);
            assert!(expected.iter().all(|part| got.contains(part)), "{text}: {got}");
        }
    }
}
