//! The maximum packet size of one subflow: reported by routers (RFC 1191, RFC 8201), or found by probes that
//! may be lost (RFC 4821).
//!
//! It decides the maximum payload of a segment, from ICMP reports, timeouts, and the fate of probes. A probe
//! is a segment of new data that is larger than the others; if no other segment is lost, the loss of a probe
//! is no sign of congestion.
//!
//! Constants: reports below 552 bytes (IPv4; Linux's `min_pmtu`) or 1280 (IPv6, RFC 8200) count as those; a
//! path that drops full segments is assumed to have 1064 bytes (IPv4; Linux's `tcp_base_mss` of 1024) or
//! 1280; larger sizes are probed again 10 minutes after a reduction (RFC 1191 section 6.3, RFC 4821 section
//! 7.7); the search ends at an interval of 8 bytes (Linux).

use anabranch_units::{Duration, Time};

use super::{Subflow, TcpState};
use crate::config::PathMtuDiscovery;
use crate::observer::LossReason;
use crate::seq::{DataRange, Seq, offset_near};

/// The length of TCP's header without options.
const TCP_HEADER: u32 = 20;
/// The time after which a larger size is probed again.
const TRY_AGAIN: Duration = Duration::from_secs(600);
/// The interval at which a search ends.
const NARROW: u32 = 8;
/// The number of consecutive timeouts after which a path is suspected of dropping large packets.
const SUSPECT: u32 = 2;
/// RFC 1191 section 7.1: the sizes that a router may mean if its report has no MTU.
const PLATEAUS: [u32; 8] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 552];

/// The fate of a probe when segments are marked lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProbeLoss {
    /// The probe is not affected.
    None,
    /// The probe is too large, and nothing else was lost: no congestion.
    TooLarge,
    /// Other segments were lost too, so nothing is known about its size.
    Unclear,
}

/// The knowledge of the path MTU of one subflow, in bytes of payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathMtu {
    how: PathMtuDiscovery,
    ipv4: bool,
    /// The length of the options of a data segment.
    options: u8,
    /// The maximum given by the MSS of both sides.
    ceiling: u32,
    /// The smallest size known not to pass; one above the ceiling if there is none.
    failed: u32,
    /// The length of the outstanding probe, 0 if there is none, and its start offset.
    probe_len: u32,
    probe_start: u64,
    /// The time from which larger sizes may be probed.
    search_at: Time,
}

impl PathMtu {
    /// Returns the state in which only the negotiated maximum of `ceiling` bytes of payload, in segments with `options`
    /// bytes of options, is known.
    pub(super) fn new(how: PathMtuDiscovery, ipv4: bool, ceiling: u32, options: u32) -> PathMtu {
        PathMtu {
            how,
            ipv4,
            options: options.min(40) as u8,
            ceiling,
            failed: ceiling + 1,
            probe_len: 0,
            probe_start: 0,
            search_at: Time::NEVER,
        }
    }

    /// Handles that segments of the same length have `more` bytes of payload, in place of options.
    pub(super) fn add_space(&mut self, more: u32) {
        self.options = u32::from(self.options).saturating_sub(more) as u8;
        self.ceiling += more;
        self.failed += more;
    }

    fn payload(&self, mtu: u32) -> u32 {
        mtu.saturating_sub(TCP_HEADER + u32::from(self.options) + if self.ipv4 { 20 } else { 40 })
    }

    fn least(&self) -> u32 {
        self.payload(if self.ipv4 { 552 } else { 1280 }).min(self.ceiling)
    }

    /// Handles a router's report that packets of more than `mtu` bytes do not pass (0: not specified).
    /// Returns the new maximum payload, if it is less than `mss`.
    pub(super) fn on_too_big(&mut self, now: Time, mtu: u32, mss: u32) -> Option<u32> {
        if self.how == PathMtuDiscovery::Off {
            return None;
        }
        let mut fits = self.payload(mtu);
        if mtu == 0 {
            fits = PLATEAUS.map(|plateau| self.payload(plateau)).into_iter().find(|&size| size < mss)?;
        }
        let fits = fits.max(self.least());
        if fits >= self.failed {
            return None;
        }
        self.failed = fits + 1;
        self.search_at = now + TRY_AGAIN;
        (fits < mss).then_some(fits)
    }

