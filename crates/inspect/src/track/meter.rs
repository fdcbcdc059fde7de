//! The bottleneck in one direction of a subflow: its rate while a queue is waiting, the growth of the delay, and
//! the delay at which packets are lost.
//!
//! A sample is a packet with the delay above the least one so far (the queue in front of it), known from its
//! acknowledgement at the sender, or from its timestamp at the receiver. While consecutive packets have waited, the
//! bottleneck was busy between them, and the bytes that came out of it, over the time, are its rate. The bytes that came
//! out while a packet waited are the own part of the queue that it met.

use std::collections::VecDeque;

use anabranch_units::{Duration, Time};

use super::others::Others;
use crate::histogram::Histogram;

/// Packets of a chunk of a busy period; each chunk is an observation of the rate.
const CHUNK_PACKETS: u32 = 64;
/// The least packets of the last chunk of a busy period.
const LEAST_PACKETS: u32 = 12;
/// The most chunks and losses that are kept; then each second one is dropped.
const MOST: usize = 2048;

/// The most times at which bytes came out that are remembered.
const MOST_OUT: usize = 2048;

/// The queue that a packet met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// The time for which the packet waited.
    pub delay: Duration,
    /// The bytes of its own direction that came out meanwhile.
    pub bytes: u64,
}

impl Met {
    /// Returns the larger delay and the larger number of bytes.
    pub(crate) fn max(self, other: Met) -> Met {
        Met { delay: self.delay.max(other.delay), bytes: self.bytes.max(other.bytes) }
    }
}

/// A loss: the first byte, and the queue that its packet met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub start: u64,
    pub queue: Met,
    /// The time at which it would have left that queue.
    pub at: Time,
    pub weight: u32,
    /// The number of the packet among the data packets of its direction, from 1.
    pub number: u64,
}

/// An observation of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub bps: f64,
    pub seconds: f64,
    /// Its end.
    pub until: Time,
    pub packets: u32,
    /// The growth of the delay from its first to its last packet, over its time.
    pub growth: f64,
}

/// A busy period that has not ended.
#[derive(Clone, Copy, Debug)]
struct Busy {
    begun: Time,
    last: Time,
    bytes: u64,
    packets: u32,
    /// The queues of the first and of the last packet.
    queue: (Duration, Duration),
}

impl Busy {
    fn new(now: Time, queue: Duration) -> Busy {
        Busy { begun: now, last: now, bytes: 0, packets: 0, queue: (queue, queue) }
    }
}

/// The knowledge of a bottleneck.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Queueing delays of packets.
    pub queues: Histogram,
    /// The bytes that came out while packets waited.
    pub contents: Histogram,
    /// The last times at which bytes came out, and their sum until then.
    out: VecDeque<(Time, u64)>,
    total: u64,
    /// Bytes and packets with an unknown delay since the last sample.
    unknown: (u64, u32),
    busy: Option<Busy>,
    pub chunks: Vec<Chunk>,
    pub busy_time: Duration,
    pub losses: Vec<Loss>,
    /// The stride of the kept chunks.
    stride: u32,
    skipped: u32,
    /// Rates of pairs of packets, as the time for a megabyte.
    pairs: Histogram,
    others: Others,
}

impl Meter {
    /// Takes a sample at `now`: a packet that waited for `queue`, with `bytes` that came out since the last sample,
    /// in `packets` packets. `base` is the least delay. Returns the queue that the packet met.
    pub(crate) fn sample(
        &mut self,
        now: Time,
        queue: Duration,
        base: Duration,
        bytes: u64,
        packets: u32,
    ) -> Met {
        self.on_out(now, bytes);
        let entered = Time(now.0.saturating_sub(queue.0));
        let at = self.out.partition_point(|(time, _)| *time <= entered);
        let before = at.checked_sub(1).or(Some(0)).and_then(|at| self.out.get(at)).map_or(0, |out| out.1);
        let met = Met { delay: queue, bytes: self.total - before };
        self.queues.add(queue);
        self.contents.add(of_bytes(met.bytes));
        self.follow(now, queue, base, bytes, packets);
        met
    }

    /// Takes bytes in `packets` packets that came out at `now` with an unknown delay.
    pub(crate) fn on_unknown(&mut self, now: Time, bytes: u64, packets: u32) {
        self.on_out(now, bytes);
        self.unknown = (self.unknown.0 + bytes, self.unknown.1.saturating_add(packets));
    }

    fn on_out(&mut self, now: Time, bytes: u64) {
        self.total += bytes;
        if self.out.len() >= MOST_OUT {
            self.out.pop_front();
        }
        self.out.push_back((now, self.total));
    }

    /// Begins, continues or ends the busy period.
    fn follow(&mut self, now: Time, queue: Duration, base: Duration, bytes: u64, packets: u32) {
        let unknown = core::mem::take(&mut self.unknown);
        // Less is noise.
        let least = Duration((base.0 / 12).clamp(150_000, 3_000_000));
        let Some(busy) = &mut self.busy else {
            if queue >= least {
                self.busy = Some(Busy::new(now, queue));
                self.others.on_packet(now, queue, 0, 0);
            }
            return;
        };
        let gap = now.since(busy.last);
        // A queue is empty after its own delay, unless more packets come out.
        let idle = gap > queue
            || (busy.packets >= 8
                && gap.0 > 16 * (busy.last.since(busy.begun).0 / u64::from(busy.packets)).max(1_000));
        if queue < least || idle {
            let busy = *busy;
            self.end(busy);
            self.busy = (queue >= least).then_some(Busy::new(now, queue));
            if self.busy.is_some() {
                self.others.on_packet(now, queue, 0, 0);
            }
            return;
        }
        let (bytes, packets) = (bytes + unknown.0, packets.saturating_add(unknown.1));
        if bytes > 0 && gap.0 > 0 {
            self.pairs.add(Duration((gap.0 as f64 * 1e6 / bytes as f64) as u64));
        }
        self.others.on_packet(now, queue, bytes, packets);
        busy.last = now;
        busy.bytes += bytes;
        busy.packets += packets;
        busy.queue.1 = queue;
        if busy.packets >= CHUNK_PACKETS {
            let full = *busy;
            *busy = Busy::new(now, queue);
            self.chunk(full);
        }
    }

