//! The secrets of all servers that a host has resolved, for texts that are not of one server: conversations, and what a model
//! is given.

use std::{collections::VecDeque, path::Path};

use parking_lot::Mutex;
use toolway_config::Secret;

use super::Redactor;

/// Secrets that are remembered; tokens are replaced by newer ones over months.
const MOST: usize = 1_000;

/// The last secrets that were resolved.
#[derive(Debug, Default)]
pub(crate) struct KnownSecrets {
    /// No await under its lock.
    state: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Oldest first.
    secrets: VecDeque<Secret>,
    /// `None`: secrets were added since it was made.
    redactor: Option<Redactor>,
}

impl KnownSecrets {
    /// Remembers secrets.
    pub(crate) fn add(&self, secrets: &[Secret]) {
        let mut known = self.state.lock();
        // A folder that a reference names is a secret in records; a model could not work without it.
        for secret in secrets.iter().filter(|secret| !is_path(secret.expose())) {
            let is_known = known.secrets.iter().any(|known| known.expose() == secret.expose());
            if !is_known {
                known.secrets.push_back(secret.clone());
                known.redactor = None;
            }
        }
        let excess = known.secrets.len().saturating_sub(MOST);
        known.secrets.drain(..excess);
    }

    /// A redactor for all of them.
    pub(crate) fn redactor(&self) -> Redactor {
        let mut known = self.state.lock();
        let Known { secrets, redactor } = &mut *known;
        redactor.get_or_insert_with(|| Redactor::new(secrets.iter().cloned())).clone()
    }
}

/// Whether a text is a path on this machine.
fn is_path(text: &str) -> bool {
    let path = Path::new(text);
    path.is_absolute() && path.exists()
}
