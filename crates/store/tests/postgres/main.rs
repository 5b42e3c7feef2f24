//! The stories of `tests/it` that are not about files, on a real Postgres server.
#![expect(clippy::unwrap_used, reason = "setup of a story is part of the test")]

#[path = "../it/audit.rs"]
mod audit;
#[path = "../it/call_days.rs"]
mod call_days;
#[path = "../it/calls.rs"]
mod calls;
mod client_sessions;
#[path = "../it/conversations.rs"]
mod conversations;
mod database;
#[path = "../it/keys.rs"]
mod keys;
mod lease_fixture;
mod members;
#[path = "../it/recorder.rs"]
mod recorder;
#[path = "../it/records.rs"]
mod records;
#[path = "../it/retention.rs"]
mod retention;
#[path = "../it/sampling.rs"]
mod sampling;
#[path = "../it/sessions.rs"]
mod sessions;
#[path = "../it/stage.rs"]
mod stage;
#[path = "../it/tasks.rs"]
mod tasks;
mod unrecorded;

/// The engine of the stories.
const ENGINE: stage::Engine = stage::Engine::Postgres;
