//! What a person should hear about the vault. Nothing is printed here: a surface is handed the value.

use std::{fmt, path::PathBuf, sync::Arc};

/// One thing a person should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A key file was made; this is said once in its life.
    KeyMade {
        /// Where it is.
        path: PathBuf,
    },
    /// There is a keychain, and it is not used.
    KeychainUnused {
        /// Why, as a lower-case fragment.
        because: String,
        /// Where credentials are kept instead.
        instead: String,
    },
    /// Nothing outlives this process.
    OnlyMemory {
        /// Why, as a lower-case fragment.
        because: String,
    },
    /// Two processes may renew one credential at the same time.
    TurnsWithinProcess {
        /// Why, as a lower-case fragment.
        because: String,
    },
}

/// Whoever tells a person. It is called from any thread and must not wait.
pub type Listener = Arc<dyn Fn(Notice) + Send + Sync>;

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyMade { path } => write!(
                f,
                "Credentials are sealed with a new key, {}. Whoever has it and the vault beside it can read them; \
                 set a passphrase if others can read this disk.",
                path.display()
            ),
            Self::KeychainUnused { because, instead } => {
                write!(f, "The keychain is not used: {because}. Credentials are kept in {instead}.")
            }
            Self::OnlyMemory { because } => write!(
                f,
                "CREDENTIALS ARE NOT KEPT: {because}. They are in memory only, and every sign-in is lost when this \
                 program ends."
            ),
            Self::TurnsWithinProcess { because } => write!(
                f,
                "Other processes cannot be told when a credential is renewed: {because}. Two that renew one at the \
                 same time may have to sign in again."
            ),
        }
    }
}
