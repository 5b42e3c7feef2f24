//! Test support: servers that follow the specification and servers that do not, a test host, and other helpers that
//! tests of several crates need. Never shipped.

pub mod authorization;
#[cfg(target_os = "linux")]
pub mod chromium;
pub mod conformance_server;
pub mod conformance_sign_in;
pub mod conformance_unattended;
pub mod direct_peer;
pub mod effects;
pub mod fixture_server;
pub mod hoarder;
#[cfg(target_os = "linux")]
pub mod keyring;
pub mod lease_stories;
pub mod odd;
#[cfg(target_os = "linux")]
pub mod postgres;
pub mod process_memory;
pub mod secret_scan;
pub mod seeded_random;
pub mod simulated_store;
pub mod test_host;
pub mod transcript;
pub mod vendor;
pub mod witness;
