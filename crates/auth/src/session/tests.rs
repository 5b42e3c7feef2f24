//! Tests of sessions after refusals.

mod refreshing;
mod scene;
mod signing_in;
