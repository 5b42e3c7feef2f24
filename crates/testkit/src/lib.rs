//! Test support: servers that keep no rules, and what else more than one crate's tests need. Never shipped.

pub mod odd;
