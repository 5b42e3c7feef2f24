//! Sign-ins against real servers, good and bad. Each lesson that others had to learn is named where it is shown.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod audience;
mod codes;
mod issuer;
mod limits;
mod principals;
mod redirects;
mod renewing;
mod signing_in;
mod stage;
mod stepping_up;
mod strange_addresses;
