//! The integration tests in one program: each program more would compile the same generic code again, and link it.

mod advise;
mod answer;
mod beside;
mod bounds;
mod captures;
mod changes;
mod claims;
mod endpoints;
mod graphs;
mod inspected;
mod joins;
mod links;
mod no_slower;
mod public_reports;
mod race;
mod scatter;
mod scenarios;
mod share;
mod signals;
mod starts;
mod sweep;
mod tariffs;
mod traffic;
