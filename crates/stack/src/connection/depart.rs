//! The departure of a segment, which the subflow, the observer and the driver are notified of.

use super::Connection;
use super::transmit::Poll;
use crate::event::Departure;
use crate::observer::{Observer, SendKind, StackEvent, report};
use crate::segment::Segment;
use crate::seq::DataRange;
use crate::subflow::transmit::Content;

impl Connection {
    /// Returns the number of segments that a departure counts in a turn.
    pub(crate) fn turns_of(&self, sent: &Segment) -> u32 {
        let mss = self.rules.mss;
        if sent.payload_len <= mss { 1 } else { sent.payload_len / mss.max(1) }
    }

    /// Updates the state after a segment was made. `stream_offset` is the start of its payload, if it has
    /// some.
    #[inline]
    pub(super) fn depart<S, O: Observer>(
        &mut self,
        at: usize,
        content: Content,
        kind: SendKind,
        stream_offset: u64,
        poll: &mut Poll<'_, S, O>,
    ) -> Departure {
        let subflow = &mut self.subflows[at];
        let (id, path) = (subflow.id(), subflow.on_sent(content, poll.out));
        let data = DataRange::new(stream_offset, stream_offset + u64::from(poll.out.payload_len));
        let event = StackEvent::Sent { subflow: id, segment: poll.out, kind, data };
        report(poll.observer, poll.now, self.id, &event);
        Departure {
            connection: Some(self.id),
            path,
            stream_offset,
            segment_size: 0,
            scattered: at == 0 && self.scatter.is_on() && poll.out.payload_len > 0,
        }
    }
}
