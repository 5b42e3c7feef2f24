//! Keeps the connections to servers; the catalog of what they offer, and in time the policy and the one way of a call.
//!
//! | module | in one sentence |
//! |---|---|
//! | [`connection`] | from where a server is to a peer that has shaken hands |
//! | [`catalog`] | everything all servers offer, at one moment |
//! | [`state_file`] | a small file that several processes share |
//! | [`keeper`] | whoever starts programs and lets nothing of them outlive us |
//! | [`private_file`] | files that only the user may read |
//!
//! How MCP travels is [`toolway_wire`]'s business. Nothing here serves HTTP, speaks SQL or knows a terminal, and
//! nothing reads the environment or a home directory: what is needed of either comes in as a value.
#![warn(missing_docs)]

pub mod catalog;
pub mod connection;
pub mod keeper;
pub mod private_file;
pub mod state_file;