    /// Handles the `timeouts`th consecutive timeout, with a first unacknowledged segment of `len` bytes.
    /// Returns the new maximum payload, if the path is suspected of silently dropping large packets.
    pub(super) fn on_timeout(&mut self, now: Time, timeouts: u32, len: u32, mss: u32) -> Option<u32> {
        // A timeout contains no information about the probe's size (RFC 4821 section 7.6.4).
        self.probe_len = 0;
        let base = self.payload(if self.ipv4 { 1064 } else { 1280 });
        let smaller = if mss > base { base } else { mss / 2 }.max(self.least());
        let suspect = self.how == PathMtuDiscovery::Probe && timeouts >= SUSPECT;
        if !suspect || len <= smaller || smaller >= mss {
            return None;
        }
        self.search_at = now;
        Some(smaller)
    }

    /// True if [`PathMtu::probe_size`] may return a size.
    #[inline]
    pub(super) fn is_searching(&self, now: Time) -> bool {
        now >= self.search_at && self.probe_len == 0
    }

    /// Handles the cutting of segments larger than now allowed: a probe among them has no fate any more.
    pub(super) fn on_cut(&mut self) {
        self.probe_len = 0;
    }

    /// Returns the size to probe next, if one is due and `available` bytes of new data suffice for the probe
    /// and for the segments after it that show its loss.
    pub(super) fn probe_size(&mut self, now: Time, mss: u32, cwnd: u64, available: u64) -> Option<u32> {
        if !self.is_searching(now) {
            return None;
        }
        if mss >= self.ceiling {
            self.search_at = Time::NEVER;
            return None;
        }
        let told = self.how == PathMtuDiscovery::Icmp;
        if told || self.is_narrow(mss) {
            // A size that failed long ago may pass now; if not, routers that report will do so again.
            self.failed = self.ceiling + 1;
        }
        let size = if told { self.ceiling } else { (mss + self.failed) / 2 };
        // At most the window that one acknowledgement usually frees.
        let size = size.min(2 * mss);
        // Linux: a window of eleven segments tolerates its loss, and some segments after it reveal it.
        let enough = u64::from(size) + 4 * u64::from(mss);
        (size > mss && cwnd >= 11 * u64::from(mss) && available >= enough).then_some(size)
    }

    /// True if there is nothing to search between `mss`, which passes, and the smallest failed size.
    fn is_narrow(&self, mss: u32) -> bool {
        self.failed.saturating_sub(mss) <= NARROW
    }

    /// Records the transmission of a probe of `len` bytes at offset `start`.
    pub(super) fn on_probe_sent(&mut self, start: u64, len: u32) {
        self.probe_start = start;
        self.probe_len = len;
    }

    /// Handles an acknowledgement of everything before `una`. Returns the larger payload that has passed.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Time, una: u64) -> Option<u32> {
        if self.probe_len == 0 || una < self.probe_start + u64::from(self.probe_len) {
            return None;
        }
        let passed = core::mem::take(&mut self.probe_len);
        if self.is_narrow(passed) {
            self.search_at = now + TRY_AGAIN;
        }
        Some(passed)
    }

    /// Handles the loss of `segments` at once, the lowest of them from offset `first` on; `entered` is true
    /// if this would be a sign of congestion. `mss` is the size that passes.
    pub(super) fn on_lost(
        &mut self,
        now: Time,
        first: u64,
        segments: u32,
        entered: bool,
        mss: u32,
    ) -> ProbeLoss {
        if self.probe_len == 0 || segments == 0 || first > self.probe_start {
            return ProbeLoss::None;
        }
        let len = core::mem::take(&mut self.probe_len);
        if first != self.probe_start || segments > 1 || !entered {
            // Whether or not the probe is among them, nothing is known about its size (RFC 4821 section
            // 7.6.3): it is probed again.
            return ProbeLoss::Unclear;
        }
        self.failed = len;
        if self.is_narrow(mss) {
            self.search_at = now + TRY_AGAIN;
        }
        ProbeLoss::TooLarge
    }
}

