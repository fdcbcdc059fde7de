//! The pattern of an application: one transfer, requests and responses, or bursts with pauses between them.

use anabranch_units::{Duration, Time};
use serde::Serialize;

use crate::track::{Burst, Connection, Subflow, is_at_sender};

/// The least share of a connection's time for which pauses count.
const LEAST_IDLE: f64 = 0.05;
/// The share of the bytes above which the largest turn stands for all of them.
const MOST_OF_ALL: f64 = 0.9;
/// The share of the turns that may overlap in requests and responses.
const FEW: f64 = 0.1;
/// The least bytes of the smaller direction that make a connection one of both, and the least share of the larger one.
const LEAST_BOTH: (u64, f64) = (100_000, 0.1);

/// The pattern of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One transfer, or one after short preliminaries.
    #[default]
    Transfer,
    /// The client sends something, the server answers, and so on.
    Requests,
    /// One host sends, with pauses.
    Bursts,
    /// Both hosts send at the same time.
    BothWays,
}

/// One turn of the application: a request with its response, or a burst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Its begin, since the first packet of the connection.
    pub at_s: f64,
    /// Bytes of the client.
    pub up_bytes: u64,
    /// Bytes of the server.
    pub down_bytes: u64,
    /// The time in which the application sent nothing before it; 0 for the first turn.
    pub pause_s: f64,
    /// The time that the server took for the response after it had the request.
    pub wait_s: f64,
    /// The time until the last byte had arrived: from the request on, without that wait; of a burst from its first byte on, or from
    /// its last one if the application wrote it slowly. Of the first turn from the SYN on.
    pub time_s: f64,
}

/// The application of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Application {
    /// Its pattern.
    pub pattern: Pattern,
    /// Its turns, 512 bursts of each host at most; empty for a transfer and for both ways.
    pub turns: Vec<Turn>,
    /// True if there were more.
    pub is_cut: bool,
    /// The sum of their pauses and waits, in seconds.
    pub idle_s: f64,
    /// The rate at which the application wrote its bursts, in bit/s; null if the network was the limit.
    pub rate_bps: Option<f64>,
}

/// The times of a connection.
#[derive(Clone, Copy)]
struct Clock {
    begun: Time,
    established: Time,
    /// Half of a round trip at the ends of the capture: added to the time of a burst.
    late: f64,
    seconds: f64,
}

impl Application {
    /// Finds the pattern of `connection`, most data of which is sent in the direction `main`. The paths of that direction have the
    /// rates `rates` together, if they are known.
    pub(crate) fn new(
        connection: &Connection,
        subflows: &[&Subflow],
        main: usize,
        rates: Option<f64>,
    ) -> Application {
        let Some(first) = subflows.first() else { return Application::default() };
        let rtt = first.handshake_rtt().map_or(0.0, |rtt| rtt.as_secs_f64());
        let begun = first.syn.unwrap_or(first.first);
        let clock = Clock {
            begun,
            established: connection.established.unwrap_or(begun),
            late: if is_at_sender(subflows, main & 1) { -rtt / 2.0 } else { rtt / 2.0 },
            seconds: connection.last.unwrap_or(begun).since(begun).as_secs_f64().max(1e-9),
        };
        let is_cut = connection.streams.iter().any(|stream| stream.by_burst.is_full);
        let bursts = [0, 1].map(|direction| connection.streams[direction].by_burst.list());
        let sent = [0, 1].map(|end: usize| bursts[end].iter().map(|burst| burst.bytes).sum::<u64>());
        if let Some(turns) = requests(&bursts[0], &bursts[1], clock)
            && is_worth(&turns, main, clock)
        {
            return Application::of(Pattern::Requests, turns, is_cut, None);
        }
        let (own, other) = (&bursts[main & 1], sent[(main & 1) ^ 1]);
        let rate = written(own, rtt, rates);
        let turns = pauses(own, main, clock, rate);
        if is_worth(&turns, main, clock) {
            return Application::of(Pattern::Bursts, turns, is_cut, rate);
        }
        let both = other >= LEAST_BOTH.0 && other as f64 >= LEAST_BOTH.1 * sent[main & 1] as f64;
        let pattern =
            if both && overlaps(&bursts[0], &bursts[1]) { Pattern::BothWays } else { Pattern::Transfer };
        Application { pattern, ..Application::default() }
    }

    fn of(pattern: Pattern, turns: Vec<Turn>, is_cut: bool, rate_bps: Option<f64>) -> Application {
        let idle_s = turns.iter().map(|turn| turn.pause_s + turn.wait_s).sum();
        Application { pattern, turns, is_cut, idle_s, rate_bps }
    }

