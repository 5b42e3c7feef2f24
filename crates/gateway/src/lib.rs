//! One MCP server made of many: clients, routes, and a [`Host`](toolway_host::Host) as a
//! [`Service`](toolway_wire::down::Service).
//!
//! | module | in one sentence |
//! |---|---|
//! | [`gateway`] | the gateway on one address: downstreams, periodic checks, shutdown |
//! | [`route`] | the closed list of paths and their guards |
//! | [`access`] | authentication of clients, and the servers each may see |
//! | [`cluster`] | this gateway as a member of a cluster |
//! | [`control`] | the control socket for the operator's commands |
//! | [`sealing`] | the key file that seals handles |
//! | [`records`] | metrics and access log of calls and refused requests |
//! | [`service`] | the catalog under public names, or one server under its own |
//!
//! Transports and protocol eras are in [`toolway_wire`]; finding, deciding and sending a call is in [`toolway_host`].
#![warn(missing_docs)]

pub mod access;
mod client_roots;
pub mod cluster;
pub mod control;
pub mod gateway;
pub mod records;
mod reply;
mod requests;
pub mod route;
pub mod sealing;
pub mod service;
mod small_body;
mod view;

pub use gateway::{Gateway, GatewayOptions, SseTransport};
