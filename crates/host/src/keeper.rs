//! One keeper for all programs of a host: nothing that was started outlives us, however we end.
//!
//! The keeper is our own executable in another role: a small process that starts the servers, adopts whatever they
//! leave behind, and ends all of it when a server is let go or when we are gone. This file is the door: who lends an
//! executable, and what custody there is. The process itself is `role`, with what it knows in `household`; our end of
//! the line to it is `link`; who descends from whom is `census`.
//!
//! Only Linux has what this needs (child subreapers, pidfds, `/proc`). Elsewhere programs are started in the plain
//! way, and [`Custodian::custody`] says so.

#[cfg(target_os = "linux")]
mod census;
#[cfg(target_os = "linux")]
mod channel;
mod custodian;
#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod household;
mod how_ended;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(target_os = "linux")]
mod order;
mod patience;
#[cfg(target_os = "linux")]
mod role;

pub use custodian::{Custodian, Custody};
pub use patience::Patience;

pub(crate) use how_ended::HowEnded;
#[cfg(target_os = "linux")]
pub(crate) use {
    link::{Link, NotStarted, Ward},
    order::Start,
};

/// Lends this program's executable to the keeper: the first statement of `main`.
///
/// In the ordinary role it returns at once, and from then on [`Custodian::default`] starts programs through a keeper.
/// In the keeper's role it keeps, and ends the process. Where it stands later than the first statement, what comes
/// before it happens in the keeper too.
///
/// A program that lends its executable becomes a child subreaper when its first server is started: what its other
/// children leave behind becomes its own child too, instead of process 1's.
pub fn lend() {
    #[cfg(target_os = "linux")]
    {
        role::play_if_cast();
        custodian::lent();
    }
}
