//! The vault that is a sealed file in the state directory.
//!
//! All credentials are one file, opened and sealed as a whole ([`format`](self::format) says how); the lock of the
//! folder is held while one process reads, changes and writes it, so that two that keep different credentials lose
//! none. A file that is not as we left it is an error and is never written over.

mod format;
mod key;

use std::{fmt, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task;
use toolway_auth::{
    credential::CredentialKey,
    vault::{Turn, Vault, VaultError},
};
use toolway_config::Secret;

use self::{
    format::{FormatError, Sealed, seal},
    key::{KeyError, Origin, SealingKey, Stretch},
};
use crate::{
    entries::{Entries, LARGEST_VAULT, TooMuch},
    folder::{FolderError, PrivateFolder, WriteLock},
    notice::{Listener, Notice},
    turns::Turns,
};

/// Keeps credentials in a sealed file.
#[derive(Clone)]
pub struct SealedVault {
    file: Arc<SealedFile>,
    turns: Turns,
}

/// What the key of a sealed vault is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealedWith {
    /// A key file beside it, made on first use.
    KeyFile,
    /// A passphrase.
    Passphrase(Secret),
}

struct SealedFile {
    folder: PrivateFolder,
    with: SealedWith,
    listener: Listener,
    // Nothing awaits under this lock. A key takes a moment to be made from a passphrase, so the last one is kept.
    stretched: Mutex<Option<(Stretch, Arc<SealingKey>)>>,
}

/// What a folder is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Credentials can be kept in it, or are.
    Usable,
    /// Nothing is there and nothing can be written, for this reason.
    ReadOnly(String),
}

/// Why it cannot be done.
#[derive(Debug, thiserror::Error)]
enum SealedError {
    #[error("cannot be used: {0}")]
    Folder(#[from] FolderError),
    #[error("cannot be opened: {0}")]
    Key(#[from] KeyError),
    #[error("cannot be opened: {0}")]
    Format(#[from] FormatError),
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
}

/// The vault's file in its folder.
const FILE: &str = "credentials";
/// The file with all that is around the content.
const LARGEST_FILE: usize = LARGEST_VAULT + 1024;

// === impl SealedVault ===

impl SealedVault {
    /// The vault in this folder, which is made where something has to be written.
    pub fn new(folder: impl Into<PathBuf>, with: SealedWith, listener: Listener) -> Self {
        let folder = PrivateFolder::at(folder);
        let turns = Turns::in_folder(folder.file("turns"));
        Self { file: Arc::new(SealedFile { folder, with, listener, stretched: Mutex::default() }), turns }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.file.folder.file(FILE)
    }

    /// Whether something can be kept here. A place that is not ours alone is an error: it is to be mended, not avoided.
    pub(crate) async fn probe(&self) -> Result<Place, VaultError> {
        self.act(|file| match file.folder.lock() {
            Ok(_) => Ok(Place::Usable),
            // What was kept can still be read.
            Err(FolderError::System { .. }) if file.folder.file(FILE).exists() => Ok(Place::Usable),
            Err(error @ FolderError::System { .. }) => Ok(Place::ReadOnly(error.to_string())),
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
            Err(_) => "cannot be used: the program is ending".to_owned(),
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

    fn turn<'a>(&'a self, key: &'a CredentialKey) -> BoxFuture<'a, Result<Turn, VaultError>> {
        Box::pin(self.turns.take(key))
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

/// Whether there is something to write.
enum Changed {
    Yes,
    No,
}

impl SealedFile {
    /// Everything that is kept; nothing where there is no file.
    fn entries(&self) -> Result<Entries, SealedError> {
        Ok(self.read()?.map(|(entries, _)| entries).unwrap_or_default())
    }

    fn read(&self) -> Result<Option<(Entries, Origin)>, SealedError> {
        let Some(content) = self.folder.read(FILE, LARGEST_FILE)? else {
            return Ok(None);
        };
        let sealed = Sealed::read(&content)?;
        let opened = sealed.open(&*self.key(&sealed.origin)?)?;
        let entries = Entries::read(&opened).ok_or(FormatError::Changed)?;
        Ok(Some((entries, sealed.origin)))
    }

    /// Reads, changes and writes while nobody else does.
    fn change(&self, change: impl FnOnce(&mut Entries) -> Result<Changed, TooMuch>) -> Result<(), SealedError> {
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
            self.make_key(&origin, &lock)?;
        }
        let sealed = seal(&*self.key(&origin)?, &origin, entries.write()?)?;
        Ok(self.folder.replace(&lock, FILE, &sealed)?)
    }

    fn new_origin(&self) -> Result<Origin, KeyError> {
        Ok(match self.with {
            SealedWith::KeyFile => Origin::KeyFile,
            SealedWith::Passphrase(_) => Origin::Passphrase(Stretch::fresh()?),
        })
    }

    /// A key file is made with the first vault only: to a vault that is there, a new one would be of no use.
    fn make_key(&self, origin: &Origin, lock: &WriteLock) -> Result<(), KeyError> {
        if *origin == Origin::KeyFile
            && let Some(path) = SealingKey::make_file(&self.folder, lock)?
        {
            (self.listener)(Notice::KeyMade { path });
        }
        Ok(())
    }

    fn key(&self, origin: &Origin) -> Result<Arc<SealingKey>, KeyError> {
        match (&self.with, origin) {
            (SealedWith::KeyFile, Origin::KeyFile) => SealingKey::of_file(&self.folder).map(Arc::new),
            (SealedWith::Passphrase(passphrase), Origin::Passphrase(stretch)) => self.stretched(passphrase, stretch),
            (SealedWith::KeyFile, Origin::Passphrase(_)) => Err(KeyError::PassphraseNeeded),
            (SealedWith::Passphrase(_), Origin::KeyFile) => Err(KeyError::KeyFileNeeded),
        }
    }

    fn stretched(&self, passphrase: &Secret, stretch: &Stretch) -> Result<Arc<SealingKey>, KeyError> {
        let mut stretched = self.stretched.lock();
        if let Some((of, key)) = &*stretched
            && of == stretch
        {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(SealingKey::of_passphrase(passphrase, stretch)?);
        *stretched = Some((stretch.clone(), Arc::clone(&key)));
        Ok(key)
    }
}
