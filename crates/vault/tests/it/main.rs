//! Vaults from outside: real files, real processes, a real keychain.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod choosing;
mod home;
#[cfg(target_os = "linux")]
mod keychain;
#[cfg(target_os = "linux")]
mod keyring;
mod process_stories;
mod sealing;
