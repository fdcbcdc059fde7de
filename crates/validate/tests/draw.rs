//! Draws the points of `drawn.txt`. They are fixed: no point is chosen, and none is dropped.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-validate --test draw` rewrites the file, which is justified
//! only by a need for other points: all measurements then begin again.
#![cfg(target_os = "linux")]

use anabranch_units::RandomStream;
use anabranch_validate::grid::DRAWN;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drawn.txt");
const SEED: u64 = 20_261_123;
/// The FNV-1a hash of the first lines of the file.
const FIRST: u64 = 14457265009449243493;
/// The seed of the later kinds.
const LATER_SEED: u64 = 20_261_126;

/// The seed of the short flows and of the receive buffers that slow paths fill.
const SHORT_SEED: u64 = 20_261_127;

/// The kinds of points: the number of each, the sender, the number of paths, and the options.
const KINDS: &[(u32, &str, usize, &str)] = &[
    (6, "tcp", 1, "file"),
    (2, "reno", 1, "file"),
    (4, "tcp", 1, "file down"),
    (2, "tcp", 1, "bulk"),
    (2, "tcp", 1, "file trace"),
    (2, "tcp", 1, "file cross"),
    (2, "tcp", 1, "flows"),
    (2, "tcp", 1, "file window"),
    (1, "tcp", 1, "file ipv6"),
    (9, "mptcp", 2, "file"),
    (5, "mptcp", 2, "file down"),
    (3, "mptcp", 2, "bulk"),
    (4, "mptcp", 3, "file"),
    (3, "mptcp", 4, "file down"),
    (3, "mptcp", 2, "file trace"),
    (3, "mptcp", 2, "file shared"),
    (3, "mptcp", 2, "file cross"),
    (3, "mptcp", 2, "flows"),
    (3, "mptcp", 2, "file window"),
    (2, "mptcp", 2, "file ipv6 down"),
];

/// Flows that end with the first send buffers and windows, and receive buffers smaller than two paths need: the number
/// of each, and the options.
const SHORT: &[(u32, &str)] =
    &[(4, "file short"), (4, "file short down"), (2, "file buffer"), (2, "file buffer down")];

/// The later kinds of points: the number of each, the kind, the sender, the number of paths, and what is drawn.
const LATER: &[(u32, &str, &str, usize, &str)] = &[
    (2, "losses", "tcp", 1, "bursts"),
    (3, "losses", "mptcp", 2, "bursts"),
    (2, "losses", "tcp", 1, "jitter"),
    (2, "losses", "mptcp", 2, "jitter"),
    (1, "losses", "tcp", 1, "late"),
    (2, "losses", "mptcp", 2, "late"),
    (3, "fat", "tcp", 1, "fat"),
    (4, "fat", "mptcp", 2, "fat"),
    (2, "failures", "tcp", 1, "outage"),
    (5, "failures", "mptcp", 2, "outage"),
    (1, "failures", "mptcp", 2, "dead"),
    (3, "failures", "mptcp", 2, "noticed"),
    (3, "failures", "mptcp", 2, "rates"),
    (1, "failures", "tcp", 1, "rates"),
    (2, "failures", "mptcp", 4, "outage"),
    (3, "backups", "mptcp", 2, "backup dead"),
    (2, "backups", "mptcp", 2, "backup outage"),
    (1, "backups", "mptcp", 2, "backup noticed"),
    (1, "streams", "tcp", 1, "onoff"),
    (4, "streams", "mptcp", 2, "onoff"),
    (1, "streams", "tcp", 1, "video"),
    (3, "streams", "mptcp", 2, "video"),
    (1, "streams", "tcp", 1, "requests"),
    (4, "streams", "mptcp", 2, "requests"),
    (3, "classes", "mptcp", 2, "classes"),
    (2, "classes", "mptcp", 2, "beside"),
    (1, "classes", "tcp", 1, "udp"),
    (3, "classes", "mptcp", 2, "udp"),
    (1, "tcp", "tcp", 1, "asymmetric"),
    (3, "mptcp", "mptcp", 2, "asymmetric"),
];

struct Dice(RandomStream);

impl Dice {
    /// Returns one of the items.
    fn one<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.0.below(items.len() as u64) as usize]
    }

    /// Returns a number between two others, whose logarithm is uniform.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        let unit = self.0.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        low * (high / low).powf(unit)
    }

    /// Returns a rate in Mbit/s: 2 to 40, and one in five up to 200.
    fn rate(&mut self) -> f64 {
        let (low, high) = if self.0.below(5) == 0 { (40.0, 200.0) } else { (2.0, 40.0) };
        round(self.log(low, high))
    }
}

/// Rounds to two digits.
fn round(value: f64) -> f64 {
    let step = 10_f64.powf(value.log10().floor() - 1.0);
    ((value / step).round() * step * 1e6).round() / 1e6
}

