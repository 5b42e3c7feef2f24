//! Configuration of the operator: read, layered and validated.
//!
//! | module | responsibility |
//! |---|---|
//! | [`paths`] | directories for config, state and cache |
//! | [`pattern`] | names with `*` |
//! | [`peer_address`] | the address at which other gateways reach one |
//! | [`document`] | a file as a tree in which every value knows its line |
//! | [`load`] | finds, reads and merges all configuration sources |
//! | [`layers`] | settings from environment variables and the command line |
//! | [`project`] | the project file: search, ownership checks, allowed keys |
//! | [`consent`] | acceptance of the servers of a project by the user |
//! | [`instructions`] | `TOOLWAY.md` of a project, and whether the user accepted it |
//! | [`config`] | the whole document: servers by name, settings, warnings |
//! | [`server`] | one server as written |
//! | [`settings`] | settings that apply to all servers, each with its origin |
//! | [`gateway`] | settings of the gateway |
//! | [`public_address`] | how clients on other machines reach the gateway |
//! | [`clients`] | settings of single clients of the gateway |
//! | [`cluster`] | settings of a cluster of gateways |
//! | [`limits`] | limits of the gateway on bytes and connections |
//! | [`sign_in`] | settings for signing in to servers |
//! | [`policy`] | mode and rules, as written |
//! | [`trust`] | trust of servers, of their tools, and by folder |
//! | [`store`] | settings of the store |
//! | [`tasks`] | settings of tasks |
//! | [`call_limits`] | limits on the calls of a server or a client |
//! | [`tool_pattern`] | tools of servers by pattern |
//! | [`validation`] | settings of validation against schemas |
//! | [`models`] | models of vendors, settings of the agent |
//! | [`assistants`] | named assistants: model, prompt, servers, approval, budgets |
//! | [`interpolate`] | references in strings, in the syntax of each host |
//! | [`endpoint`] | how a server is reached, with references resolved |
//! | [`import`] | configuration files of other hosts |
//! | [`ownership`] | owner and permissions of a file |
//! | [`file_stamp`] | whether a file has changed |
//! | [`edit`] | edits of a configuration file: one member, the rest of the text unchanged |
//! | [`keychain`] | lookup of secrets by name |
//! | [`secret`] | text that cannot print itself |
//! | [`clear`] | secrets in clear: found, and replaced by references |
//! | [`secret_uses`] | where stored secrets are referred to |
//! | [`visible`] | text of others made visible for a person |
//! | [`show`] | every effective value with its origin, and all problems |
//! | [`schema`] | JSON Schema and reference page |
//! | [`warning`] | problems that do not prevent the use of a file |
//! | [`error`] | errors with file, line, key and expected value |
//!
//! No async, no MCP, no HTTP. This crate reads files; the environment is passed in as a value.
#![warn(missing_docs)]

mod address;
pub mod assistants;
pub mod call_limits;
pub mod clear;
pub mod clients;
pub mod cluster;
pub mod config;
pub mod consent;
pub mod document;
pub mod edit;
pub mod endpoint;
pub mod error;
pub mod file_stamp;
pub mod gateway;
mod header;
mod host_pattern;
pub mod import;
pub mod inbox;
pub mod instructions;
pub mod interpolate;
pub mod keychain;
pub mod layers;
pub mod limits;
pub mod load;
mod mask;
pub mod models;
pub mod ownership;
pub mod paths;
pub mod pattern;
pub mod peer_address;
pub mod policy;
pub mod project;
pub mod public_address;
pub mod roots;
pub mod sampling;
pub mod schema;
pub mod secret;
pub mod secret_uses;
pub mod server;
pub mod settings;
mod shape;
pub mod show;
pub mod sign_in;
pub mod store;
pub mod tasks;
pub mod tool_pattern;
pub mod trust;
pub mod validation;
pub mod visible;
pub mod warning;

pub use address::{is_http_url, is_insecure_http_url};
pub use assistants::{Approval, AssistantBudgets, AssistantConfig};
pub use call_limits::{CallLimit, LimitLevel, ToolLimit};
pub use clients::{Approver, ClientSettings};
pub use cluster::{ClusterSettings, Replicas};
pub use config::Config;
pub use endpoint::Endpoint;
pub use error::{ConfigError, Place};
pub use file_stamp::FileStamp;
pub use gateway::{DefaultLogLevel, GatewayAccess, GatewaySettings};
pub use host_pattern::{HostPattern, InvalidHost, canonical_host};
pub use keychain::{Keychain, NoKeychain};
pub use limits::LimitSettings;
pub use load::{Loaded, Sources, load};
pub use mask::{is_secret_name, looks_like_key};
pub use models::{AgentSettings, ModelConfig, ModelPrice, ModelPriority, Vendor};
pub use paths::{Environment, Paths};
pub use pattern::Pattern;
pub use peer_address::{InvalidPeerAddress, PeerAddress};
pub use policy::{PolicyMode, PolicySettings, ProjectRules, Rule, RuleEffect};
pub use public_address::{PublicUrl, TlsFiles};
pub use roots::{RootError, RootLocation, RootSetting};
pub use sampling::{SamplingLevels, SamplingPermission, SamplingSettings};
pub use secret::{Secret, SecretName};
pub use server::{ServerConfig, ServerName};
pub use settings::{Origin, Prefix, Setting, Settings};
pub use shape::parse_duration;
pub use sign_in::{SignInSettings, VaultKind};
pub use store::{Bodies, StoreLimit, StoreSettings, SyncMode};
pub use tasks::{TaskSettings, TaskTerms};
pub use tool_pattern::{InvalidToolPattern, ToolPattern};
pub use trust::{DriftEffect, FileAccess, Trust, TrustLists, TrustedFolder};
pub use validation::{ArgumentValidation, ResultValidation, ValidationModes, ValidationSettings};
pub use warning::Warning;
