//! Notices for the user about the vault. Nothing is printed here; the caller gets the values.

use std::{fmt, path::PathBuf, sync::Arc};

/// A notice for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A key file was created; sent once per key file.
    KeyCreated {
        /// Path of the key file.
        path: PathBuf,
    },
    /// There is a keychain, but it cannot be used.
    KeychainUnused {
        /// Reason, as a lower-case fragment.
        because: String,
        /// Location where credentials are stored instead.
        instead: String,
    },
    /// Credentials are lost when the process exits.
    OnlyMemory {
        /// Reason, as a lower-case fragment.
        because: String,
    },
    /// Locks do not work across processes, so two processes may refresh one credential at the same time.
    LocksWithinProcess {
        /// Reason, as a lower-case fragment.
        because: String,
    },
}

/// Receives notices. Called from any thread; must not block.
pub type NoticeHandler = Arc<dyn Fn(Notice) + Send + Sync>;

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyCreated { path } => write!(
                f,
                "Credentials are encrypted with a new key file, `{}`. A copy of this file and of the vault is enough to \
                 read them; set `TOOLWAY_VAULT_PASSPHRASE` if other users can read this disk.",
                path.display()
            ),
            Self::KeychainUnused { because, instead } => {
                write!(f, "The keychain is not used: {because}. Credentials are stored in {instead}.")
            }
            Self::OnlyMemory { because } => write!(
                f,
                "Credentials are not stored: {because}. They are in memory only, and every sign-in is lost when this \
                 program exits."
            ),
            Self::LocksWithinProcess { because } => write!(
                f,
                "Token refresh is not coordinated with other processes: {because}. If two processes refresh the same \
                 token at the same time, you may have to sign in again."
            ),
        }
    }
}
