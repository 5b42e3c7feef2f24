//! Keeps the connections to servers, the catalog of what they offer and the policy, and carries out calls.
//!
//! | module | responsibility |
//! |---|---|
//! | [`host`] | starts, reloads and shuts down; gives access to catalog, server states, calls and events |
//! | [`ports`] | traits that the embedding program implements |
//! | [`connection`] | the connection to one server, from its address to the final close |
//! | [`catalog`] | immutable snapshots of what all servers offer |
//! | [`cluster`] | several gateways over one store: members, leases, takeover |
//! | [`policy`] | decides whether a call may be sent, and limits concurrency |
//! | [`inbox`] | everything that waits for a person |
//! | [`audience`] | text for operators and text for clients |
//! | [`call`] | the stages of a call: find, decide, admit, send, record |
//! | [`record`] | the record of each finished call |
//! | [`task`] | calls that their server continues as tasks |
//! | [`validation`] | arguments and results against the schemas of a tool |
//! | [`event`] | the events of a host |
//! | [`whose_move`] | who can act on a failure |
//! | [`state_file`] | a small file that several processes share |
//! | [`native`] | tools of the embedding program beside those of servers |
//! | [`keeper`] | starts server processes and ends them when this process ends |
//! | [`private_file`] | files that only the current user can read |
//!
//! MCP messages and transports are in [`toolway_wire`]. This crate serves no HTTP, uses no SQL and no terminal, and
//! reads neither the environment nor a home directory: values from either are passed in.
#![warn(missing_docs)]

pub mod audience;
pub mod call;
pub mod catalog;
pub mod cluster;
pub mod connection;
pub mod conversation;
pub mod event;
pub mod host;
pub mod inbox;
pub mod keeper;
pub mod native;
pub mod policy;
pub mod ports;
pub mod private_file;
pub mod record;
pub mod roots;
pub mod sampling;
pub mod state_file;
pub mod tallies;
pub mod task;
pub mod validation;
pub mod whose_move;

pub use host::{Host, HostError, HostOptions, SessionUsers};
pub use ports::HostPorts;
/// Text of others made visible for a person.
pub use toolway_config::visible;
pub use toolway_wire::time;
