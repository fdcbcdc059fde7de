//! Script tests: segments written by hand from the RFCs against one endpoint, one test per rule, so
//! that two ends cannot share a mistake. Row IDs (I12, W3, ...) are those of `docs/rfc8684.md`.

mod kit;

mod address;
mod close;
mod dss;
mod handshake;
mod join;
mod pacing;
mod recovery;
mod reinject;
mod tcp;
mod window;