    /// True if the last packets have waited.
    pub(crate) fn is_busy(&self, now: Time) -> bool {
        self.busy.is_some_and(|busy| now.since(busy.last) < Duration::from_millis(100))
    }

    fn end(&mut self, busy: Busy) {
        if busy.packets >= LEAST_PACKETS {
            self.chunk(busy);
        }
        self.busy = None;
        self.others.end();
    }

    fn chunk(&mut self, busy: Busy) {
        let time = busy.last.since(busy.begun);
        if time.0 == 0 {
            return;
        }
        self.busy_time += time;
        self.stride = self.stride.max(1);
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.chunks.len() >= MOST {
            let mut keep = false;
            self.chunks.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
        let seconds = time.as_secs_f64();
        self.chunks.push(Chunk {
            bps: busy.bytes as f64 * 8.0 / seconds,
            seconds,
            until: busy.last,
            packets: busy.packets,
            growth: (busy.queue.1.as_secs_f64() - busy.queue.0.as_secs_f64()) / seconds,
        });
    }

    /// Takes a loss of a packet that met `queue`, and would have left it at `at`.
    pub(crate) fn loss(&mut self, start: u64, queue: Met, number: u64, at: Time) {
        if self.losses.len() >= MOST {
            let mut keep = false;
            self.losses.retain_mut(|loss| {
                loss.weight = loss.weight.saturating_mul(2);
                keep = !keep;
                keep
            });
        }
        self.losses.push(Loss { start, queue, at, weight: 1, number });
    }

    /// Removes a loss that was none: the receiver has got the packet twice.
    pub(crate) fn undo_loss(&mut self, start: u64, end: u64) {
        let recent = self.losses.len().saturating_sub(256);
        if let Some(at) = self.losses.iter().skip(recent).rposition(|loss| (start..end).contains(&loss.start))
        {
            self.losses.remove(recent + at);
        }
    }

    /// Ends the busy period at the end of the capture.
    pub(crate) fn finish(&mut self) {
        if let Some(busy) = self.busy {
            self.end(busy);
        }
    }

    /// Returns the observations, with the rate that packets of others leave in the long run.
    pub(crate) fn left(&self) -> Vec<Chunk> {
        let others = self.others.rate();
        let left = |chunk: &Chunk| {
            let bps = (chunk.bps - others * chunk.growth.clamp(-1.0, 1.0)).max(chunk.bps * 0.1);
            Chunk { bps, ..*chunk }
        };
        self.chunks.iter().map(left).collect()
    }

    /// Returns the rate of pairs of packets at the quantile `q` of their times, bit/s: a small one has the pairs without
    /// packets of others in between.
    pub(crate) fn pair_rate(&self, q: f64) -> Option<f64> {
        (self.pairs.count() >= 10).then_some(())?;
        let per_megabyte = self.pairs.quantile(q)?.as_secs_f64();
        (per_megabyte > 0.0).then(|| 8e6 / per_megabyte)
    }
}

/// Returns a number of bytes as a value of a histogram.
pub(crate) fn of_bytes(bytes: u64) -> Duration {
    Duration(bytes.saturating_mul(1024))
}

/// Returns the rate of chunks: the median over time, and the range that has 80 % of the time.
pub(crate) fn rate_of(chunks: &[Chunk]) -> Option<(f64, f64, f64)> {
    let mut chunks: Vec<Chunk> = chunks.to_vec();
    chunks.sort_by(|a, b| a.bps.total_cmp(&b.bps));
    let total: f64 = chunks.iter().map(|chunk| chunk.seconds).sum();
    let at = |share: f64| {
        let mut before = 0.0;
        let found = chunks.iter().find(|chunk| {
            before += chunk.seconds;
            before >= share * total
        });
        found.map(|chunk| chunk.bps)
    };
    Some((at(0.5)?, at(0.1)?, at(0.9)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_arrived_twice_was_not_lost() {
        let mut meter = Meter::default();
        for number in 1..=3 {
            meter.loss(1000 * number, Met::default(), number, Time::ZERO);
        }
        meter.undo_loss(2000, 3000);
        assert_eq!(meter.losses.iter().map(|loss| loss.number).collect::<Vec<_>>(), [1, 3]);
        meter.undo_loss(4000, 5000);
        assert_eq!(meter.losses.len(), 2);
    }

    #[test]
    fn the_rate_is_the_median_over_the_busy_time() {
        let mut meter = Meter::default();
        assert_eq!(rate_of(&meter.left()), None);
        let of = |bps, seconds| Chunk { bps, seconds, until: Time::ZERO, packets: 1, growth: 0.0 };
        let mut chunk = |bps, seconds| meter.chunks.push(of(bps, seconds));
        // The fast chunks are many and short.
        (0..8).for_each(|_| chunk(100e6, 0.01));
        chunk(10e6, 1.0);
        assert_eq!(rate_of(&meter.left()), Some((10e6, 10e6, 10e6)));
        meter.chunks.push(of(5e6, 1.2));
        assert_eq!(rate_of(&meter.left()), Some((5e6, 5e6, 10e6)));
    }
}