/// Returns one point.
fn draw(dice: &mut Dice, sender: &str, count: usize, special: &str) -> String {
    let has = |word: &str| special.split(' ').any(|own| own == word);
    let (mut paths, mut sum, mut longest) = (Vec::new(), 0.0, 0.0_f64);
    for path in 0..count {
        let trace = has("trace") && path == 0;
        let rtt = dice.log(10.0, 200.0).round();
        let mut text = match trace {
            // The trace carries some 10 Mbit/s.
            true => format!("lte,{rtt}ms,queue={}packets", dice.one(&["50", "100", "200"])),
            false => {
                let rate = dice.rate();
                sum += rate;
                format!("{rate}Mbit/s,{rtt}ms,queue={}bdp", dice.one(&["0.5", "1", "2", "4"]))
            }
        };
        if trace {
            sum += 5.0;
        }
        if dice.0.below(5) < 2 {
            text.push_str(&format!(",loss={}%", round(dice.log(0.05, 3.0))));
        }
        longest = longest.max(rtt);
        paths.push(text);
    }
    let mut more = Vec::new();
    if has("down") || has("flows") && dice.0.below(2) == 0 {
        more.push("down".to_owned());
    }
    let size = if has("flows") {
        more.push("flows=20".to_owned());
        "web".to_owned()
    } else if has("bulk") {
        "bulk".to_owned()
    } else if has("short") {
        format!("{}KB", dice.log(50.0, 150.0).round())
    } else if has("buffer") {
        format!("{}KB", dice.log(1000.0, 4000.0).round())
    } else {
        // From 30 KB to the capacity of the paths in 2 s, at most 8 MB, or 400 KB with a small window.
        let most = (sum * 250.0).clamp(100.0, if has("window") { 400.0 } else { 8000.0 });
        format!("{}KB", dice.log(30.0, most).round())
    };
    if has("cross") {
        more.push(format!("cross={}", dice.0.below(count as u64) + 1));
    }
    if has("shared") {
        more.push(format!("shared={}Mbit/s", round(sum * dice.log(0.3, 0.8))));
    }
    if has("window") {
        more.push(format!("window={}KB", dice.one(&["16", "32", "64", "128"])));
    }
    if has("buffer") {
        more.push(format!("window={}KB", dice.log(150.0, 450.0).round()));
    }
    if has("ipv6") {
        more.push("ipv6".to_owned());
    }
    if count > 1 {
        more.push(format!("first={}", dice.0.below(count as u64) + 1));
    }
    format!("{sender} | {} | {size} | {}", paths.join(" + "), more.join(" ")).trim_end().to_owned()
}

