//! Draws the points of `drawn.txt`. They are fixed: no point is chosen, and none is dropped.
//!
//! `ANABRANCH_BLESS=1 cargo test -p anabranch-validate --test draw` rewrites the file, which is justified
//! only by a need for other points: all measurements then begin again.
#![cfg(target_os = "linux")]

use anabranch_units::RandomStream;
use anabranch_validate::grid::DRAWN;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drawn.txt");
const SEED: u64 = 20_261_123;

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
    if has("ipv6") {
        more.push("ipv6".to_owned());
    }
    if count > 1 {
        more.push(format!("first={}", dice.0.below(count as u64) + 1));
    }
    format!("{sender} | {} | {size} | {}", paths.join(" + "), more.join(" ")).trim_end().to_owned()
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
    assert!(DRAWN.lines().filter(|line| !line.starts_with('#')).count() >= 60);
}
