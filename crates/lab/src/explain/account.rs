//! The account of one flow of a run.

use anabranch_units::{Duration, Time};

use super::cause::{Cause, Parts};
use super::chain::{Charge, chain};
use super::outage::{Outages, Spell};
use super::record::{FlowStory, Stories};
use super::story::{Steps, Story, Waits};
use crate::scenario::{Direction, Path};

/// Where the time of one flow went.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// The number of its pieces.
    pub pieces: u64,
    /// The sum of their times. The time of a whole flow is from its start to the in-order delivery of its last delivered
    /// byte.
    pub total: Duration,
    /// The parts of that time, of each piece from the last to the first.
    pub charges: Vec<Charge>,
    /// The times of all bytes, from the offer of each to its in-order delivery.
    pub bytes: Parts,
    /// The number of bytes.
    pub count: u64,
}

/// The parts of a flow that are explained.
#[derive(Clone, Debug)]
pub(super) enum Pieces {
    /// The flow, up to its last delivered byte.
    Whole,
    /// Each exchange: the sizes of its request and of its response.
    Exchanges(Vec<(u64, u64)>),
    /// The first exchanges, of this number, with requests of this size. The next request follows a response.
    InTurn(usize, u64),
    /// The last block of each period of sending: the sizes of the periods.
    Bursts(Vec<u64>),
}

/// A piece: the last byte of the data, and of the request for it.
struct Piece {
    last: u64,
    request: Option<u64>,
}

/// A stream, with the delivery of its bytes.
struct Stream<'a> {
    story: &'a Story,
    waits: Waits,
    spells: Vec<Spell>,
    /// By subflow: the position of its path.
    subflows: Vec<Option<usize>>,
}

impl<'a> Stream<'a> {
    fn new(story: &'a Story, outages: &Outages, paths: &[Path]) -> Stream<'a> {
        let subflows = paths_of_subflows(story, paths);
        let waits = Waits::new(story, &story.deliveries());
        let end = waits.delivered_bytes().checked_sub(1).map_or(Time::ZERO, |last| waits.delivered(last));
        let spells = outages.spells(story, &waits, (paths, &subflows), end);
        Stream { story, waits, spells, subflows }
    }

    /// Returns the parts of the time from `begin` until the delivery of a byte, from the last to the first, and the time
    /// of the delivery.
    fn chain(&self, byte: u64, begin: Time) -> Option<(Vec<Charge>, Time)> {
        let (mut charges, end) = chain(self.story, byte, &self.waits, begin)?;
        for charge in &mut charges {
            charge.path = charge.subflow.and_then(|subflow| *self.subflows.get(subflow)?);
        }
        Some((Outages::attribute(charges, end, &self.spells), end))
    }
}

impl Account {
    /// Returns the account of the flow with the position `flow` of the run; none if no byte was delivered.
    ///
    /// `paths` are those between its hosts.
    pub(super) fn new(
        stories: &mut Stories,
        flow: usize,
        direction: Direction,
        pieces: &Pieces,
        paths: &[Path],
    ) -> Option<Account> {
        let FlowStory { streams: [client, server], progress, outages } = stories.0.get_mut(flow)?;
        let (data, mut request) = match direction {
            Direction::Upload => (client.as_mut()?, None),
            Direction::Download => (server.as_mut()?, Some(client.as_mut()?)),
        };
        let begin = request.as_ref().map_or(data.start, |request| request.start);
        if let Some(request) = &mut request {
            // The server's part of the time begins with its answer, once it has the whole request.
            data.start = data.offered.reached(0)?;
            let mut arrival = Steps::default();
            arrival.push(data.start, u64::MAX);
            request.reject_unaccepted(&arrival);
            request.find_copies();
        }
        data.reject_unaccepted(progress);
        data.find_copies();
        let data = Stream::new(data, outages, paths);
        let request = request.map(|request| Stream::new(request, outages, paths));
        let last = data.waits.delivered_bytes().checked_sub(1)?;
        let mut account = Account {
            pieces: 0,
            total: Duration::ZERO,
            charges: Vec::new(),
            bytes: Parts::default(),
            count: 0,
        };
        if matches!(pieces, Pieces::Whole) {
            let (charges, end) = data.chain(last, Time::ZERO)?;
            account.charges = charges;
            if let Some(request) = &request {
                // Later requests of the same connection came after the answer began.
                let last = request.waits.delivered_until(data.story.start).checked_sub(1)?;
                account.add_request(request, (last, Time::ZERO), data.story.start)?;
            }
            (account.pieces, account.total) = (1, end.since(begin));
        }
        for piece in pieces.of(data.story).into_iter().take_while(|piece| piece.last <= last) {
            let offered = data.story.offered.reached(piece.last)?;
            let (charges, end) = data.chain(piece.last, offered)?;
            account.charges.extend(charges);
            let mut begin = offered;
            if let (Some(request), Some(last)) = (&request, piece.request) {
                begin = request.story.offered.reached(last)?;
                account.add_request(request, (last, begin), offered)?;
            }
            account.pieces += 1;
            account.total += end.since(begin);
        }
        (account.bytes, account.count) = data.story.bytes(last + 1);
        Some(account)
    }

