//! Persists calls, audit events, saved approvals, the inbox and conversations. The only crate that contains SQL.
//!
//! | part | file |
//! |---|---|
//! | the handle of other crates | `store.rs` |
//! | a connection for queries, of either engine | `reader.rs` |
//! | the writes of both, and the queue in which they wait for a commit | `write.rs`, `queue.rs` |
//! | the engine SQLite, with all its statements | `sqlite.rs`, `sqlite/` |
//! | the engine Postgres, with all its statements | `postgres.rs`, `postgres/` |
//! | the ports of `host` that the store implements | `recorder.rs` (writing), `records.rs` (reading) |
//!
//! Every write goes through the writer thread of the process; several processes may write to one file. Rows record what
//! was decided and never decide anything themselves, except saved approvals, which policy reads.

mod error;
mod postgres;
mod queue;
pub mod reader;
pub mod recorder;
mod records;
mod sqlite;
mod store;
mod write;

pub use error::StoreError;
use postgres::{PostgresEngine, PostgresReader};
pub use reader::Reader;
pub use recorder::StoreRecorder;
pub use records::StoreRecords;
pub use sqlite::{
    approvals, audit, backup, calls, conversations, database::OpenNotice, inbox, retention, rollup, sampling, tasks,
};
use sqlite::{
    baselines, batch, call_days, chain, client_roots, database, journal, keys, migration, reader::SqliteReader,
    readers, recent, runs, sessions, settlements, unwritten, usage, writer,
};
pub use store::{Freshness, RegisteredBy, Store, StoreOptions, StoreUsage, Sync};
pub use toolway_host::time;
pub use uuid::Uuid;
