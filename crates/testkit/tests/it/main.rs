//! Servers that keep no rules, as real processes and real sockets, and what becomes of whoever meets them.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod dialling;
mod hostile;
mod probing;
