//! Servers that break one rule each: real processes ([`stdio`]) and real sockets ([`http`]).
//!
//! [`compliant`] supplies their correct answers, so that a test sees one oddity at a time.

pub mod compliant;
pub mod http;
pub mod stdio;
