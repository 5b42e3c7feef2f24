//! Who starts the programs of a host: one keeper for all of them, or, where there is none, the host itself.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock, OnceLock},
};

use parking_lot::Mutex;

#[cfg(target_os = "linux")]
use super::Link;

/// Starts programs. Cloning is cheap; every clone has the same keeper.
#[derive(Clone)]
pub struct Custodian {
    inner: Arc<Inner>,
}

/// How well programs are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Custody {
    /// By a keeper: nothing of them outlives us for more than two seconds, however we end.
    Kept,
    /// By us alone: what hides in a session of its own, and everything when we are killed, may stay.
    Weaker {
        /// As a sentence without a full stop.
        why: String,
    },
}

struct Inner {
    casting: Casting,
    // Held while a keeper starts, so that there is only ever one; nothing awaits under it.
    state: Mutex<State>,
}

/// Whose executable plays the keeper.
enum Casting {
    Nobody,
    /// Ours, once it is lent.
    Lent,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a keeper"))]
    Other(PathBuf),
}

#[derive(Default)]
struct State {
    #[cfg(target_os = "linux")]
    link: Option<Arc<Link>>,
    /// Why the last attempt to start a keeper failed.
    failure: Option<String>,
}

/// Set when the program has lent its executable.
static LENT: OnceLock<()> = OnceLock::new();
/// The one of this process: becoming a subreaper is for the process as a whole.
static OF_THIS_PROCESS: LazyLock<Custodian> = LazyLock::new(|| Custodian::new(Casting::Lent));

#[cfg(target_os = "linux")]
pub(super) fn lent() {
    LENT.get_or_init(|| ());
}

// === impl Custodian ===

impl Custodian {
    /// No keeper: programs are started in the plain way.
    pub fn nobody() -> Self {
        Self::new(Casting::Nobody)
    }

    /// Another executable plays the keeper, for a program that has no `main` of its own. It must call
    /// [`lend`](super::lend) first of all.
    pub fn played_by(executable: impl Into<PathBuf>) -> Self {
        Self::new(Casting::Other(executable.into()))
    }

    /// How well programs are kept, as far as is known before the next one is started.
    pub fn custody(&self) -> Custody {
        match self.why_weaker() {
            Some(why) => Custody::Weaker { why },
            None => Custody::Kept,
        }
    }

    fn new(casting: Casting) -> Self {
        Self { inner: Arc::new(Inner { casting, state: Mutex::default() }) }
    }

    fn why_weaker(&self) -> Option<String> {
        if !cfg!(target_os = "linux") {
            return Some("this system has no way to keep the descendants of a program together".to_owned());
        }
        match &self.inner.casting {
            Casting::Nobody => Some("no keeper was asked for".to_owned()),
            Casting::Lent if LENT.get().is_none() => Some(
                "this program does not lend its executable to a keeper (`toolway_host::keeper::lend()` in `main`)"
                    .to_owned(),
            ),
            Casting::Lent | Casting::Other(_) => self.inner.state.lock().failure.clone(),
        }
    }
}

#[cfg(target_os = "linux")]
impl Custodian {
    /// The keeper, started where none runs; `None` where programs are started in the plain way. Waits while it starts.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        let executable = match &self.inner.casting {
            Casting::Lent if LENT.get().is_some() => std::path::Path::new("/proc/self/exe"),
            Casting::Nobody | Casting::Lent => return None,
            Casting::Other(executable) => executable,
        };
        let mut state = self.inner.state.lock();
        if let Some(link) = state.link.as_ref().filter(|link| !link.is_lost()) {
            return Some(Arc::clone(link));
        }
        state.link = None;
        match Link::start(executable) {
            Ok(link) => {
                let link = Arc::new(link);
                (state.link, state.failure) = (Some(Arc::clone(&link)), None);
                Some(link)
            }
            Err(error) => {
                tracing::warn!(%error, "the keeper cannot be started; programs are kept less well");
                state.failure = Some(format!("the keeper cannot be started: {error}"));
                None
            }
        }
    }

    /// The keeper, if one runs. Does not wait.
    pub(crate) fn running(&self) -> Option<Arc<Link>> {
        let state = self.inner.state.try_lock()?;
        state.link.as_ref().filter(|link| !link.is_lost()).map(Arc::clone)
    }
}

/// The one of this process, with the executable that the program has lent.
impl Default for Custodian {
    fn default() -> Self {
        OF_THIS_PROCESS.clone()
    }
}

impl fmt::Debug for Custodian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custodian").field("custody", &self.custody()).finish_non_exhaustive()
    }
}
