//! Who starts the programs of a host: one keeper for all of them, or, where there is none, the host itself.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, LazyLock, OnceLock},
};

use super::system::Keepers;

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
    keepers: Keepers,
}

/// Whose executable plays the keeper.
pub(super) enum Casting {
    Nobody,
    /// Ours, which is lent.
    Lent,
    /// Ours, once it is lent.
    NotLent,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a keeper"))]
    Other(PathBuf),
}

/// Set when the program has lent its executable.
static LENT: OnceLock<()> = OnceLock::new();
/// The one of this process: becoming a subreaper is for the process as a whole.
static OF_THIS_PROCESS: LazyLock<Custodian> = LazyLock::new(|| Custodian::new(Casting::NotLent));

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
        Self { inner: Arc::new(Inner { casting, keepers: Keepers::default() }) }
    }

    pub(super) fn casting(&self) -> &Casting {
        match &self.inner.casting {
            Casting::NotLent if LENT.get().is_some() => &Casting::Lent,
            casting => casting,
        }
    }

    pub(super) fn keepers(&self) -> &Keepers {
        &self.inner.keepers
    }

    /// What the system lacks comes first: nothing that a program could do helps against that.
    fn why_weaker(&self) -> Option<String> {
        self.keepers().why_weaker().or_else(|| match self.casting() {
            Casting::Nobody => Some("no keeper was asked for".to_owned()),
            Casting::NotLent => Some(
                "this program does not lend its executable to a keeper (`toolway_host::keeper::lend()` in `main`)"
                    .to_owned(),
            ),
            Casting::Lent | Casting::Other(_) => None,
        })
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
