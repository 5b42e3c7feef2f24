//! Test support: servers that keep the rules and servers that keep none, a host for stories, and what else more than
//! one crate's tests need. Never shipped.

pub mod authorization;
pub mod chance;
#[cfg(target_os = "linux")]
pub mod chromium;
pub mod conformance_server;
pub mod conformance_sign_in;
pub mod conformance_unattended;
pub mod fixture_server;
#[cfg(target_os = "linux")]
pub mod keyring;
pub mod odd;
pub mod secret_scan;
pub mod test_host;
pub mod transcript;
pub mod weighing;