impl Subflow {
    /// Handles a router's report that it has dropped the segment that began at `seq`, because packets of more
    /// than `mtu` bytes do not pass: makes the segments smaller, and marks larger ones in flight lost, which
    /// is no sign of congestion. Returns true if anything is lost. A report about a segment that is not in
    /// flight is forged (RFC 5927 section 7.2), and ignored.
    #[cold]
    pub(crate) fn on_too_big(
        &mut self,
        now: Time,
        seq: Seq,
        mtu: u32,
        mut lost: impl FnMut(DataRange, LossReason),
    ) -> bool {
        if !self.state.is_synchronised() || self.state.tcp() == TcpState::PreEstablished {
            return false;
        }
        let offset = offset_near(self.iss, self.board.una(), seq);
        if offset < self.board.una() as i64 || offset >= self.board.nxt() as i64 {
            return false;
        }
        if let Some(mss) = self.path_mtu.on_too_big(now, mtu, self.mss) {
            self.mss = mss;
        }
        for index in 0..self.board.records().len() {
            if self.board.records()[index].len > self.mss && self.board.mark_lost(index) {
                lost(self.board.records()[index].range(), LossReason::TooLarge);
                self.counters.segments_lost += 1;
            }
        }
        self.path_mtu.on_cut();
        let any = self.board.lost_segments() > 0;
        if any {
            self.recovery.force = true;
            self.timer_base = now;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1);

    fn fresh(how: PathMtuDiscovery) -> PathMtu {
        PathMtu::new(how, true, 1400, 40)
    }

    /// Searches on a path that lets `limit` bytes of payload pass; returns the size found and the number of
    /// probes.
    fn search(path: &mut PathMtu, now: Time, mut mss: u32, limit: u32) -> (u32, u32) {
        let mut probes = 0;
        let mut start = 1000;
        while let Some(size) = path.probe_size(now, mss, 1 << 20, 1 << 20) {
            assert!(size > mss && size <= 1400, "{size}");
            path.on_probe_sent(start, size);
            assert_eq!(path.probe_size(now, mss, 1 << 20, 1 << 20), None, "one at a time");
            probes += 1;
            if size <= limit {
                assert_eq!(path.on_acked(now, start + u64::from(size) - 1), None);
                mss = path.on_acked(now, start + u64::from(size)).expect("the probe has passed");
            } else {
                assert_eq!(path.on_lost(now, start, 1, true, mss), ProbeLoss::TooLarge);
            }
            start += 10_000;
            assert!(probes < 30);
        }
        (mss, probes)
    }

    #[test]
    fn a_report_is_believed_down_to_a_floor() {
        let mut path = fresh(PathMtuDiscovery::Icmp);
        assert_eq!(path.on_too_big(START, 1300, 1400), Some(1220));
        assert_eq!(path.on_too_big(START, 1400, 1220), None, "no report makes segments larger");
        assert_eq!(path.on_too_big(START, 68, 1220), Some(472));
        let mut six = PathMtu::new(PathMtuDiscovery::Icmp, false, 1400, 40);
        assert_eq!(six.on_too_big(START, 600, 1400), Some(1180));
        assert_eq!(fresh(PathMtuDiscovery::Off).on_too_big(START, 1300, 1400), None);
    }

    /// `tcp_mtu_to_mss` in net/ipv4/tcp_output.c subtracts the options that the connection uses.
    #[test]
    fn a_segment_without_multipath_options_has_more_payload_on_the_same_path() {
        let mut tcp = PathMtu::new(PathMtuDiscovery::Icmp, true, 1448, 12);
        assert_eq!(tcp.on_too_big(START, 1300, 1448), Some(1248));
        let mut bare = PathMtu::new(PathMtuDiscovery::Icmp, true, 1460, 0);
        assert_eq!(bare.on_too_big(START, 1300, 1460), Some(1260));
        // After a fallback.
        let mut fallen = PathMtu::new(PathMtuDiscovery::Icmp, true, 1420, 40);
        fallen.add_space(28);
        assert_eq!(fallen.on_too_big(START, 1300, 1448), Some(1248));
        assert_eq!(fallen.ceiling, 1448);
    }

    #[test]
    fn a_report_without_a_size_means_the_next_plateau() {
        let mut path = fresh(PathMtuDiscovery::Icmp);
        assert_eq!(path.on_too_big(START, 0, 1400), Some(926));
        assert_eq!(path.on_too_big(START, 0, 926), Some(472));
    }

    #[test]
    fn two_timeouts_of_full_segments_are_suspect() {
        let mut path = fresh(PathMtuDiscovery::Probe);
        assert_eq!(path.on_timeout(START, 1, 1400, 1400), None);
        assert_eq!(path.on_timeout(START, 2, 300, 1400), None, "so short a segment passes everywhere");
        assert_eq!(path.on_timeout(START, 2, 1400, 1400), Some(984));
        assert_eq!(path.on_timeout(START, 3, 984, 984), Some(492));
        assert_eq!(path.on_timeout(START, 4, 492, 492), Some(472));
        assert_eq!(path.on_timeout(START, 5, 472, 472), None);
        assert_eq!(fresh(PathMtuDiscovery::Icmp).on_timeout(START, 2, 1400, 1400), None);
    }

    #[test]
    fn the_search_finds_the_size_that_passes() {
        for limit in (984..=1400).step_by(13).chain([1400]) {
            let mut path = fresh(PathMtuDiscovery::Probe);
            let mss = path.on_timeout(START, 2, 1400, 1400).expect("a suspect");
            let (found, probes) = search(&mut path, START, mss, limit);
            assert!(found <= limit && found + NARROW > limit, "{found} of {limit}");
            assert!(probes <= 7, "{probes}");
        }
    }

    #[test]
    fn after_ten_minutes_it_is_searched_again() {
        let mut path = fresh(PathMtuDiscovery::Probe);
        let mss = path.on_timeout(START, 2, 1400, 1400).expect("a suspect");
        let (found, _) = search(&mut path, START, mss, 1200);
        let later = START + Duration::from_secs(599);
        assert_eq!(path.probe_size(later, found, 1 << 20, 1 << 20), None);
        let (wider, _) = search(&mut path, START + Duration::from_secs(601), found, 1400);
        assert!(wider > 1400 - NARROW, "{wider}");
    }

    #[test]
    fn after_ten_minutes_the_full_size_is_tried_where_routers_tell() {
        let mut path = fresh(PathMtuDiscovery::Icmp);
        let mss = path.on_too_big(START, 1300, 1400).expect("smaller");
        assert_eq!(path.probe_size(START, mss, 1 << 20, 1 << 20), None);
        let later = START + Duration::from_secs(600);
        assert_eq!(path.probe_size(later, mss, 1 << 20, 1 << 20), Some(1400));
        path.on_probe_sent(1000, 1400);
        assert_eq!(path.on_too_big(later, 1300, mss), None);
        path.on_cut();
        assert_eq!(path.probe_size(later, mss, 1 << 20, 1 << 20), None, "the router has reported again");
    }

    #[test]
    fn a_probe_needs_a_window_and_data_after_it() {
        let mut path = fresh(PathMtuDiscovery::Probe);
        let mss = path.on_timeout(START, 2, 1400, 1400).expect("a suspect");
        let window = 11 * u64::from(mss);
        assert_eq!(path.probe_size(START, mss, window - 1, 1 << 20), None);
        assert_eq!(path.probe_size(START, mss, window, 1192 + 4 * 984 - 1), None);
        assert_eq!(path.probe_size(START, mss, window, 1192 + 4 * 984), Some(1192));
    }

    #[test]
    fn a_loss_among_others_is_unclear() {
        for (first, segments, entered) in [(1000, 2, true), (900, 1, true), (1000, 1, false)] {
            let mut path = fresh(PathMtuDiscovery::Probe);
            let mss = path.on_timeout(START, 2, 1400, 1400).expect("a suspect");
            path.on_probe_sent(1000, 1192);
            assert_eq!(path.on_lost(START, first, segments, entered, mss), ProbeLoss::Unclear);
            assert_eq!(path.probe_size(START, mss, 1 << 20, 1 << 20), Some(1192), "it is tried again");
        }
        let mut path = fresh(PathMtuDiscovery::Probe);
        path.on_probe_sent(1000, 1192);
        assert_eq!(path.on_lost(START, 5000, 3, true, 984), ProbeLoss::None);
        assert_eq!(path.on_acked(START, 2192), Some(1192));
    }
}
