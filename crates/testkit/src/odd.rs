//! Servers that break the rules, each in one way: real processes ([`line`]) and real sockets ([`http`]).
//!
//! What they say where they do keep the rules is in [`polite`], so that a test sees one oddity at a time.

pub mod http;
pub mod line;
pub mod polite;
