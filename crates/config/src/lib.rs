//! What the operator wrote, parsed and validated.
//!
//! | module | in one sentence |
//! |---|---|
//! | [`paths`] | where config, state and cache live |
//! | [`document`] | JSON with comments, and where in its file each value stands |
//! | [`config`] | the whole document: servers by name, and what was odd about it |
//! | [`server`] | one entry of `mcpServers`, and the name made from its label |
//! | [`interpolate`] | `${NAME}` in strings |
//! | [`secret`] | text that cannot print itself |
//! | [`error`] | file, line, key, what was expected |
//!
//! No async, no MCP, no HTTP. Files are read here; the environment comes in as a value.
#![warn(missing_docs)]

pub mod config;
pub mod document;
pub mod error;
pub mod interpolate;
pub mod paths;
pub mod secret;
pub mod server;

pub use config::Config;
pub use error::{ConfigError, Place};
pub use paths::{Environment, Paths};
pub use secret::Secret;
pub use server::{Endpoint, ServerConfig, ServerName};
