//! Servers that keep no rules, as real processes and real sockets, and what becomes of whoever meets them; and what
//! becomes of credentials that several processes share.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod dialling;
mod hostile;
mod probing;
mod process_renewals;
mod process_secrets;
mod signed_in;
