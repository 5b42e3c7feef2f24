//! Persists calls, audit events, saved approvals, the inbox and conversations. The only crate that contains SQL.
//!
//! | part | file |
//! |---|---|
//! | opening a file: permissions, migrations, corrupt files | `database.rs`, `migration.rs` |
//! | the writer thread: queue, group commit | `writer.rs`, `queue.rs`, `write.rs` |
//! | writes acknowledged before their commit: the journal, a store in memory | `journal.rs`, `recent.rs` |
//! | queries on read-only connections, a few of them kept | `reader.rs`, `readers.rs` |
//! | calls and their bodies, per-minute rollups | `calls.rs`, `rollup.rs` |
//! | the hash-chained audit log | `audit.rs`, `chain.rs` |
//! | roots that clients supplied | `client_roots.rs` |
//! | saved approvals, inbox items, conversations | `approvals.rs`, `inbox.rs`, `conversations.rs` |
//! | definitions as they were first seen | `baselines.rs` |
//! | answers of models to servers, counted against quotas | `sampling.rs` |
//! | sessions of HTTP servers, to be resumed | `sessions.rs` |
//! | processes that may still end a call | `runs.rs` |
//! | retention: size, age, caller shares | `retention.rs`, `retention/` |
//! | backup and restore of the whole file | `backup.rs` |
//! | the ports of `host` that the store implements | `recorder.rs` (writing), `records.rs` (reading) |
//!
//! Every write goes through the writer thread of the process; several processes may write to one file. Rows record what
//! was decided and never decide anything themselves, except saved approvals, which policy reads.

pub mod approvals;
pub mod audit;
pub mod backup;
mod baselines;
pub mod calls;
mod chain;
mod client_roots;
pub mod conversations;
mod database;
mod error;
pub mod inbox;
mod journal;
mod keys;
mod migration;
mod queue;
pub mod reader;
mod readers;
mod recent;
pub mod recorder;
mod records;
pub mod retention;
pub mod rollup;
mod runs;
pub mod sampling;
mod sessions;
mod settlements;
mod store;
pub mod tasks;
mod unwritten;
mod usage;
mod write;
mod writer;

pub use database::OpenNotice;
pub use error::StoreError;
pub use reader::Reader;
pub use recorder::StoreRecorder;
pub use records::StoreRecords;
pub use store::{Freshness, Store, StoreOptions, StoreUsage, Sync};
pub use toolway_host::time;
pub use uuid::Uuid;
