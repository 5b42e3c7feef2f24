//! Stories of the console: a real listener, raw HTTP, real servers, a scripted model and a store in memory.
#![expect(clippy::unwrap_used, reason = "setup of a story is part of the test")]

mod calls;
mod chat;
mod documented;
mod events;
mod guards;
mod hostile;
mod inbox;
mod offers;
mod runs;
mod servers;
mod signing_in;
mod stage;
