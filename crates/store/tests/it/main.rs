//! Stories about the store, each with a real file unless it says otherwise.
#![expect(clippy::unwrap_used, reason = "setup of a story is part of the test")]

mod audit;
mod backup;
mod budget;
mod calls;
mod conversations;
mod journal;
mod keys;
mod left_behind;
mod load;
mod memory;
mod opening;
mod recorder;
mod records;
mod released_files;
mod retention;
mod sampling;
mod sessions;
mod stage;
mod tasks;
mod writing;
