//! Prices of paths: a connection uses a path with a price only if it is expected to be much slower without it.
//!
//! The expected time is the time of the expected data of the connection, over the paths as the memory knows them, by the
//! [prediction](anabranch_stack::prediction) of the scheduler `anabranch`. A path of unknown rate counts as one without a limit: so a path with a price is tried
//! where its round trip could help, and is not used because the others have not been measured yet.

use anabranch_kernel::memory::Remembered;
use anabranch_scenario::policy::proxy::Price;
use anabranch_stack::prediction::{self, PathState};
use anabranch_units::Bytes;

/// The time after the handshake of the first subflow at which another one carries its first data, in its round trips. // RFC 8684 section 3.2
const JOIN: f64 = 1.5;

/// A path that a connection may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    /// The values of the memory; none if it is not known.
    pub known: Option<Remembered>,
    /// Its price; none if it costs nothing.
    pub price: Option<&'a Price>,
}

/// Returns true for each path that a connection of this size does without. The windows are segments of `mss` bytes.
pub(crate) fn spared(paths: &[Choice<'_>], size: Bytes, initial_window: u32, mss: u32) -> Vec<bool> {
    let mut dear: Vec<(usize, &Price)> =
        paths.iter().enumerate().filter_map(|(at, path)| Some((at, path.price?))).collect();
    dear.sort_by(|a, b| a.1.price.total_cmp(&b.1.price));
    let mut spared: Vec<bool> = paths.iter().map(|path| path.price.is_some()).collect();
    if dear.len() == paths.len() && !dear.is_empty() {
        // No path is free: the cheapest one is the one to compare with.
        spared[dear.remove(0).0] = false;
    }
    let time = |spared: &[bool]| {
        let used = paths.iter().zip(spared).filter(|(_, spared)| !**spared);
        let known: Vec<Remembered> = used.filter_map(|(path, _)| path.known).collect();
        completion(&known, size, initial_window, mss)
    };
    for (at, price) in dear {
        let without = time(&spared);
        spared[at] = false;
        let with = time(&spared);
        let is_slower = |without: f64, with: f64| without > with && without >= price.slower * with;
        let helps = matches!((without, with), (Some(without), Some(with)) if is_slower(without, with));
        // A path that is not known may be enough.
        let is_known = paths.iter().zip(&spared).all(|(path, spared)| *spared || path.known.is_some());
        spared[at] = !helps || !is_known;
    }
    spared
}

/// Returns the expected seconds of a connection over these paths; none without a path.
fn completion(paths: &[Remembered], size: Bytes, initial_window: u32, mss: u32) -> Option<f64> {
    let first = paths.iter().min_by(|a, b| a.expected(size).total_cmp(&b.expected(size)))?;
    let subflow = |path: &Remembered| {
        let state = PathState {
            base_rtt: path.rtt_s,
            rtt: path.rtt_s,
            free: f64::from(initial_window) * f64::from(mss),
            flight: 0.0,
            acks: (0.0, 0.0),
            backlog: 0.0,
            rate: path.rate_bps.map_or(f64::INFINITY, |rate| rate / 8.0),
            ssthresh: f64::INFINITY,
            growth: 1.0,
            limit: f64::INFINITY,
            loss: path.loss,
            mss: f64::from(mss),
        };
        let wait = if std::ptr::eq(path, first) { 0.0 } else { JOIN * path.rtt_s };
        (state, first.rtt_s + wait)
    };
    let subflows: Vec<(PathState, f64)> = paths.iter().map(subflow).collect();
    let delivered =
        |time: f64| subflows.iter().map(|(state, begin)| state.delivered(time - begin)).sum::<f64>();
    Some(prediction::completion(size.0 as f64, delivered))
}

#[cfg(test)]
mod tests {
    use anabranch_units::Time;

    use super::*;

    fn known(rtt_ms: f64, mbps: Option<f64>) -> Option<Remembered> {
        Some(Remembered::new(rtt_ms / 1e3, 0.0, mbps.map(|rate| rate * 1e6), 0.0, Time::ZERO))
    }

    fn price(price: f64, slower: f64) -> Price {
        Price { path: "wwan0".to_owned(), price, slower }
    }

    fn spares(paths: &[(Option<Remembered>, Option<&Price>)], size: Bytes) -> Vec<bool> {
        let choices: Vec<Choice<'_>> = paths.iter().map(|&(known, price)| Choice { known, price }).collect();
        spared(&choices, size, 10, 1400)
    }

    const LARGE: Bytes = Bytes(10_000_000);

    /// 10 MB take about 8 s over 10 Mbit/s, and about 2.7 s with 20 Mbit/s more.
    #[test]
    fn a_path_with_a_price_is_used_if_the_others_take_much_longer() {
        let free = (known(20.0, Some(10.0)), None);
        let spares_it = |slower, rate, size| {
            let price = price(1.0, slower);
            spares(&[free, (known(50.0, Some(rate)), Some(&price))], size)[1]
        };
        assert!(!spares_it(2.5, 20.0, LARGE) && spares_it(3.5, 20.0, LARGE));
        assert!(spares_it(2.5, 5.0, LARGE), "it is too slow itself");
        assert!(spares_it(1.2, 20.0, Bytes(20_000)), "the join of a small connection comes too late");
        assert!(spares(&[free, free], LARGE).iter().all(|spared| !spared));
    }

    /// Of 28 KB half is the first window, and the rest follows a round trip later: after the handshake 30 ms. The first data of a join
    /// comes 10 ms later.
    #[test]
    fn a_join_carries_nothing_before_its_handshake_is_over() {
        let path = known(20.0, None).unwrap();
        let seconds = completion(&[path, path], Bytes(28_000), 10, 1400).unwrap();
        assert!((seconds - 0.05).abs() < 1e-3, "{seconds}");
        let seconds = completion(&[path, path], Bytes(100_000), 10, 1400).unwrap();
        assert!(seconds < completion(&[path], Bytes(100_000), 10, 1400).unwrap(), "{seconds}");
    }

    #[test]
    fn the_cheapest_path_is_used_first_and_paths_that_are_not_needed_with_it_are_not_used() {
        // 10, 30 and 50 Mbit/s: a third of the time, and then three fifths.
        let (cheap, dear) = (price(1.0, 2.0), price(5.0, 2.0));
        let lte = known(50.0, Some(20.0));
        let free = (known(20.0, Some(10.0)), None);
        assert_eq!(spares(&[(lte, Some(&dear)), free, (lte, Some(&cheap))], LARGE), [true, false, false]);
        let dear = price(5.0, 1.5);
        assert_eq!(spares(&[(lte, Some(&dear)), free, (lte, Some(&cheap))], LARGE), [false, false, false]);
        assert_eq!(spares(&[(lte, Some(&dear)), (lte, Some(&cheap))], LARGE), [false, false]);
        let slow = price(5.0, 3.0);
        assert_eq!(
            spares(&[(lte, Some(&slow)), (lte, Some(&cheap))], LARGE),
            [true, false],
            "all have a price"
        );
    }

    #[test]
    fn a_path_with_a_price_is_not_used_before_the_paths_are_known() {
        let price = price(1.0, 1.0);
        let (near, far) = (known(20.0, None), known(50.0, Some(20.0)));
        assert_eq!(spares(&[(None, None), (far, Some(&price))], LARGE), [false, true], "no other");
        assert_eq!(spares(&[(near, None), (None, Some(&price))], LARGE), [false, true], "itself");
        assert!(
            spares(&[(near, None), (far, Some(&self::price(1.0, 1.1)))], LARGE)[1],
            "the rate of the other"
        );
        let slow = known(20.0, Some(1.0));
        let unknown = (None, None);
        assert!(spares(&[unknown, (slow, None), (far, Some(&price))], LARGE)[2], "one of the others");
        assert_eq!(spares(&[(slow, None), (far, Some(&price))], LARGE), [false, false]);
        assert!(spares(&[(slow, None), (far, Some(&price))], Bytes(1_000))[1], "no gain");
        assert_eq!(spares(&[(None, Some(&price))], LARGE), [false], "the only path");
    }
}