    /// Adds the time from `begin` until the delivery of a request with the byte `last`, and then until its answer.
    fn add_request(&mut self, request: &Stream<'_>, (last, begin): (u64, Time), answer: Time) -> Option<()> {
        let (before, answered) = request.chain(last, begin)?;
        let span = answer.since(answered);
        if !span.is_zero() {
            self.charges.push(Charge::new(Cause::Application, span, None));
        }
        self.charges.extend(before);
        Some(())
    }

    /// Returns the time of each cause.
    pub(super) fn parts(&self) -> Parts {
        super::chain::sums(&self.charges)
    }
}

impl Pieces {
    /// Returns the pieces of a flow with this data, in order.
    fn of(&self, data: &Story) -> Vec<Piece> {
        match self {
            Pieces::Whole => Vec::new(),
            Pieces::Exchanges(sizes) => {
                let mut ends = (0, 0);
                let piece = |(request, response): &(u64, u64)| {
                    ends = (ends.0 + request, ends.1 + response);
                    Some(Piece { last: ends.1.checked_sub(1)?, request: Some(ends.0.checked_sub(1)?) })
                };
                sizes.iter().filter_map(piece).collect()
            }
            Pieces::InTurn(count, size) => {
                let ends = (1_u64..).zip(data.offered.sizes().take(*count));
                ends.map(|(number, end)| Piece { last: end - 1, request: Some(number * size - 1) }).collect()
            }
            Pieces::Bursts(sizes) => {
                let mut end = 0;
                let piece = |size: &u64| {
                    end += size;
                    Some(Piece { last: end.checked_sub(1)?, request: None })
                };
                sizes.iter().filter_map(piece).collect()
            }
        }
    }
}

/// Returns the position of the path of each subflow, from the links that its segments crossed.
fn paths_of_subflows(story: &Story, paths: &[Path]) -> Vec<Option<usize>> {
    let mut found: Vec<(Option<usize>, bool)> = Vec::new();
    for one in &story.transmissions {
        if found.len() <= one.subflow {
            found.resize(one.subflow + 1, (None, false));
        }
        let (path, is_whole) = &mut found[one.subflow];
        let arrives = one.arrived().is_some();
        if !*is_whole && (arrives || path.is_none()) {
            let way: Vec<usize> = one.hops.iter().map(|hop| hop.link).collect();
            (*path, *is_whole) = (path_of_way(paths, &way, arrives).or(*path), arrives);
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

/// Returns the path with this route, or the only one with a route that begins so if the way is not `whole`. The data of a
/// class may take the routes of either direction.
fn path_of_way(paths: &[Path], way: &[usize], whole: bool) -> Option<usize> {
    let is_its_way = |route: &Vec<usize>| if whole { route == way } else { route.starts_with(way) };
    let fits = |path: &usize| paths[*path].data.iter().chain(&paths[*path].acks).any(is_its_way);
    let mut fitting = (0..paths.len()).filter(fits);
    let path = fitting.next()?;
    (whole || fitting.next().is_none()).then_some(path)
}
