//! Which vault it is: the keychain where it answers, else a sealed file, else memory, and loudly.
//!
//! What an operator asked for by name is not replaced by something else: it works or it is an error.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;
use toolway_auth::{
    credential::CredentialKey,
    vault::{MemoryVault, Turn, Vault, VaultError},
};
use toolway_config::{Environment, Secret, paths::Paths};

use crate::{
    folder::PrivateFolder,
    keychain::{KeychainProblem, KeychainVault, SystemKeychain},
    notice::{Listener, Notice},
    sealed::{Place, SealedVault, SealedWith},
    turns::Turns,
};

/// Where credentials are to be kept, and what is there to keep them with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaultOptions {
    /// What the operator asked for.
    pub wanted: WantedVault,
    /// Seals the file in the place of a key file.
    pub passphrase: Option<Secret>,
    /// The state directory, where there is one.
    pub state: Option<PathBuf>,
    /// The session's keychain, where there may be one.
    pub keychain: Option<SystemKeychain>,
}

/// Which vault an operator asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WantedVault {
    /// The keychain where it answers, else a sealed file, else memory.
    #[default]
    Auto,
    /// The operating system's keychain.
    Keychain,
    /// A sealed file in the state directory.
    File,
    /// Nothing outlives the process.
    Memory,
}

/// A word that names no vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a vault is `auto`, `keychain`, `file` or `memory`")]
pub struct NoSuchVault;

/// A vault that is opened when it is first used: a run that needs no credential asks no keychain.
pub struct LateVault {
    options: VaultOptions,
    listener: Listener,
    opened: OnceCell<Arc<dyn Vault>>,
}

/// Our folder in the state directory.
const FOLDER: &str = "vault";
/// In it, the files of turns.
const TURNS: &str = "turns";

/// Opens the vault that is wanted; what a person should hear goes to the listener.
pub async fn open(options: &VaultOptions, listener: &Listener) -> Result<Arc<dyn Vault>, VaultError> {
    match options.wanted {
        WantedVault::Auto => options.best(listener).await,
        WantedVault::Keychain => {
            let refused = |problem: KeychainProblem| failed("the keychain", format!("cannot be used: {problem}"));
            Ok(Arc::new(options.keychain(listener).await.map_err(refused)?))
        }
        WantedVault::File => match options.file(listener).await? {
            Ok(vault) => Ok(Arc::new(vault)),
            Err(because) => Err(failed("the state directory", format!("cannot be used: {because}"))),
        },
        WantedVault::Memory => Ok(Arc::new(MemoryVault::default())),
    }
}

fn failed(place: &str, problem: String) -> VaultError {
    VaultError { place: place.to_owned(), problem }
}

// === impl VaultOptions ===

impl VaultOptions {
    /// What this environment offers, and no wishes.
    pub fn of(environment: &Environment) -> Self {
        let (state, keychain) = (Paths::of(environment).state, SystemKeychain::of(environment));
        Self { state, keychain, ..Self::default() }
    }

    async fn best(&self, listener: &Listener) -> Result<Arc<dyn Vault>, VaultError> {
        let unused = match self.keychain(listener).await {
            Ok(vault) => return Ok(Arc::new(vault)),
            Err(KeychainProblem::Absent(_)) => None,
            Err(problem) => Some(problem.to_string()),
        };
        let vault: Arc<dyn Vault> = match self.file(listener).await? {
            Ok(vault) => Arc::new(vault),
            Err(because) => {
                listener(Notice::OnlyMemory { because });
                Arc::new(MemoryVault::default())
            }
        };
        if let Some(because) = unused {
            listener(Notice::KeychainUnused { because, instead: vault.place() });
        }
        Ok(vault)
    }

    async fn keychain(&self, listener: &Listener) -> Result<KeychainVault, KeychainProblem> {
        let Some(keychain) = &self.keychain else {
            return Err(KeychainProblem::Absent("no session of a desktop leads to one".to_owned()));
        };
        keychain.ready().await?;
        Ok(KeychainVault::new(keychain.clone(), self.turns(listener)))
    }

    /// The sealed file, or why nothing can be written.
    async fn file(&self, listener: &Listener) -> Result<Result<SealedVault, String>, VaultError> {
        let Some(state) = &self.state else {
            return Ok(Err(NO_STATE.to_owned()));
        };
        let with = self.passphrase.clone().map_or(SealedWith::KeyFile, SealedWith::Passphrase);
        let vault = SealedVault::new(state.join(FOLDER), with, Arc::clone(listener));
        Ok(match vault.probe().await? {
            Place::Usable => Ok(vault),
            Place::ReadOnly(because) => Err(because),
        })
    }

    /// Among processes where they have a folder in common.
    fn turns(&self, listener: &Listener) -> Turns {
        match self.folder_of_turns() {
            Ok(folder) => Turns::in_folder(folder.path()),
            Err(because) => {
                listener(Notice::TurnsWithinProcess { because });
                Turns::within_process()
            }
        }
    }

    fn folder_of_turns(&self) -> Result<PrivateFolder, String> {
        let outer = PrivateFolder::at(self.state.as_ref().ok_or(NO_STATE)?.join(FOLDER));
        let inner = PrivateFolder::at(outer.file(TURNS));
        outer.make().and_then(|()| inner.make()).map_err(|error| error.to_string())?;
        Ok(inner)
    }
}

const NO_STATE: &str = "the environment names no home, so there is no state directory";

// === impl WantedVault ===

impl FromStr for WantedVault {
    type Err = NoSuchVault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "keychain" => Ok(Self::Keychain),
            "file" => Ok(Self::File),
            "memory" => Ok(Self::Memory),
            _ => Err(NoSuchVault),
        }
    }
}

// === impl LateVault ===

impl LateVault {
    /// A vault with these options, not yet opened.
    pub fn new(options: VaultOptions, listener: Listener) -> Self {
        Self { options, listener, opened: OnceCell::new() }
    }

    /// The vault, opened by whoever comes first. One that could not be opened is tried again.
    async fn vault(&self) -> Result<&Arc<dyn Vault>, VaultError> {
        self.opened.get_or_try_init(|| open(&self.options, &self.listener)).await
    }
}

impl Vault for LateVault {
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

    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>> {
        Box::pin(async move { self.vault().await?.turn(key).await })
    }

    fn forgets(&self) -> bool {
        self.opened.get().is_some_and(|vault| vault.forgets())
    }

    fn place(&self) -> String {
        self.opened.get().map_or_else(|| "a vault that is not opened yet".to_owned(), |vault| vault.place())
    }
}

impl fmt::Debug for LateVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateVault").field("options", &self.options).field("opened", &self.opened).finish()
    }
}
