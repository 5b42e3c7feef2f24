//! The keeper, where the system has what it takes: child subreapers, pidfds, `/proc`.
//!
//! The process itself is `role`, with what it knows in `household`; our end of the line to it is `link`; who descends
//! from whom is `census`.

mod census;
mod channel;
mod ending;
mod household;
mod leftovers;
mod link;
mod mark;
mod order;
mod role;

use std::{path::Path, sync::Arc};

use parking_lot::Mutex;

use super::{
    HowEnded, Patience,
    custodian::{Casting, Custodian},
};

pub(super) use role::play_if_cast;
pub(crate) use {
    link::{Link, NotStarted, Ward},
    order::Start,
};

/// The keepers of one custodian: one at a time.
#[derive(Default)]
pub(super) struct Keepers {
    // Held while a keeper starts, so that there is only ever one; nothing awaits under it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    /// Why the last attempt to start a keeper failed.
    failure: Option<String>,
}

/// This process's executable, also where its file was replaced or removed meanwhile.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

// === impl Custodian ===

impl Custodian {
    /// The keeper, started where none runs; `None` where programs are started in the plain way. Waits while it starts.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        match self.casting() {
            Casting::Nobody | Casting::NotLent => None,
            Casting::Lent => self.keepers().link(Path::new(OWN_EXECUTABLE)),
            Casting::Other(executable) => self.keepers().link(executable),
        }
    }

    /// The keeper, if one runs. Does not wait.
    pub(crate) fn running(&self) -> Option<Arc<Link>> {
        self.keepers().state.try_lock()?.running()
    }
}

// === impl Keepers ===

impl Keepers {
    /// Why programs are kept less well than by a keeper, if they are.
    pub(super) fn why_weaker(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    fn link(&self, executable: &Path) -> Option<Arc<Link>> {
        let mut state = self.state.lock();
        if let Some(link) = state.running() {
            return Some(link);
        }
        state.link = None;
        match Link::start(executable) {
            Ok(link) => {
                (state.link, state.failure) = (Some(Arc::new(link)), None);
                state.link.clone()
            }
            Err(error) => {
                tracing::warn!(%error, "the keeper cannot be started; programs are kept less well");
                state.failure = Some(format!("the keeper cannot be started: {error}"));
                None
            }
        }
    }
}

// === impl State ===

impl State {
    fn running(&self) -> Option<Arc<Link>> {
        self.link.as_ref().filter(|link| !link.is_lost()).map(Arc::clone)
    }
}
