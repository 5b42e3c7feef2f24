//! A vault in an encrypted file in the state directory.
//!
//! All credentials are in one file, which is decrypted and encrypted as a whole ([`format`](self::format) has the
//! details). A process holds the lock of the folder while it reads, changes and writes the file, so that concurrent
//! writers lose nothing. A file that was modified or damaged is an error and is never overwritten.

mod format;
mod key;

use std::{fmt, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task;
use toolway_auth::{
    credential::CredentialKey,
    vault::{Vault, VaultError, VaultLock},
};
use toolway_config::Secret;

use self::{
    format::{FormatError, Sealed, seal},
    key::{KdfParams, KeyError, KeyOrigin, SealingKey},
};
use crate::{
    entries::{Entries, LimitExceeded, MAX_VAULT},
    folder::{FolderError, PrivateFolder, WriteLock},
    key_locks::KeyLocks,
    notice::{Notice, NoticeHandler},
};

/// Stores credentials in an encrypted file.
#[derive(Clone)]
pub struct SealedVault {
    file: Arc<SealedFile>,
    locks: KeyLocks,
}

/// Source of the key of an encrypted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealedWith {
    /// A key file in the same folder, created on first use.
    KeyFile,
    /// A passphrase, stretched with Argon2id.
    Passphrase(Secret),
}

struct SealedFile {
    folder: PrivateFolder,
    with: SealedWith,
    on_notice: NoticeHandler,
    // Nothing awaits under this lock. Deriving a key from a passphrase is slow, so the last one is cached.
    derived: Mutex<Option<(KdfParams, Arc<SealingKey>)>>,
}

/// Whether a folder can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FolderState {
    /// It has credentials, or they can be stored.
    Usable,
    /// It has no credentials and cannot be written, for this reason.
    ReadOnly(String),
}

