//! Keeps the connections to servers, the catalog of what they offer, the policy and the one way of a call.
//!
//! | module | in one sentence |
//! |---|---|
//! | [`host`] | starts, reloads, shuts down; hands out catalog, states, calls and events |
//! | [`ports`] | what the embedding program supplies |
//! | [`connection`] | one server, from where it is to the last close |
//! | [`catalog`] | everything all servers offer, at one moment |
//! | [`policy`] | whether a call may go out, as a value |
//! | [`call`] | the way of a call: find, decide, admit, send, record |
//! | [`record`] | what is written down of each call |
//! | [`event`] | the closed list of things that happen |
//! | [`whose_move`] | who can act on a failure |
//! | [`state_file`] | a small file that several processes share |
//! | [`keeper`] | whoever starts programs and lets nothing of them outlive us |
//! | [`private_file`] | files that only the user may read |
//!
//! How MCP travels is [`toolway_wire`]'s business. Nothing here serves HTTP, speaks SQL or knows a terminal, and
//! nothing reads the environment or a home directory: what is needed of either comes in as a value.
#![warn(missing_docs)]

pub mod call;
pub mod catalog;
pub mod connection;
pub mod event;
pub mod host;
pub mod keeper;
pub mod policy;
pub mod ports;
pub mod private_file;
pub mod record;
pub mod state_file;
pub mod whose_move;

pub use host::{Host, HostError, HostOptions};
pub use ports::HostPorts;
