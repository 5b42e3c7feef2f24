//! Tests of the vaults with real files, processes and a real keychain.
#![expect(clippy::unwrap_used, reason = "helpers are part of the tests")]

mod choice;
mod home;
#[cfg(target_os = "linux")]
mod keychain;
#[cfg(target_os = "linux")]
mod processes;
mod sealed;
