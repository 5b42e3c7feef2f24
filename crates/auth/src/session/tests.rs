//! Refusals and what follows them.

mod renewing;
mod scene;
mod signing_in;
