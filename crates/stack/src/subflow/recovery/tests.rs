//! Scoreboard and recovery of one subflow, driven by transmissions and acknowledgements.
//!
//! Segments have 1,000 bytes and are named by their number: segment 3 is 3000..4000. Times are in
//! milliseconds. By default, segment n is sent at 10 + n and a round trip takes 100.

mod bound;
mod newreno;
mod rack;
mod timers;
mod undo;

use anabranch_units::Duration;

use super::*;
use crate::subflow::rate::SendStamp;
use crate::subflow::scoreboard::{Fate, SentMapping};

const MSS: u64 = 1_000;

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

struct Bench {
    recovery: Recovery,
    board: Scoreboard,
    rtt: RttEstimator,
    rounds: u64,
    /// The numbers of the segments that the last call has marked lost.
    lost: Vec<u64>,
    /// The timestamp echoed by the next acknowledgements.
    echo: Option<u64>,
    /// 7 ms for the probe of a single segment.
    slack: TimerSlack,
}

impl Bench {
    fn new(config: &ConnectionConfig) -> Bench {
        Bench {
            recovery: Recovery::new(config, config.sack, 0),
            board: Scoreboard::starting_at(0),
            rtt: RttEstimator::new(&config.rto),
            rounds: 0,
            lost: Vec::new(),
            echo: None,
            slack: TimerSlack { single: Duration::from_millis(7), other: Duration::ZERO },
        }
    }

    /// Returns a bench with RACK-TLP, a steady round trip of 100 ms, and `count` segments sent.
    fn rack(count: u64) -> Bench {
        let mut bench = Bench::new(&ConnectionConfig::linux());
        bench.measure(100);
        bench.send_many(count);
        bench
    }

    /// Returns a bench with duplicate acknowledgements and `count` segments sent.
    fn newreno(count: u64) -> Bench {
        let mut bench = Bench::new(&ConnectionConfig::ns3());
        bench.measure(100);
        bench.send_many(count);
        bench
    }

    fn measure(&mut self, rtt: u64) {
        // Each sample is one of another round trip.
        self.rounds += 2;
        self.rtt.sample(Duration::from_millis(rtt), self.rounds, self.rounds + 1);
        self.recovery.on_rtt_sample();
    }

    fn send_many(&mut self, count: u64) {
        for _ in 0..count {
            self.send(10 + self.board.nxt() / MSS);
        }
    }

    fn send(&mut self, at: u64) {
        let seq = self.board.nxt();
        self.board.push(Sent {
            seq,
            len: MSS as u32,
            transmissions: 1,
            fin: false,
            fate: Fate::InFlight,
            data: seq,
            mapping: SentMapping::default(),
            sent: ms(at),
            stamp: SendStamp::default(),
        });
    }

    fn resend(&mut self, segment: u64, at: u64) {
        let index = self.board.index_of(segment * MSS);
        self.board.retransmit(index, ms(at), SendStamp::default());
        self.recovery.on_retransmit(ms(at), &self.board, segment * MSS);
    }

    /// Acknowledges all before segment `una` and the segments `sacked`.
    fn ack(&mut self, at: u64, una: u64, sacked: &[u64]) -> Verdict {
        self.acknowledge(at, una * MSS, sacked, false, false)
    }

    /// Sends a duplicate acknowledgement without SACK.
    fn duplicate(&mut self, at: u64) -> Verdict {
        self.acknowledge(at, self.board.una(), &[], true, false)
    }

    fn acknowledge(
        &mut self,
        at: u64,
        una: u64,
        sacked: &[u64],
        duplicate: bool,
        dsack_undo: bool,
    ) -> Verdict {
        let Bench { recovery, board, rtt, lost, echo, .. } = self;
        let before = board.una();
        let min_rtt = rtt.min().unwrap_or(Duration::ZERO);
        let echo_before = |when: Time| echo.is_some_and(|echo| ms(echo) < when);
        let mut original = false;
        board.acknowledge(una, |record, _| {
            original |= Recovery::answers_original(record, before, echo_before);
            recovery.on_delivered(ms(at), record, min_rtt, original);
        });
        for segment in sacked {
            board.sack(segment * MSS, (segment + 1) * MSS, 0, |record| {
                recovery.on_delivered(ms(at), record, min_rtt, false);
            });
        }
        lost.clear();
        let advanced = board.una() - before;
        let hear = |record: &Sent| lost.push(record.seq / MSS);
        let verdict =
            recovery.on_ack(ms(at), board, rtt, MSS, advanced, duplicate, dsack_undo, echo_before, hear);
        assert!(board.is_consistent());
        verdict
    }

    /// Acknowledges all before segment `una` and reports `segment` as a duplicate.
    fn dsack(&mut self, at: u64, una: u64, segment: u64) -> Verdict {
        self.board.acknowledge(una * MSS, |_, _| ());
        let undo = self.recovery.on_dsack(&self.board, (segment + 1) * MSS);
        self.acknowledge(at, una * MSS, &[], false, undo)
    }

    fn reordering_timer(&mut self, at: u64) -> bool {
        self.lost.clear();
        let Bench { recovery, board, rtt, lost, .. } = self;
        recovery.on_reordering_timer(ms(at), board, rtt, |record| lost.push(record.seq / MSS))
    }

    fn timeout(&mut self) -> bool {
        self.lost.clear();
        let Bench { recovery, board, lost, .. } = self;
        let first = recovery.on_timeout(board, |record| lost.push(record.seq / MSS));
        assert!(self.board.is_consistent());
        first
    }

    /// Returns the timer if the oldest data was sent at `base` and the newest at `last_new`.
    fn timer_from(&self, base: u64, last_new: u64) -> (Time, RetransmitTimer) {
        self.recovery.timer(ms(base), ms(last_new), &self.board, &self.rtt, true, self.slack)
    }

    fn timer(&self) -> (Time, RetransmitTimer) {
        self.timer_from(10, 10)
    }

    /// Returns the time of the reordering timer in milliseconds.
    fn reordering_at(&self) -> Option<u64> {
        let (due, timer) = self.timer_from(1_000, 1_000);
        (timer == RetransmitTimer::Reordering).then_some(due.as_nanos() / 1_000_000)
    }

    fn state(&self) -> RecoveryState {
        self.recovery.state()
    }
}
