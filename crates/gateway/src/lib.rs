//! One MCP server made of many: callers, routes, and what a [`Host`](toolway_host::Host) offers as a
//! [`Service`](toolway_wire::down::Service).
//!
//! | module | in one sentence |
//! |---|---|
//! | [`gateway`] | everything behind one address: routes, faces, their end |
//! | [`route`] | which path leads where, and who may go there |
//! | [`access`] | who may come in, and which servers each sees |
//! | [`control`] | the private socket for the operator's own commands |
//! | [`sealing`] | the key that seals handles |
//! | [`records`] | figures and lines about calls and about requests that were turned away |
//! | [`service`] | the whole catalog under public names, or one server under its own |
//!
//! How a caller speaks is [`toolway_wire`]'s business, and what becomes of its call is [`toolway_host`]'s.
#![warn(missing_docs)]

pub mod access;
pub mod control;
pub mod gateway;
pub mod records;
mod reply;
pub mod route;
pub mod sealing;
pub mod service;
mod view;

pub use gateway::{Gateway, GatewayOptions, Oldest};
