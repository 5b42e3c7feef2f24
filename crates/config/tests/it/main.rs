//! Tests of the public interface with realistic configuration files.
#![expect(clippy::unwrap_used, reason = "helpers are part of the tests")]

mod cluster;
mod consent;
mod copy;
mod import;
mod import_rules;
mod invalid_entries;
mod load;
mod project_file;
mod robustness;
mod schema;
mod shapes;
mod show;
mod sign_in;
mod trusted_folders;
mod visible;
mod world;
