//! The table of a host's connections.

use anabranch_units::Time;

use crate::connection::{Connection, Timers};
use crate::event::{ConnectionId, SubflowId, SubflowSet};

/// The connections by their IDs. A slot is reused under another ID, so a host that has served a million
/// connections is no larger than one that has served the same number at once.
#[derive(Clone, Default)]
pub(super) struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    live: usize,
}

#[derive(Clone, Default)]
struct Place {
    generation: u32,
    entry: Option<Box<Entry>>,
}

/// A connection, and the bookkeeping of the endpoint for it.
// In this order what each segment looks at lies together.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Entry {
    /// When it is next due in the timer queue.
    pub queued_at: Time,
    /// Whether a timer may be due before `queued_at`.
    pub timers: Timers,
    /// It is in the queue of the connections that may have something to send.
    pub in_ready: bool,
    /// It is in the queue of the connections that have events.
    pub in_eventful: bool,
    /// The application has polled its [`Event::Closed`](crate::event::Event::Closed).
    pub closed_reported: bool,
    /// The subflows with their addresses in the tables of [`Demux`](super::demux::Demux).
    pub demuxed: SubflowSet,
    pub connection: Connection,
}

impl Entry {
    fn new(connection: Connection) -> Entry {
        Entry {
            queued_at: Time::NEVER,
            timers: Timers::Moved,
            in_ready: false,
            in_eventful: false,
            closed_reported: false,
            demuxed: SubflowSet::EMPTY,
            connection,
        }
    }

    /// Notes that the addresses of a subflow are in the tables.
    pub(super) fn note_demuxed(&mut self, id: SubflowId) {
        self.demuxed = self.demuxed.with(id);
    }
}

impl Table {
    /// Returns the ID that the next [`Table::insert`] assigns.
    pub(super) fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&slot) => ConnectionId { slot, generation: self.places[slot as usize].generation },
            None => ConnectionId { slot: self.places.len() as u32, generation: 0 },
        }
    }

    pub(super) fn insert(&mut self, connection: Connection) -> ConnectionId {
        let id = self.next_id();
        if self.free.pop().is_none() {
            self.places.push(Place::default());
        }
        self.places[id.slot as usize].entry = Some(Box::new(Entry::new(connection)));
        self.live += 1;
        id
    }

    #[inline]
    pub(super) fn get(&self, id: ConnectionId) -> Option<&Entry> {
        let place = self.places.get(id.slot as usize)?;
        if place.generation == id.generation { place.entry.as_deref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Entry> {
        let place = self.places.get_mut(id.slot as usize)?;
        if place.generation == id.generation { place.entry.as_deref_mut() } else { None }
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Box<Entry>> {
        self.get(id)?;
        let place = &mut self.places[id.slot as usize];
        // A slot with exhausted generations is never reused.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(id.slot);
        }
        self.live -= 1;
        place.entry.take()
    }

    /// Returns the number of connections.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Returns the IDs of all connections, in the order of their slots.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> + use<'_> {
        self.iter().map(|(id, _)| id)
    }

    /// Returns all connections, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        (0..).zip(&self.places).filter_map(|(slot, place)| {
            let id = ConnectionId { slot, generation: place.generation };
            place.entry.as_deref().map(|entry| (id, &entry.connection))
        })
    }
}
