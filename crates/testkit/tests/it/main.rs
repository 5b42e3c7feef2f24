//! Clients against misbehaving servers, as real processes and sockets, and credentials that several processes share.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod dialling;
mod hostile;
mod lease_stories;
mod probing;
mod process_refreshes;
mod process_secrets;
mod signed_in;
