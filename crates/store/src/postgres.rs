//! The engine Postgres: one database, several processes and machines.
//!
//! | part | file |
//! |---|---|
//! | URL, TLS, connections, their runtime | `database.rs` |
//! | what the handle of other crates holds | `engine.rs` |
//! | forward-only changes of the schema, under an advisory lock | `migration.rs` |
//! | the writer thread: everything that waits becomes one transaction | `writer.rs`, `batch.rs` |
//! | statements that are sent without waiting for each other | `pipeline.rs` |
//! | processes that may still end a call, by a lease | `runs.rs`, `registration.rs` |
//! | several gateways: members, leases, sessions of clients | `members.rs`, `client_sessions.rs` |
//! | what is removed because of its age | `retention.rs` |
//! | one file for each noun, with its statements | `calls.rs`, `audit.rs`, … |
//!
//! A write is acknowledged by its commit, never before. What was decided is a row; only saved approvals decide.

mod approvals;
mod audit;
mod baselines;
mod batch;
mod call_days;
mod calls;
mod client_roots;
mod client_sessions;
mod conversations;
mod database;
mod engine;
mod inbox;
mod keys;
mod members;
mod migration;
mod pipeline;
mod reader;
mod registration;
mod retention;
mod rollup;
mod runs;
mod sampling;
mod sessions;
mod settlements;
mod tasks;
mod writer;

pub(crate) use engine::PostgresEngine;
pub(crate) use reader::PostgresReader;