/// Why an operation failed. The message follows the location of the vault.
#[derive(Debug, thiserror::Error)]
enum SealedError {
    #[error("cannot be used: {0}")]
    Folder(#[from] FolderError),
    #[error("cannot be opened: {0}")]
    Key(#[from] KeyError),
    #[error("cannot be opened: {0}")]
    Format(#[from] FormatError),
    #[error(transparent)]
    LimitExceeded(#[from] LimitExceeded),
}

/// File name of the vault.
const FILE: &str = "credentials";
/// Maximum size of the file, with header and tag.
const MAX_FILE: usize = MAX_VAULT + 1024;

/// Encrypts `content` with a passphrase. The error is text for the user.
pub(crate) fn seal_with_passphrase(passphrase: &Secret, content: Vec<u8>) -> Result<Vec<u8>, String> {
    let sealed = || {
        let params = KdfParams::generate()?;
        let key = SealingKey::of_passphrase(passphrase, &params)?;
        seal(&key, &KeyOrigin::Passphrase(params), content)
    };
    sealed().map_err(|error| error.to_string())
}

/// Decrypts what [`seal_with_passphrase`] returned. The error is text for the user.
pub(crate) fn open_with_passphrase(passphrase: &Secret, sealed: &[u8]) -> Result<Vec<u8>, String> {
    let sealed = Sealed::read(sealed).map_err(|error| error.to_string())?;
    let KeyOrigin::Passphrase(params) = &sealed.origin else { return Err(FormatError::Changed.to_string()) };
    let key = SealingKey::of_passphrase(passphrase, params).map_err(|error| error.to_string())?;
    sealed.open(&key).map_err(|error| error.to_string())
}

// === impl SealedVault ===

impl SealedVault {
    /// The vault in this folder, which is created on the first write.
    pub fn new(folder: impl Into<PathBuf>, with: SealedWith, on_notice: NoticeHandler) -> Self {
        let folder = PrivateFolder::at(folder);
        let locks = KeyLocks::in_folder(folder.file("turns"));
        Self { file: Arc::new(SealedFile { folder, with, on_notice, derived: Mutex::default() }), locks }
    }

    /// Path of the file.
    pub fn path(&self) -> PathBuf {
        self.file.folder.file(FILE)
    }

    /// Checks whether credentials can be stored. A folder that other users can access is an error, so that the operator
    /// fixes it.
    pub(crate) async fn probe(&self) -> Result<FolderState, VaultError> {
        self.act(|file| match file.folder.lock() {
            Ok(_) => Ok(FolderState::Usable),
            // Existing credentials can still be read.
            Err(FolderError::System { .. }) if file.folder.file(FILE).exists() => Ok(FolderState::Usable),
            Err(error @ FolderError::System { .. }) => Ok(FolderState::ReadOnly(error.to_string())),
            Err(error) => Err(error.into()),
        })
        .await
    }

    async fn act<T, A>(&self, act: A) -> Result<T, VaultError>
    where
        T: Send + 'static,
        A: FnOnce(&SealedFile) -> Result<T, SealedError> + Send + 'static,
    {
        let file = Arc::clone(&self.file);
        let problem = match task::spawn_blocking(move || act(&file)).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "cannot be used: the program is shutting down".to_owned(),
        };
        Err(VaultError { place: self.place(), problem })
    }
}

impl Vault for SealedVault {
    fn load<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Option<Secret>, VaultError>> {
        let key = key.clone();
        Box::pin(self.act(move |file| Ok(file.entries()?.0.remove(&key))))
    }

    fn store<'a>(&'a self, key: &'a CredentialKey, credential: Secret) -> BoxFuture<'a, Result<(), VaultError>> {
        let key = key.clone();
        Box::pin(self.act(move |file| file.change(|entries| entries.keep(&key, credential).map(|()| Changed::Yes))))
    }

    fn forget<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<(), VaultError>> {
        let key = key.clone();
        let forget = move |entries: &mut Entries| match entries.0.remove(&key) {
            Some(_) => Ok(Changed::Yes),
            None => Ok(Changed::No),
        };
        Box::pin(self.act(move |file| file.change(forget)))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(CredentialKey, Secret)>, VaultError>> {
        Box::pin(self.act(|file| Ok(file.entries()?.0.into_iter().collect())))
    }

    fn lock<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<VaultLock, VaultError>> {
        Box::pin(self.locks.take(key))
    }

    fn place(&self) -> String {
        self.path().display().to_string()
    }
}

impl fmt::Debug for SealedVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedVault").field("path", &self.path()).finish_non_exhaustive()
    }
}

// === impl SealedFile ===

/// Whether the credentials changed and must be written.
enum Changed {
    Yes,
    No,
}

impl SealedFile {
    /// All credentials; empty if there is no file.
    fn entries(&self) -> Result<Entries, SealedError> {
        Ok(self.read()?.map(|(entries, _)| entries).unwrap_or_default())
    }

    fn read(&self) -> Result<Option<(Entries, KeyOrigin)>, SealedError> {
        let Some(content) = self.folder.read(FILE, MAX_FILE)? else {
            return Ok(None);
        };
        let sealed = Sealed::read(&content)?;
        let opened = sealed.open(&*self.key(&sealed.origin)?)?;
        let entries = Entries::read(&opened).ok_or(FormatError::Changed)?;
        Ok(Some((entries, sealed.origin)))
    }

    /// Reads, changes and writes the file while holding the lock.
    fn change(&self, change: impl FnOnce(&mut Entries) -> Result<Changed, LimitExceeded>) -> Result<(), SealedError> {
        let lock = self.folder.lock()?;
        let read = self.read()?;
        let is_new = read.is_none();
        let (mut entries, origin) = match read {
            Some(read) => read,
            None => (Entries::default(), self.new_origin()?),
        };
        if matches!(change(&mut entries)?, Changed::No) {
            return Ok(());
        }
        if is_new {
            self.create_key(&origin, &lock)?;
        }
        let sealed = seal(&*self.key(&origin)?, &origin, entries.write()?)?;
        Ok(self.folder.replace(&lock, FILE, &sealed)?)
    }

    fn new_origin(&self) -> Result<KeyOrigin, KeyError> {
        Ok(match self.with {
            SealedWith::KeyFile => KeyOrigin::KeyFile,
            SealedWith::Passphrase(_) => KeyOrigin::Passphrase(KdfParams::generate()?),
        })
    }

    /// Creates the key file for a new vault; for an existing vault, a new key would be useless.
    fn create_key(&self, origin: &KeyOrigin, lock: &WriteLock) -> Result<(), KeyError> {
        if *origin == KeyOrigin::KeyFile
            && let Some(path) = SealingKey::create_file(&self.folder, lock)?
        {
            (self.on_notice)(Notice::KeyCreated { path });
        }
        Ok(())
    }

    fn key(&self, origin: &KeyOrigin) -> Result<Arc<SealingKey>, KeyError> {
        match (&self.with, origin) {
            (SealedWith::KeyFile, KeyOrigin::KeyFile) => SealingKey::of_file(&self.folder).map(Arc::new),
            (SealedWith::Passphrase(passphrase), KeyOrigin::Passphrase(params)) => self.derived(passphrase, params),
            (SealedWith::KeyFile, KeyOrigin::Passphrase(_)) => Err(KeyError::PassphraseNeeded),
            (SealedWith::Passphrase(_), KeyOrigin::KeyFile) => Err(KeyError::KeyFileNeeded),
        }
    }

    fn derived(&self, passphrase: &Secret, params: &KdfParams) -> Result<Arc<SealingKey>, KeyError> {
        let mut derived = self.derived.lock();
        if let Some((of, key)) = &*derived
            && of == params
        {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(SealingKey::of_passphrase(passphrase, params)?);
        *derived = Some((params.clone(), Arc::clone(&key)));
        Ok(key)
    }
}
