//! Selects the vault: the keychain if it is available, else an encrypted file, else memory with a notice.
//!
//! A vault that the operator chose explicitly is never replaced by another one: if it does not work, that is an error.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use toolway_auth::{
    credential::CredentialKey,
    vault::{MemoryVault, Vault, VaultError, VaultLock},
};
use toolway_config::{Environment, Secret, paths::Paths};

use crate::{
    folder::PrivateFolder,
    key_locks::KeyLocks,
    keychain::{KeychainProblem, KeychainVault, SystemKeychain},
    notice::{Notice, NoticeHandler},
    sealed::{FolderState, SealedVault, SealedWith},
};

/// Options of the vault, and what the environment offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaultOptions {
    /// Vault that the operator chose.
    pub choice: VaultChoice,
    /// Encrypts the file instead of a key file.
    pub passphrase: Option<Secret>,
    /// State directory, if there is one.
    pub state: Option<PathBuf>,
    /// Keychain of the session, if there may be one.
    pub keychain: Option<SystemKeychain>,
}

/// Vault that the operator chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VaultChoice {
    /// The keychain if it is available, else an encrypted file, else memory.
    #[default]
    Auto,
    /// Keychain of the operating system.
    Keychain,
    /// Encrypted file in the state directory.
    File,
    /// Memory: credentials are lost when the process exits.
    Memory,
}

/// An unknown vault name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the vault must be `auto`, `keychain`, `file` or `memory`")]
pub struct UnknownVault;

/// A vault that is opened on first use, so that a run without credentials does not access the keychain.
pub struct LazyVault {
    options: VaultOptions,
    on_notice: NoticeHandler,
    opened: OnceCell<Arc<dyn Vault>>,
}

/// Folder of the vault in the state directory.
const FOLDER: &str = "vault";
/// Folder of the lock files in it.
const LOCKS: &str = "turns";

/// Opens the vault; notices for the user go to `on_notice`.
pub async fn open(options: &VaultOptions, on_notice: &NoticeHandler) -> Result<Arc<dyn Vault>, VaultError> {
    match options.choice {
        VaultChoice::Auto => options.best(on_notice).await,
        VaultChoice::Keychain => {
            let refused = |problem: KeychainProblem| failed("the keychain", format!("cannot be used: {problem}"));
            Ok(Arc::new(options.keychain(on_notice).await.map_err(refused)?))
        }
        VaultChoice::File => match options.file(on_notice).await? {
            Ok(vault) => Ok(Arc::new(vault)),
            Err(because) => Err(failed("the state directory", format!("cannot be used: {because}"))),
        },
        VaultChoice::Memory => Ok(Arc::new(MemoryVault::default())),
    }
}

fn failed(place: &str, problem: String) -> VaultError {
    VaultError { place: place.to_owned(), problem }
}

// === impl VaultOptions ===

impl VaultOptions {
    /// Options with what this environment offers, and defaults for the rest.
    pub fn of(environment: &Environment) -> Self {
        let (state, keychain) = (Paths::of(environment).state, SystemKeychain::of(environment));
        Self { state, keychain, ..Self::default() }
    }

    async fn best(&self, on_notice: &NoticeHandler) -> Result<Arc<dyn Vault>, VaultError> {
        let unused = match self.keychain(on_notice).await {
            Ok(vault) => return Ok(Arc::new(vault)),
            Err(KeychainProblem::Absent(_)) => None,
            Err(problem) => Some(problem.to_string()),
        };
        let vault: Arc<dyn Vault> = match self.file(on_notice).await? {
            Ok(vault) => Arc::new(vault),
            Err(because) => {
                on_notice(Notice::OnlyMemory { because });
                Arc::new(MemoryVault::default())
            }
        };
        if let Some(because) = unused {
            on_notice(Notice::KeychainUnused { because, instead: vault.place() });
        }
        Ok(vault)
    }

    async fn keychain(&self, on_notice: &NoticeHandler) -> Result<KeychainVault, KeychainProblem> {
        let Some(keychain) = &self.keychain else {
            return Err(KeychainProblem::Absent("no D-Bus session bus was found".to_owned()));
        };
        keychain.ready().await?;
        Ok(KeychainVault::new(keychain.clone(), self.locks(on_notice)))
    }

    /// The encrypted file, or why nothing can be written.
    async fn file(&self, on_notice: &NoticeHandler) -> Result<Result<SealedVault, String>, VaultError> {
        let Some(state) = &self.state else {
            return Ok(Err(NO_STATE.to_owned()));
        };
        let with = self.passphrase.clone().map_or(SealedWith::KeyFile, SealedWith::Passphrase);
        let vault = SealedVault::new(state.join(FOLDER), with, Arc::clone(on_notice));
        Ok(match vault.probe().await? {
            FolderState::Usable => Ok(vault),
            FolderState::ReadOnly(because) => Err(because),
        })
    }

    /// Locks across processes if there is a common folder, else within this process.
    fn locks(&self, on_notice: &NoticeHandler) -> KeyLocks {
        match self.lock_folder() {
            Ok(folder) => KeyLocks::in_folder(folder.path()),
            Err(because) => {
                on_notice(Notice::LocksWithinProcess { because });
                KeyLocks::within_process()
            }
        }
    }

    fn lock_folder(&self) -> Result<PrivateFolder, String> {
        let outer = PrivateFolder::at(self.state.as_ref().ok_or(NO_STATE)?.join(FOLDER));
        let inner = PrivateFolder::at(outer.file(LOCKS));
        outer.create().and_then(|()| inner.create()).map_err(|error| error.to_string())?;
        Ok(inner)
    }
}

const NO_STATE: &str = "there is no state directory; set `HOME` or `XDG_STATE_HOME`";

// === impl VaultChoice ===

impl FromStr for VaultChoice {
    type Err = UnknownVault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "keychain" => Ok(Self::Keychain),
            "file" => Ok(Self::File),
            "memory" => Ok(Self::Memory),
            _ => Err(UnknownVault),
        }
    }
}

// === impl LazyVault ===

impl LazyVault {
    /// A vault with these options, not opened yet.
    pub fn new(options: VaultOptions, on_notice: NoticeHandler) -> Self {
        Self { options, on_notice, opened: OnceCell::new() }
    }

    /// The vault, opened on first use. After a failure the next call tries again.
    async fn vault(&self) -> Result<&Arc<dyn Vault>, VaultError> {
        self.opened.get_or_try_init(|| open(&self.options, &self.on_notice)).await
    }
}

impl Vault for LazyVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        Box::pin(async move { self.vault().await?.load(key).await })
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(async move { self.vault().await?.store(key, credential).await })
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        Box::pin(async move { self.vault().await?.forget(key).await })
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        Box::pin(async move { self.vault().await?.all().await })
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>> {
        Box::pin(async move { self.vault().await?.lock(key).await })
    }

    fn is_ephemeral(&self) -> bool {
        self.opened.get().is_some_and(|vault| vault.is_ephemeral())
    }

    fn place(&self) -> String {
        self.opened.get().map_or_else(|| "the vault (not opened yet)".to_owned(), |vault| vault.place())
    }
}

impl fmt::Debug for LazyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazyVault").field("options", &self.options).field("opened", &self.opened).finish()
    }
}
