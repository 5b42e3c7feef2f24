//! The engine SQLite: one file, one writer thread, a few connections for queries.
//!
//! | part | file |
//! |---|---|
//! | opening a file: permissions, migrations, corrupt files | `database.rs`, `migration.rs` |
//! | the writer thread, group commit | `writer.rs`, `batch.rs` |
//! | writes acknowledged before their commit: the journal, a store in memory | `journal.rs`, `recent.rs` |
//! | queries on read-only connections, a few of them kept | `reader.rs`, `readers.rs` |
//! | processes that may still end a call | `runs.rs` |
//! | one file for each noun, with its statements | `calls.rs`, `audit.rs`, … |
//! | backup and restore of the whole file | `backup.rs` |

pub mod approvals;
pub mod audit;
pub mod backup;
pub(crate) mod baselines;
pub(crate) mod batch;
pub(crate) mod call_days;
pub mod calls;
pub(crate) mod chain;
pub(crate) mod client_roots;
pub mod conversations;
pub(crate) mod database;
pub mod inbox;
pub(crate) mod journal;
pub(crate) mod keys;
pub(crate) mod migration;
pub(crate) mod reader;
pub(crate) mod readers;
pub(crate) mod recent;
pub mod retention;
pub mod rollup;
pub(crate) mod runs;
pub mod sampling;
pub(crate) mod sessions;
pub(crate) mod settlements;
pub mod tasks;
pub(crate) mod unwritten;
pub(crate) mod usage;
pub(crate) mod writer;
