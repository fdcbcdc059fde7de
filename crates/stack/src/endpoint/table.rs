//! The table of a host's connections.

use crate::connection::Connection;
use crate::event::ConnectionId;

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
    connection: Option<Box<Connection>>,
}

impl Table {
    /// Returns the ID that the next [`Table::insert`] assigns.
    pub(super) fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&slot) => ConnectionId { slot, generation: self.places[slot as usize].generation },
            None => ConnectionId { slot: self.places.len() as u32, generation: 0 },
        }
    }

    pub(super) fn insert(&mut self, connection: Box<Connection>) -> ConnectionId {
        let id = self.next_id();
        if self.free.pop().is_none() {
            self.places.push(Place::default());
        }
        self.places[id.slot as usize].connection = Some(connection);
        self.live += 1;
        id
    }

    #[inline]
    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        let place = self.places.get(id.slot as usize)?;
        if place.generation == id.generation { place.connection.as_deref() } else { None }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let place = self.places.get_mut(id.slot as usize)?;
        if place.generation == id.generation { place.connection.as_deref_mut() } else { None }
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Box<Connection>> {
        self.get(id)?;
        let place = &mut self.places[id.slot as usize];
        // A slot whose generations are exhausted is never reused.
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(id.slot);
        }
        self.live -= 1;
        place.connection.take()
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
            place.connection.as_deref().map(|connection| (id, connection))
        })
    }
}
