//! The stories of the host, told against real processes and against servers we did not write.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod calling;
mod cancelling;
mod cataloguing;
mod connecting;
mod deciding;
mod embedding;
mod fixtures;
mod interop;
mod lines;
mod peers;
mod process;
mod reconnecting;
mod seeing;
mod shutting_down;
mod signing_in;
mod stage;
#[cfg(target_os = "linux")]
mod timing;
