//! Integration tests of the host, with real processes and third-party servers.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test code")]

mod adopting;
mod answers;
mod approval_table;
mod assistant_table;
mod caller_connections;
mod calling;
mod cancelling;
mod cataloguing;
mod connecting;
mod deciding;
mod drift;
mod drift_files;
mod drift_kinds;
mod embedding;
mod fixtures;
mod inbox;
mod interop;
mod limit_threads;
mod limits;
mod native;
mod observing;
mod outcomes;
mod own_catalog;
mod peers;
mod process;
mod raw_requests;
mod reconnecting;
mod resource_cache;
mod sampling;
mod shutting_down;
mod signing_in;
mod stage;
mod supplied_roots;
mod tasks;
#[cfg(target_os = "linux")]
mod timing;
mod visibility;