    /// Returns the mean time of a turn, in seconds; none without turns.
    pub fn mean_time_s(&self) -> Option<f64> {
        let sum: f64 = self.turns.iter().map(|turn| turn.time_s).sum();
        (!self.turns.is_empty()).then(|| sum / self.turns.len() as f64)
    }
}

fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).as_secs_f64()
}

/// A turn that has not ended: the first and the last burst of the request and of the response, and the bytes of both.
type Open<'a> = ([&'a Burst; 2], Option<[&'a Burst; 2]>, u64, u64);

/// Returns the turns of requests and responses; none if one host does not wait for the other.
fn requests(client: &[Burst], server: &[Burst], clock: Clock) -> Option<Vec<Turn>> {
    let mut all: Vec<(usize, &Burst)> = client.iter().map(|burst| (0, burst)).collect();
    all.extend(server.iter().map(|burst| (1, burst)));
    all.sort_by_key(|(end, burst)| (burst.begun, *end));
    let mut turns: Vec<Turn> = Vec::new();
    let mut open: Option<Open<'_>> = None;
    let (mut odd, mut inner, mut ended) = (0_usize, 0.0, None);
    let mut close = |turn: Option<Open<'_>>, ended: &mut Option<Time>| {
        let Some((request, Some(response), up_bytes, down_bytes)) = turn else { return };
        let wait_s = seconds(request[1].done, response[0].begun);
        let pause_s = ended.map_or(0.0, |ended| seconds(ended, request[0].begun));
        // The simulator's first request is sent when the connection is established.
        let begun = match *ended {
            Some(_) => request[0].begun,
            None => clock.begun + request[0].begun.since(clock.established),
        };
        let time_s = (seconds(begun, response[1].done) - wait_s).max(0.0);
        *ended = Some(response[1].done);
        let at_s = seconds(clock.begun, request[0].begun);
        turns.push(Turn { at_s, up_bytes, down_bytes, pause_s, wait_s, time_s });
    };
    for (end, burst) in all {
        match (&mut open, end) {
            (Some((_, Some(response), ..)), 0) => {
                odd += usize::from(burst.begun < response[1].last);
                close(open.take(), &mut ended);
                open = Some(([burst, burst], None, burst.bytes, 0));
            }
            (Some((request, None, up, _)), 0) => {
                inner += seconds(request[1].done, burst.begun);
                request[1] = burst;
                *up += burst.bytes;
            }
            (None, 0) => open = Some(([burst, burst], None, burst.bytes, 0)),
            (Some((request, response @ None, _, down)), _) => {
                odd += usize::from(burst.begun < request[1].last);
                *response = Some([burst, burst]);
                *down += burst.bytes;
            }
            (Some((_, Some(response), _, down)), _) => {
                inner += seconds(response[1].done, burst.begun);
                response[1] = burst;
                *down += burst.bytes;
            }
            // The server speaks first.
            (None, _) => odd += 1,
        }
    }
    close(open, &mut ended);
    let idle: f64 = turns.iter().map(|turn| turn.pause_s + turn.wait_s).sum();
    let is_closed_loop = (odd as f64) <= FEW * turns.len() as f64 && inner <= 0.2 * (idle + inner);
    (turns.len() >= 2 && is_closed_loop).then_some(turns)
}

/// Returns the bursts of one host, which wrote them at `rate`, if it was slower than the network.
fn pauses(bursts: &[Burst], main: usize, clock: Clock, rate: Option<f64>) -> Vec<Turn> {
    let mut ended: Option<Time> = None;
    let turn = |burst: &Burst| {
        let pause_s = ended.map_or(0.0, |ended| seconds(ended, burst.begun));
        let is_first = ended.replace(burst.done).is_none();
        let begun = match rate {
            // The last byte may have waited at the host, which is a part of its delay.
            Some(rate) => burst.last.min(burst.begun + Duration::from_secs_f64(burst.written_after(rate))),
            // The simulator writes the first burst of an upload before the handshake.
            None if is_first && main == 0 => clock.begun,
            None => burst.begun,
        };
        let bytes = |own: usize| if own == main & 1 { burst.bytes } else { 0 };
        Turn {
            at_s: seconds(clock.begun, burst.begun),
            up_bytes: bytes(0),
            down_bytes: bytes(1),
            pause_s,
            wait_s: 0.0,
            time_s: (seconds(begun, burst.done) + clock.late).max(0.0),
        }
    };
    bursts.iter().map(turn).collect()
}

/// True if the turns say more than one transfer does.
fn is_worth(turns: &[Turn], main: usize, clock: Clock) -> bool {
    let bytes = |turn: &Turn| if main == 0 { turn.up_bytes } else { turn.down_bytes };
    let all: u64 = turns.iter().map(bytes).sum();
    let largest = turns.iter().map(bytes).max().unwrap_or(0);
    let idle: f64 = turns.iter().map(|turn| turn.pause_s + turn.wait_s).sum();
    let has_pauses = idle >= LEAST_IDLE * clock.seconds;
    turns.len() >= 2 && has_pauses && (largest as f64) < MOST_OF_ALL * all as f64
}

