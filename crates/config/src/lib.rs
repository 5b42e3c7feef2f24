//! What the operator wrote, parsed, layered and validated.
//!
//! | module | in one sentence |
//! |---|---|
//! | [`paths`] | where config, state and cache live |
//! | [`document`] | a file as a tree in which every value knows its line |
//! | [`load`] | everything the operator wrote, found, read and put together |
//! | [`layers`] | what the environment and the command line say |
//! | [`project`] | a project's own file: where, whose, and what it may say |
//! | [`consent`] | what a person is asked before a project's server is used |
//! | [`config`] | the whole document: servers by name, settings, and what was odd about it |
//! | [`server`] | one server as it was written |
//! | [`settings`] | what holds for all servers, each value with where it came from |
//! | [`gateway`] | who may come in to the gateway, and where it listens |
//! | [`sign_in`] | where credentials for servers are kept, and who we are to strangers |
//! | [`interpolate`] | references in texts, in the dialects of all hosts |
//! | [`endpoint`] | how a server is reached now, references put in |
//! | [`import`] | server lists written for other hosts |
//! | [`ownership`] | whose a file is, and who else may write it |
//! | [`edit`] | changes to a file of ours: one member, and nothing else of the text |
//! | [`keychain`] | where secrets are asked for by name |
//! | [`secret`] | text that cannot print itself |
//! | [`show`] | every value and where it came from, and what is wrong with it all |
//! | [`schema`] | the document described for editors and for people |
//! | [`warning`] | what was odd about a file, although it can be used |
//! | [`error`] | file, line, key, what was expected |
//!
//! No async, no MCP, no HTTP. Files are read here; the environment comes in as a value.
#![warn(missing_docs)]

mod address;
pub mod config;
pub mod consent;
pub mod document;
pub mod edit;
pub mod endpoint;
pub mod error;
pub mod gateway;
mod header;
pub mod import;
pub mod interpolate;
pub mod keychain;
pub mod layers;
pub mod load;
mod mask;
pub mod ownership;
pub mod paths;
pub mod project;
pub mod schema;
pub mod secret;
pub mod server;
pub mod settings;
mod shape;
pub mod show;
pub mod sign_in;
pub mod warning;

pub use address::is_web_address;
pub use config::Config;
pub use endpoint::Endpoint;
pub use error::{ConfigError, Place};
pub use gateway::{GatewayAccess, GatewaySettings, UsualLogs};
pub use keychain::{Keychain, NoKeychain};
pub use load::{Loaded, Sources, load};
pub use mask::names_secret;
pub use paths::{Environment, Paths};
pub use secret::Secret;
pub use server::{ServerConfig, ServerName};
pub use settings::{Origin, Prefix, Setting, Settings};
pub use shape::read_time;
pub use sign_in::{SignInSettings, VaultKind};
pub use warning::Warning;
