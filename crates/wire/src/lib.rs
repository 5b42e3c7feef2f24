//! MCP messages and the ways they travel.
#![warn(missing_docs)]

pub mod error;
pub mod exchange;
pub mod json;
pub mod limit;
pub mod message;
pub mod revision;
