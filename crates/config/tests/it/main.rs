//! Stories about what operators write, told to the crate as its users see it.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod consenting;
mod copying;
mod describing;
mod importing;
mod loading;
mod setting_aside;
mod showing;
mod signing_in;
mod surviving;
mod translating;
mod world;
