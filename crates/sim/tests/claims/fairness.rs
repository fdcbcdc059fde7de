//! LIA and a TCP on a shared link.

use anabranch_link::{Loss, QueueLimit};
use anabranch_sim::Sim;
use anabranch_sim::topology::{self, Duplex, PathSpec};
use anabranch_stack::config::{ConnectionConfig, ReceiveBuffer, SimConfig};
use anabranch_stack::congestion::CongestionKind;
use anabranch_units::{Bytes, Duration, RandomStream, Rate, Time};

const SEEDS: u64 = 20;

/// A link with a round-trip time of 100 ms shared by one connection with several subflows and a TCP.
struct Shared {
    mbps: u64,
    loss: f64,
    queue: QueueLimit,
    subflows: usize,
    congestion: CongestionKind,
    detection: SimConfig,
}

impl Shared {
    /// Returns the first connection's share of the bytes of 300 s, and the packets that the queue dropped.
    fn share(&self, seed: u64) -> (f64, u64) {
        let access = Duplex::symmetric(Rate::from_mbps(1000), Duration::ZERO)
            .with(|link| link.queue = QueueLimit::Unlimited);
        let mut link = Duplex::symmetric(Rate::from_mbps(self.mbps), Duration::from_millis(100));
        link.up.queue = self.queue;
        link.up.loss = if self.loss > 0.0 { Loss::Bernoulli(self.loss) } else { Loss::None };
        link.down.queue = QueueLimit::Unlimited;
        let paths: Vec<_> =
            (1..=self.subflows).map(|n| PathSpec::new(format!("path{n}"), access.clone())).collect();
        let single = [PathSpec::new("single", access)];
        let topology = topology::shared_bottleneck(&paths, &PathSpec::new("link", link), &single).unwrap();
        let mut multipath = self.detection.clone();
        multipath.congestion = self.congestion.clone();
        multipath.receive_buffer = ReceiveBuffer::Fixed(Bytes::from_kib(16 << 10));
        let mut tcp = multipath.clone();
        (tcp.mptcp, tcp.congestion) = (false, CongestionKind::NewReno);
        let mut starts = RandomStream::new(seed, "starts");
        let mut start = || Time::ZERO + Duration::from_secs_f64(5.0 * starts.next_f64());
        let flows = vec![
            topology.pairs[0].flow("multipath", None, multipath).starting(start()),
            topology.pairs[1].flow("tcp", None, tcp).starting(start()),
        ];
        let report = Sim::new(topology.network, flows, seed, ()).unwrap().run(Time::from_secs(300));
        let (multipath, tcp) = (report.flows[0].delivered as f64, report.flows[1].delivered as f64);
        let drops = report.links.iter().map(|link| link.counters.dropped_queue.packets).sum();
        (multipath / (multipath + tcp), drops)
    }

    /// Returns the mean share over all seeds, and the packets that the queue dropped.
    fn mean(&self) -> (f64, u64) {
        let shares: Vec<_> = (0..SEEDS).map(|seed| self.share(seed)).collect();
        let mean = shares.iter().map(|share| share.0).sum::<f64>() / SEEDS as f64;
        let drops = shares.iter().map(|share| share.1).sum();
        let least = shares.iter().map(|share| share.0).fold(1.0, f64::min);
        let most = shares.iter().map(|share| share.0).fold(0.0, f64::max);
        println!(
            "{} of {} subflows, {} Mbit/s, loss {}, queue {:?}: {:.1} % ({:.1} to {:.1}), {drops} queue drops",
            self.congestion.name(),
            self.subflows,
            self.mbps,
            self.loss,
            self.queue,
            100.0 * mean,
            100.0 * least,
            100.0 * most,
        );
        (mean, drops)
    }
}

/// Losses are random and the link is never full.
fn random_losses() -> Shared {
    Shared {
        mbps: 50,
        loss: 0.001,
        queue: QueueLimit::Unlimited,
        subflows: 2,
        congestion: CongestionKind::Lia,
        detection: ConnectionConfig::linux().into(),
    }
}

#[test]
fn lia_takes_as_much_as_one_tcp_where_losses_are_random() {
    let (share, drops) = random_losses().mean();
    assert_eq!(drops, 0);
    assert!((share - 0.5).abs() <= 0.05, "{share}");
}

#[test]
fn lia_of_one_subflow_is_a_tcp_and_uncoupled_subflows_are_several() {
    let (one, _) = Shared { subflows: 1, ..random_losses() }.mean();
    assert!((one - 0.5).abs() <= 0.02, "{one}");
    let (uncoupled, _) = Shared { congestion: CongestionKind::NewReno, ..random_losses() }.mean();
    assert!((uncoupled - 2.0 / 3.0).abs() <= 0.02, "{uncoupled}");
}

#[test]
#[ignore = "prints what docs/reproduction.md reports"]
fn shares_of_other_kinds() {
    for subflows in [3, 4, 8] {
        Shared { subflows, ..random_losses() }.mean();
    }
    Shared { detection: SimConfig::ns3(), ..random_losses() }.mean();
    for subflows in [1, 2, 4] {
        for queue in [QueueLimit::Bdp(0.25), QueueLimit::Bdp(1.0), QueueLimit::Bdp(4.0)] {
            let drop_tail = Shared { mbps: 10, loss: 0.0, queue, subflows, ..random_losses() };
            drop_tail.mean();
            Shared { congestion: CongestionKind::NewReno, ..drop_tail }.mean();
        }
    }
}
