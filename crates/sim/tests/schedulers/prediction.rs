//! The prediction of `anabranch` against the simulator, over random paths without loss.

use anabranch_link::QueueLimit;
use anabranch_sim::topology::Duplex;
use anabranch_stack::config::ConnectionConfig;
use anabranch_stack::prediction::PathState;
use anabranch_units::{Duration, RandomStream, Rate};

use crate::watch::{Ran, in_buffer, run, scheduler, with};

/// The header of a segment with timestamps, and for Multipath TCP with a mapping.
const HEADERS: [f64; 2] = [52.0, 80.0];

/// A path of 1 to 100 Mbit/s and 4 to 300 ms, both log-uniform, with a queue of 2 BDP.
struct Drawn {
    rate: f64,
    rtt: f64,
}

impl Drawn {
    fn new(stream: &mut RandomStream) -> Drawn {
        let mut between = |low: f64, high: f64| low * (stream.next_f64() * (high / low).ln()).exp();
        Drawn { rate: between(1e6, 1e8), rtt: between(0.004, 0.3) }
    }

    fn link(&self) -> Duplex {
        Duplex::symmetric(Rate(self.rate as u64), Duration::from_secs_f64(self.rtt))
            .with(|link| link.queue = QueueLimit::Bdp(2.0))
    }

    /// Returns the state of a subflow at its start.
    fn state(&self, mss: f64, headers: f64) -> PathState {
        PathState {
            base_rtt: self.rtt,
            rtt: self.rtt,
            free: 10.0 * mss,
            flight: 0.0,
            acks: (0.0, 0.0),
            backlog: 0.0,
            rate: self.rate / 8.0 * mss / (mss + headers),
            ssthresh: f64::INFINITY,
            growth: 1.0,
            limit: 3e7,
            loss: 0.0,
            mss,
        }
    }
}

fn transfer(paths: &[Duplex], size: u64) -> Ran {
    let config = in_buffer(with(scheduler("anabranch")), 30_000_000);
    run(paths, &ConnectionConfig { mptcp: paths.len() > 1, ..config }, Some(size), 0, 300)
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * share) as usize]
}

// A flow of 10 KB to 5 MB on one path, from its handshake to the arrival of the last byte.
#[test]
fn the_end_of_a_flow_on_one_path_is_predicted() {
    let mut stream = RandomStream::new(1, "one path");
    let mut errors: Vec<f64> = (0..500)
        .map(|_| {
            let path = Drawn::new(&mut stream);
            let size = 1e4 * (stream.next_f64() * 500_f64.ln()).exp();
            let actual = transfer(&[path.link()], size as u64).fct_ms() / 1e3;
            let predicted = path.rtt + path.state(1448.0, HEADERS[0]).arrival(size);
            (predicted / actual - 1.0).abs()
        })
        .collect();
    let [median, most] = [0.5, 0.9].map(|share| percentile(&mut errors, share));
    println!("one path: median error {:.1} %, p90 {:.1} %", 100.0 * median, 100.0 * most);
    assert!(median < 0.05 && most < 0.25, "{median} {most}");
}

// The amount delivered at the predicted time of its arrival is the amount.
#[test]
fn deliveries_and_arrivals_are_inverse() {
    let mut stream = RandomStream::new(2, "inverse");
    for _ in 0..2000 {
        let mss = 1448.0;
        let path = Drawn::new(&mut stream);
        let window = 1.0 + stream.below(200) as f64;
        let free = stream.below(window as u64 + 1) as f64;
        let rtt = path.rtt * (1.0 + stream.next_f64());
        let last = rtt * stream.next_f64();
        let state = PathState {
            free: free * mss,
            flight: (window - free) * mss,
            acks: if stream.chance(0.5) { (0.0, rtt) } else { (last * stream.next_f64(), last) },
            rtt,
            rate: if stream.chance(0.3) { f64::INFINITY } else { path.rate / 8.0 },
            ssthresh: if stream.chance(0.5) { f64::INFINITY } else { window * mss * stream.next_f64() * 2.0 },
            ..path.state(mss, 52.0)
        };
        let bytes = mss * (1.0 + stream.below(3000) as f64);
        let at = state.arrival(bytes);
        let delivered = state.delivered(at * (1.0 + 1e-9) + 1e-9);
        assert!(delivered >= bytes * 0.999, "{bytes} at {at}, but {delivered}: {state:?}");
        let before = state.delivered(at * (1.0 - 1e-6) - 1e-9);
        assert!(before <= bytes * 1.001, "{bytes} at {at}, but {before} before: {state:?}");
    }
}

// A flow of 100 KB to 10 MB over two paths: the time at which both together have delivered it. The second path joins after two round trips of
// the first and one of its own.
#[test]
fn the_end_of_a_flow_on_two_paths_is_predicted() {
    let mut stream = RandomStream::new(3, "two paths");
    let mut errors: Vec<f64> = (0..500)
        .map(|_| {
            let paths = [Drawn::new(&mut stream), Drawn::new(&mut stream)];
            let size = 1e5 * (stream.next_f64() * 100_f64.ln()).exp();
            // The first path is the better one.
            let states = paths.each_ref().map(|path| path.state(1420.0, HEADERS[1]));
            let alone = states.map(|state| state.base_rtt + state.arrival(size));
            let (first, second) = if alone[0] <= alone[1] { (0, 1) } else { (1, 0) };
            let links = [paths[first].link(), paths[second].link()];
            let actual = transfer(&links, size as u64).fct_ms() / 1e3;
            let starts =
                [states[first].base_rtt, 1.5 * states[first].base_rtt + 1.5 * states[second].base_rtt];
            let (mut low, mut high) = (0.0, alone[first]);
            for _ in 0..50 {
                let middle = f64::midpoint(low, high);
                let sum = states[first].delivered(middle - starts[0])
                    + states[second].delivered(middle - starts[1]);
                if sum >= size { high = middle } else { low = middle }
            }
            (high / actual - 1.0).abs()
        })
        .collect();
    let [median, most] = [0.5, 0.9].map(|share| percentile(&mut errors, share));
    println!("two paths: median error {:.1} %, p90 {:.1} %", 100.0 * median, 100.0 * most);
    assert!(median < 0.08 && most < 0.4, "{median} {most}");
}
