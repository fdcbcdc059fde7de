//! The peer's knowledge of the receiving half: the data acknowledgements and windows sent.

use super::recv_state::RecvState;

/// The last data acknowledgement and window sent to the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Advertised {
    /// The last data acknowledgement.
    data_ack: u64,
    /// The right edge of the window sent with it.
    edge: u64,
    /// The highest data acknowledgement, without the end of the stream.
    highest: u64,
    /// The window after that, as advertised by the last segment.
    window: u64,
}

impl Advertised {
    /// True if another data acknowledgement would contain nothing new.
    pub(super) fn is_current(&self, recv: &RecvState) -> bool {
        self.data_ack == recv.ack_offset() && self.edge >= recv.wanted_edge()
    }

    /// Records a data acknowledgement up to `data_ack`, with a window that ends at `edge`.
    #[inline]
    pub(super) fn on_data_ack(&mut self, data_ack: u64, edge: u64) {
        self.data_ack = data_ack;
        self.edge = edge;
    }

    /// Returns the window after the highest data acknowledgement.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Records a segment that acknowledges everything before `acked`, with a window that ends at `edge`.
    /// Returns the window after the highest acknowledgement if it is larger than before.
    #[inline]
    pub(super) fn show(&mut self, acked: u64, edge: u64) -> Option<u64> {
        self.highest = self.highest.max(acked);
        let window = edge - self.highest;
        let grown = window > self.window;
        self.window = window;
        grown.then_some(window)
    }
}