/// Returns one of the later points: transfers for one to two seconds of the capacity, most of them.
fn draw_later(dice: &mut Dice, sender: &str, count: usize, special: &str) -> String {
    let has = |word: &str| special.split(' ').any(|own| own == word);
    let (mut paths, mut sum) = (Vec::new(), 0.0);
    let hit = if has("backup") { 0 } else { dice.0.below(count as u64) as usize };
    for path in 0..count {
        let (rate, rtt) = match has("fat") {
            // From 4 MB to 8 MB, of one path or of each.
            true => {
                let rate = round(dice.log(100.0, 200.0));
                (rate, (dice.log(4.0, 8.0) * 8000.0 / rate).round())
            }
            false => (dice.rate().min(80.0), dice.log(10.0, 120.0).round()),
        };
        // With a backup the slower path counts: it may carry most.
        sum = match (has("backup"), path) {
            (true, 1..) => rate.min(sum),
            _ => sum + rate,
        };
        let mut text = format!("{rate}Mbit/s,{rtt}ms,queue={}bdp", dice.one(&["0.5", "1", "2"]));
        let from = dice.log(0.2, 0.8);
        let length = dice.log(0.3, 2.5);
        let time = |at: f64| format!("{}s", (at * 100.0).round() / 100.0);
        let outage = if path != hit {
            None
        } else if has("outage") {
            Some(format!(",down={}-{}", time(from), time(from + length)))
        } else if has("noticed") {
            Some(format!(",noticed={}-{}", time(from), time(from + length)))
        } else if has("dead") {
            Some(format!(",down={}", time(from)))
        } else if has("rates") {
            Some(format!(",then={}Mbit/s@{}", round(rate * dice.log(0.1, 0.6)), time(from)))
        } else {
            None
        };
        text.push_str(&outage.unwrap_or_default());
        if has("bursts") {
            let (good, bad) = (round(dice.log(200.0, 2000.0)), round(dice.log(5.0, 40.0)));
            text.push_str(&format!(",bursts={good}ms-{bad}ms-{}%", dice.one(&["20", "50", "100"])));
        }
        if has("jitter") {
            text.push_str(&format!(",jitter={}ms", round(dice.log(0.5, 10.0))));
        }
        if has("late") {
            text.push_str(&format!(",late={}%-{}ms", round(dice.log(0.2, 3.0)), round(dice.log(2.0, 15.0))));
        }
        if has("asymmetric") {
            text.push_str(&format!(",up={}Mbit/s", round(rate * dice.log(0.05, 0.5))));
        }
        if has("backup") && path > 0 {
            text.push_str(",backup");
        }
        paths.push(text);
    }
    let mut down = dice.0.below(2) == 0;
    let size = |dice: &mut Dice, seconds: f64| {
        let most = (sum * 125.0 * seconds).clamp(60.0, 20_000.0);
        format!("{}KB", dice.log(most / 3.0, most).round())
    };
    let path = |dice: &mut Dice| dice.0.below(count as u64) + 1;
    let stream = |dice: &mut Dice| {
        let rate = round(sum * dice.log(0.15, 0.6));
        match dice.0.below(2) {
            0 => format!("onoff:{rate}Mbit/s,2s,1s,2s"),
            _ => format!(
                "onoff:{rate}Mbit/s,{}ms,{}ms,2s",
                dice.log(50.0, 600.0).round(),
                dice.log(50.0, 600.0).round()
            ),
        }
    };
    let requests = |dice: &mut Dice| {
        let size = dice.log(5.0, (sum * 12.5).max(10.0)).round();
        format!("requests:{size}KB,{}ms,{}", dice.log(10.0, 200.0).round(), dice.0.below(6) + 4)
    };
    let udp = |dice: &mut Dice| {
        format!("udp:{}Mbit/s,2s @{}", round(sum / count as f64 * dice.log(0.05, 0.5)), path(dice))
    };
    let classes = if has("onoff") {
        stream(dice)
    } else if has("video") {
        down = true;
        format!("video:{}Mbit/s,{}ms,3s", round(sum * dice.log(0.3, 0.9)), dice.one(&["250", "500", "750"]))
    } else if has("requests") {
        down = true;
        requests(dice)
    } else if has("classes") {
        down = true;
        let first = if dice.0.below(2) == 0 { requests(dice) } else { stream(dice) };
        format!("{first} & {} & {} up", size(dice, 0.8), size(dice, 0.3))
    } else if has("beside") {
        format!("{} & {} @{}", size(dice, 1.0), size(dice, 0.5), path(dice))
    } else if has("udp") {
        format!("{} & {}", size(dice, 1.5), udp(dice))
    } else if has("fat") {
        format!("{}KB", dice.log(4000.0, 16_000.0).round())
    } else {
        size(dice, 1.5)
    };
    let mut more = Vec::new();
    if down {
        more.push("down".to_owned());
    }
    if count > 1 {
        let first = if has("backup") { 1 } else { path(dice) };
        more.push(format!("first={first}"));
    }
    format!("{sender} | {} | {classes} | {}", paths.join(" + "), more.join(" ")).trim_end().to_owned()
}

fn all() -> String {
    let mut text =
        String::from("# Drawn by crates/validate/tests/draw.rs; see crates/validate/src/grid.rs.\n");
    for (number, (count, sender, paths, special)) in KINDS.iter().enumerate() {
        let mut dice = Dice(RandomStream::new(SEED, &format!("kind.{number}")));
        for _ in 0..*count {
            text.push_str(&draw(&mut dice, sender, *paths, special));
            text.push('\n');
        }
    }
    for (number, (count, kind, sender, paths, special)) in LATER.iter().enumerate() {
        let mut dice = Dice(RandomStream::new(LATER_SEED, &format!("later.{number}")));
        for _ in 0..*count {
            text.push_str(&format!("{kind}: {}\n", draw_later(&mut dice, sender, *paths, special)));
        }
    }
    for (number, (count, special)) in SHORT.iter().enumerate() {
        let mut dice = Dice(RandomStream::new(SHORT_SEED, &format!("short.{number}")));
        for _ in 0..*count {
            text.push_str(&draw(&mut dice, "mptcp", 2, special));
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_points_that_are_kept_are_those_that_were_drawn() {
    let drawn = all();
    if std::env::var_os("ANABRANCH_BLESS").is_some() {
        std::fs::write(FILE, drawn).unwrap();
        return;
    }
    assert!(drawn == DRAWN, "drawn.txt has other points than this file draws; see its head");
    assert!(DRAWN.lines().filter(|line| !line.starts_with('#')).count() >= 124);
}

/// The points that were measured before the later kinds stay.
#[test]
fn the_first_points_stay_as_they_are() {
    let first: String = DRAWN.lines().take(65).map(|line| format!("{line}\n")).collect();
    let hash = first.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(hash, FIRST, "the first 64 points have changed");
}
