//! MCP messages and transports: every protocol revision and every transport, as client (upstream) and as server
//! (downstream).
//!
//! Modules, in reading order:
//!
//! | module | responsibility |
//! |---|---|
//! | [`json`] | JSON text that is validated once and passed on without parsing |
//! | [`message`] | one JSON-RPC message, typed views of it, and all edits to it |
//! | [`exchange`] | one request and its events up to exactly one outcome, independent of the revision |
//! | [`task`] | work that continues after its exchange has ended |
//! | [`notice`] | notifications outside any exchange |
//! | [`up`] | connections to servers: accents, era probe, transports |
//! | [`down`] | serving clients: accents, sessions, transports |
//! | [`peer`] | connections between the gateways of a cluster |
//! | [`budget`] | the byte budget for what is kept of and for remote parties |
//! | [`cluster_key`] | the secret of several gateways, and what is derived from it |
//! | [`limit`] | bounds on everything a remote party controls |
//! | [`time`] | the calendar: RFC 3339 |
//! | [`error`] | errors, with stable codes |
//!
//! This crate does not know configuration files, catalogs, policies, SQL or a terminal.
#![warn(missing_docs)]

pub mod budget;
pub mod cluster_key;
pub mod down;
pub mod error;
pub mod exchange;
pub mod header;
pub mod json;
pub mod limit;
mod line;
pub mod message;
pub mod notice;
pub mod peer;
mod pieces;
#[cfg(test)]
mod property;
mod quiet;
pub mod revision;
pub mod seal;
pub mod sse;
pub mod task;
pub mod time;
pub mod up;
