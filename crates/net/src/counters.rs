//! The counters of a host.

/// The packet counters of a host.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HostCounters {
    /// Packets received from its devices.
    pub received: u64,
    /// Of these, packets that were not TCP, were malformed, or had a wrong checksum.
    pub not_tcp: u64,
    /// Of these, ICMP errors about packets that did not arrive.
    pub icmp_errors: u64,
    /// Of these, pings of the host's addresses (ICMP echo requests).
    pub echo_requests: u64,
    /// Of those, answered ones; at most a thousand per second are.
    pub echo_replies: u64,
    /// Of the received packets, those for an address that is not the host's.
    pub not_for_us: u64,
    /// Packets passed to its devices.
    pub sent: u64,
    /// Packets dropped because one device was full while another was not.
    pub queue_drops: u64,
    /// Segments that could not be written as a packet. Always 0, unless there is a bug.
    pub unwritable: u64,
    /// Connections refused because the accept queue was full.
    pub backlog_overflows: u64,
    /// Connections aborted by the send timeout.
    pub stalled: u64,
    /// Writes that had to wait for memory.
    pub memory_waits: u64,
    /// Packets that one stack of several has read and passed on to another, joins included.
    pub handovers: u64,
    /// Joins dropped because the stack of several to which they were passed on was too slow.
    pub handover_drops: u64,
    /// Joined subflows of this moment with four-tuples of another stack of several, which passes their packets on.
    pub moved_subflows: u64,
}

impl core::ops::AddAssign for HostCounters {
    fn add_assign(&mut self, other: HostCounters) {
        self.received += other.received;
        self.not_tcp += other.not_tcp;
        self.icmp_errors += other.icmp_errors;
        self.echo_requests += other.echo_requests;
        self.echo_replies += other.echo_replies;
        self.not_for_us += other.not_for_us;
        self.sent += other.sent;
        self.queue_drops += other.queue_drops;
        self.unwritable += other.unwritable;
        self.backlog_overflows += other.backlog_overflows;
        self.stalled += other.stalled;
        self.memory_waits += other.memory_waits;
        self.handovers += other.handovers;
        self.handover_drops += other.handover_drops;
        self.moved_subflows += other.moved_subflows;
    }
}
