//! Vaults from outside: real files, real processes, a real keychain.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod choosing;
mod home;
#[cfg(target_os = "linux")]
mod keychain;
#[cfg(target_os = "linux")]
mod process_stories;
mod sealing;
