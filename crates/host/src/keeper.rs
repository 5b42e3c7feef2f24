//! One keeper for all programs of a host: nothing that was started outlives us, however we end.
//!
//! The keeper is our own executable in another role: a small process that starts the servers, adopts whatever they
//! leave behind, and ends all of it when a server is let go or when we are gone. This file is the door: who lends an
//! executable, and what custody there is.
//!
//! Only Linux has what this needs, and all of it is in `linux`. What other systems have instead is in `elsewhere`:
//! nothing, and a sentence for [`Custodian::custody`].

mod custodian;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod how_ended;
#[cfg(target_os = "linux")]
mod linux;
mod patience;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

pub use custodian::{Custodian, Custody};
pub use patience::Patience;

pub use how_ended::HowEnded;
#[cfg(target_os = "linux")]
pub(crate) use linux::{Link, NotStarted, Start, Ward};

/// Lends this program's executable to the keeper: the first statement of `main`.
///
/// In the ordinary role it returns at once, and from then on [`Custodian::default`] starts programs through a keeper.
/// In the keeper's role it keeps, and ends the process. Where it stands later than the first statement, what comes
/// before it happens in the keeper too. Where the system has no keeper, it does nothing.
///
/// A program that lends its executable becomes a child subreaper when its first server is started: what its other
/// children leave behind becomes its own child too, instead of process 1's.
pub fn lend() {
    system::play_if_cast();
    custodian::lent();
}
