//! The program, run as a person runs it: the real binary, a home of its own, the expected text in the test.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod arguments;
mod calling;
mod chaos;
mod completion;
mod configuring;
mod controlling;
mod demo;
mod everything;
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
mod keeping_secrets;
mod listing;
mod many;
mod reading;
mod reference;
mod seeing;
mod servers;
mod servers_of_projects;
mod serving;
mod setting_aside;
mod shells;
mod showing;
mod signing_in;
mod signing_in_clients;
mod terminal;
mod timing;
mod world;
