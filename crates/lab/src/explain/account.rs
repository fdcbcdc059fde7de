//! The account of one flow of a run.

use anabranch_units::Duration;

use super::cause::{Cause, Parts};
use super::chain::{Charge, chain};
use super::record::{FlowStory, Stories};
use super::story::{Steps, Story, Waits};
use crate::scenario::{Direction, Path};

/// Where the time of one flow went.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// The time from the start of the flow to the in-order delivery of its last delivered byte.
    pub total: Duration,
    /// The parts of that time, from the last to the first.
    pub charges: Vec<Charge>,
    /// The times of all bytes, from the offer of each to its in-order delivery.
    pub bytes: Parts,
    /// The number of bytes.
    pub count: u64,
    /// By subflow: the links of its first segment.
    pub ways: Vec<Option<Vec<usize>>>,
}

impl Account {
    /// Returns the account of the flow with the position `flow` of the run; none if no byte was delivered.
    ///
    /// `paths` are those between its hosts.
    pub(super) fn new(
        stories: &mut Stories,
        flow: usize,
        direction: Direction,
        paths: &[Path],
    ) -> Option<Account> {
        let FlowStory { streams: [client, server], progress, outages } = stories.0.get_mut(flow)?;
        let (data, request) = match direction {
            Direction::Upload => (client.as_mut()?, None),
            Direction::Download => (server.as_mut()?, Some(client.as_mut()?)),
        };
        let begin = request.as_ref().map_or(data.start, |request| request.start);
        if request.is_some() {
            // The server's part of the time begins with its answer.
            data.start = data.offered.reached(0)?;
        }
        data.reject_unaccepted(progress);
        let waits = Waits::new(data, &data.deliveries());
        let last = waits.delivered_bytes().checked_sub(1)?;
        let (charges, end) = chain(data, last, &waits)?;
        let mut charges = outages.attribute(charges, end, data, &waits, paths, &ways(data));
        if let Some(request) = request {
            // The server answers as soon as it has the whole request.
            let mut arrival = Steps::default();
            arrival.push(data.start, u64::MAX);
            request.reject_unaccepted(&arrival);
            let waits = Waits::new(request, &request.deliveries());
            // Later requests of the same connection came after the answer began.
            let last = waits.delivered_until(data.start).checked_sub(1)?;
            let (before, answered) = chain(request, last, &waits)?;
            let before = outages.attribute(before, answered, request, &waits, paths, &ways(request));
            let span = data.start.since(answered);
            if !span.is_zero() {
                charges.push(Charge {
                    cause: Cause::Application,
                    span,
                    subflow: None,
                    overflow: false,
                    outage: None,
                });
            }
            charges.extend(before);
        }
        let (bytes, count) = data.bytes(last + 1);
        Some(Account { total: end.since(begin), charges, bytes, count, ways: ways(data) })
    }

    /// Returns the time of each cause.
    pub(super) fn parts(&self) -> Parts {
        super::chain::sums(&self.charges)
    }
}

fn ways(story: &Story) -> Vec<Option<Vec<usize>>> {
    let mut ways: Vec<Option<Vec<usize>>> = Vec::new();
    for one in &story.transmissions {
        if ways.len() <= one.subflow {
            ways.resize(one.subflow + 1, None);
        }
        if ways[one.subflow].is_none() && one.arrived().is_some() {
            ways[one.subflow] = Some(one.hops.iter().map(|hop| hop.link).collect());
        }
    }
    ways
}