/// Returns the rate at which the application wrote, if it was slower than the network.
fn written(bursts: &[Burst], rtt: f64, rates: Option<f64>) -> Option<f64> {
    let is_long = |burst: &&Burst| seconds(burst.begun, burst.last) > (4.0 * rtt).max(0.1);
    let long = bursts.iter().filter(is_long).filter_map(|burst| Some((burst, burst.even_bps?)));
    let (mut bytes, mut bits, mut time) = (0, 0.0, 0.0);
    for (burst, bps) in long {
        let after = burst.written_after(bps);
        (bytes, bits, time) = (bytes + burst.bytes, bits + after * bps, time + after);
    }
    let all: u64 = bursts.iter().map(|burst| burst.bytes).sum();
    let rate = bits / time;
    (time > 0.0 && 2 * bytes > all && rates.is_none_or(|rates| rate < 0.7 * rates)).then_some(rate)
}

/// True if both hosts sent for most of the shorter one's time at once.
fn overlaps(client: &[Burst], server: &[Burst]) -> bool {
    let span = |own: &[Burst]| own.first().zip(own.last()).map(|(first, last)| (first.begun, last.last));
    let (Some(a), Some(b)) = (span(client), span(server)) else { return false };
    let both = a.1.min(b.1).since(a.0.max(b.0));
    let shorter = a.1.since(a.0).min(b.1.since(b.0));
    both > Duration::ZERO && both.0 > shorter.0 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock =
        Clock { begun: Time::ZERO, established: Time::from_millis(20), late: 0.0, seconds: 4.0 };

    /// A burst that was sent evenly.
    fn burst(begun: u64, last: u64, done: u64, bytes: u64) -> Burst {
        let at = Time::from_millis;
        let time = at(last).since(at(begun)).as_secs_f64();
        let first_bytes = bytes / 64;
        let even_bps = (time > 0.0).then(|| (bytes - first_bytes) as f64 * 8.0 / time);
        Burst { begun: at(begun), last: at(last), done: at(done), bytes, first_bytes, even_bps }
    }

    #[test]
    fn a_response_has_its_time_and_the_pause_before_its_request() {
        let client = [burst(30, 30, 50, 200), burst(1000, 1000, 1020, 300), burst(3000, 3000, 3020, 9)];
        let server = [burst(60, 100, 120, 50_000), burst(1020, 1400, 1420, 70_000)];
        let turns = requests(&client, &server, CLOCK).unwrap();
        let shown: Vec<_> = turns.iter().map(|turn| (turn.up_bytes, turn.down_bytes)).collect();
        // A request without a response is left out.
        assert_eq!(shown, [(200, 50_000), (300, 70_000)]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        // The first one counts from the SYN: 10 ms less before it, and 10 ms less for the wait of the server.
        near(turns[0].wait_s, 0.01);
        near(turns[0].time_s, 0.1);
        near(turns[1].pause_s, 0.88);
        near(turns[1].time_s, 0.42);
        assert!(is_worth(&turns, 1, CLOCK));
        // One large response among small ones is a transfer.
        assert!(!is_worth(&[Turn { down_bytes: 10_000_000, ..turns[0] }, turns[1]], 1, CLOCK));
    }

    #[test]
    fn a_host_that_does_not_wait_makes_bursts() {
        let client = [burst(0, 0, 20, 100), burst(900, 900, 920, 100), burst(1900, 1900, 1920, 100)];
        let server = [burst(20, 1000, 1020, 50_000), burst(1500, 2000, 2020, 40_000)];
        assert_eq!(requests(&client, &server, CLOCK), None);
        let turns = pauses(&server, 1, CLOCK, None);
        assert_eq!(turns.iter().map(|turn| turn.down_bytes).collect::<Vec<_>>(), [50_000, 40_000]);
        assert!((turns[1].pause_s - 0.48).abs() < 1e-9);
        // 90 KB without the two first packets in 1.48 s.
        let rate = written(&server, 0.02, Some(10e6)).unwrap();
        assert!((rate - 88_594.0 * 8.0 / 1.48).abs() < 1.0, "{rate}");
        // The second one was sent a little faster than this, so the host held its end back for some milliseconds.
        let slow = pauses(&server, 1, CLOCK, Some(rate));
        assert!((slow[1].time_s - 0.02).abs() < 1e-9 && slow[0].time_s > 0.02, "{slow:?}");
        assert_eq!(written(&server, 0.02, Some(0.5e6)), None);
        assert!(overlaps(&server, &client));
    }
}
