//! Opportunistic retransmission, a policy independent of the scheduler.

/// Opportunistic retransmission with penalisation (NSDI 2012), a policy that combines with any scheduler.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OpportunisticRetransmission {
    /// Neither.
    #[default]
    Off,
    /// Reinject the blocking data on the fast subflow.
    Retransmit,
    /// Also halve the window of the slow subflow that blocks.
    RetransmitAndPenalise,
}
