//! The part of a bottleneck that packets of others take, from the growth of the queue.
//!
//! Packets leave a queue in the order and in the mix in which they came. While a burst arrives, the own share of what comes
//! out is larger than later: in the time T between two packets with the delays q1 and q2, the own bytes that come out had
//! arrived in T - (q2 - q1), and the others' bytes too. With the rate c of the bottleneck and the rate x of the others, the
//! own rate is therefore y = (c - x) + x g, with the growth g = (q2 - q1) / T. A line through the observed y and g has at
//! g = 0 the rate that the others leave.
//!
//! Constants: pieces of 16 packets; a slope counts from 5 times its standard error on, if it explains a third of the variance.

use anabranch_units::{Duration, Time};

/// Packets of a piece.
const PIECE: u32 = 16;
/// The least ratio of the slope to its standard error, the least share of the variance, and the least pieces.
const LEAST_T: f64 = 5.0;
const LEAST_SHARE: f64 = 1.0 / 3.0;
const LEAST_PIECES: f64 = 8.0;

/// Sums of the observations of a bottleneck.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others {
    /// The begin of the piece and the first delay, its bytes and its packets.
    piece: Option<(Time, Duration, u64, u32)>,
    count: f64,
    /// Of the growth, of the rate, and of their products.
    sums: [f64; 2],
    products: [f64; 3],
}

impl Others {
    /// Takes a packet that waited for `queue` and came out at `now`, with the bytes and packets since the last one. It begins a
    /// piece if the queue was empty before it.
    pub(crate) fn on_packet(&mut self, now: Time, queue: Duration, bytes: u64, packets: u32) {
        let Some((begun, first, before, number)) = self.piece else {
            self.piece = Some((now, queue, 0, 0));
            return;
        };
        let (bytes, packets) = (before + bytes, number.saturating_add(packets));
        self.piece = Some((begun, first, bytes, packets));
        let seconds = now.since(begun).as_secs_f64();
        if packets < PIECE || seconds <= 0.0 {
            return;
        }
        self.piece = Some((now, queue, 0, 0));
        let growth = (queue.as_secs_f64() - first.as_secs_f64()) / seconds;
        let rate = bytes as f64 * 8.0 / seconds;
        self.count += 1.0;
        self.sums = [self.sums[0] + growth, self.sums[1] + rate];
        let [gg, gr, rr] = self.products;
        self.products = [gg + growth * growth, gr + growth * rate, rr + rate * rate];
    }

    /// Ends a busy period.
    pub(crate) fn end(&mut self) {
        self.piece = None;
    }

    /// Returns the rate that others have sent, bit/s; zero if the growth of the queue shows none.
    pub(crate) fn rate(&self) -> f64 {
        let (n, [g, r]) = (self.count, self.sums);
        if n < LEAST_PIECES {
            return 0.0;
        }
        let [gg, gr, rr] = self.products;
        let (gg, gr, rr) = (gg - g * g / n, gr - g * r / n, rr - r * r / n);
        if gg <= 0.0 || gr <= 0.0 || rr <= 0.0 {
            return 0.0;
        }
        let slope = gr / gg;
        let rest = (rr - slope * gr).max(0.0);
        let error = (rest / (n - 2.0) / gg).sqrt();
        if slope > LEAST_T * error && rest < (1.0 - LEAST_SHARE) * rr { slope } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rate of others in a queue of 20 Mbit/s, to which they send `others` bit/s and a sender bursts of `burst` bit/s.
    fn found(others: f64, bursts: &[f64]) -> f64 {
        let (mut all, mut now) = (Others::default(), 0.0);
        for burst in bursts {
            // Forty packets of 1500 bytes arrive in this time, with the others' share; the bits come out at 20 Mbit/s.
            let (arrival, mut queue) = (12_000.0 / burst, 0.001);
            for _ in 0..40 {
                let service = (12_000.0 + others * arrival) / 20e6;
                now += service;
                queue += service - arrival;
                let at = Time::ZERO + Duration::from_secs_f64(now);
                all.on_packet(at, Duration::from_secs_f64(queue), 1500, 1);
            }
            all.end();
            now += 0.1;
        }
        all.rate()
    }

    #[test]
    fn the_growth_of_the_queue_shows_the_rate_of_others() {
        let bursts: Vec<f64> = (0..10).map(|at| 15e6 + 4e6 * f64::from(at)).collect();
        let rate = found(5e6, &bursts);
        assert!((rate / 5e6 - 1.0).abs() < 0.02, "{rate}");
        // Without others the rate does not depend on the growth.
        assert_eq!(found(0.0, &bursts), 0.0);
        // One burst tells nothing.
        assert_eq!(found(5e6, &[30e6]), 0.0);
    }
}
