//! Tests of the real binary: each runs in its own home directory and compares the output.
#![expect(clippy::unwrap_used, reason = "test helpers are part of the test")]

mod arguments;
mod calling;
mod chaos;
mod completion;
mod configuring;
mod control_socket;
mod demo;
mod diagnosis;
mod exit_codes;
mod filtering;
mod gateway;
mod guides;
mod home;
mod hostile;
mod importing;
mod interop_browser;
mod interop_clients;
mod interop_keychain;
mod invalid_entries;
mod listing;
mod many_servers;
mod project_servers;
mod reading;
mod reference;
mod secrets;
mod server_everything;
mod servers;
mod serving;
mod shells;
mod sign_in_fixture;
mod signing_in;
mod signing_in_clients;
mod terminal;
mod terminal_output;
mod timing;
