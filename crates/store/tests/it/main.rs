//! Stories about the store, each with a real file unless it says otherwise. Those that are not about files run on Postgres
//! too: `tests/postgres`.
#![expect(clippy::unwrap_used, reason = "setup of a story is part of the test")]

mod audit;
mod backup;
mod budget;
mod call_days;
mod calls;
mod conversations;
mod definitions;
mod journal;
mod keys;
mod left_behind;
mod load;
mod memory;
mod opening;
mod recorder;
mod recorder_on_file;
mod records;
mod released_files;
mod retention;
mod sampling;
mod sessions;
mod stage;
mod tasks;
mod writing;

/// The engine of the stories.
const ENGINE: stage::Engine = stage::Engine::Sqlite;
