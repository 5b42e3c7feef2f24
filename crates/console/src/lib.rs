//! The web console: pages, a JSON API and live events, on a listener of its own.
//!
//! | part | file |
//! |---|---|
//! | the listener, its options, the order of checks | `console.rs` |
//! | one-time tokens and signed-in sessions | `access.rs` |
//! | exact `Host` and `Origin` | `guard.rs` |
//! | embedded pages, responses and their headers | `pages.rs`, `reply.rs` |
//! | what the embedding program provides | `backend.rs` |
//! | routes of the API, and their JSON shapes | `api.rs`, `api/`, `view.rs`, `view/` |
//! | live events with resume | `ring.rs`, `feed.rs` |
//! | chat turns, messages that wait, branches, and long results between turns | `turns.rs`, `turns/`, `kept.rs` |
//! | what is attached to a message that is not sent yet | `drafts.rs` |
//! | calls that a person makes on a page, and resources that they follow | `runs.rs`, `watches.rs` |
//! | queries on the store | `records.rs` |
//!
//! Everything a page shows comes from the host, the store and the agent; every call takes the host's path of a call. An
//! approval given here is an answer to the inbox of the process that holds the call.
#![warn(missing_docs)]

mod access;
mod api;
pub mod backend;
mod console;
mod drafts;
mod error;
mod feed;
mod guard;
mod kept;
mod marked;
pub mod pages;
mod records;
mod reply;
mod ring;
mod runs;
mod turns;
mod view;
mod watches;

pub use console::{Console, ConsoleOptions, ConsoleTls, Lifetimes};
pub use records::ConsoleRecords;
