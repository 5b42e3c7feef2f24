//! MCP messages and the ways they travel: every revision, every transport, both faces.
//!
//! The way of a message, in reading order:
//!
//! | module | in one sentence |
//! |---|---|
//! | [`json`] | text that was checked once and is carried unread |
//! | [`message`] | one JSON-RPC message, views of it, and the only edits |
//! | [`exchange`] | one request and everything until its one end, without a year |
//! | [`task`] | a request that goes on after its exchange |
//! | [`notice`] | what happens outside any exchange |
//! | [`up`] | a server as we reach it: the accents, the probe, the transports |
//! | [`down`] | a service as others reach it: the same, the other way round |
//! | [`limit`] | the bounds on strangers |
//! | [`error`] | what goes wrong, with stable words |
//!
//! Nothing here knows configuration files, catalogs, policies, SQL or a terminal.
#![warn(missing_docs)]

pub mod down;
pub mod error;
pub mod exchange;
pub mod header;
pub mod json;
pub mod limit;
mod line;
pub mod message;
pub mod notice;
mod pieces;
#[cfg(test)]
mod property;
mod quiet;
pub mod revision;
pub mod seal;
pub mod sse;
pub mod task;
pub mod up;
