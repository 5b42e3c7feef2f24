//! Roots as a fence, for programs that embed the host and access files on behalf of a server or a model.
//!
//! A path is looked up below a handle of its root, one component after the other, by the operating system or by `cap-std`.
//! So `..`, symbolic links and a folder that is replaced in between cannot lead outside. [`Roots::contains`] and
//! [`Roots::check`] say what is so now; only what [`Roots::read`], [`Roots::write`] and [`Roots::list`] return is certain.

use std::{
    io::{self, ErrorKind, Read, Write},
    path::{Component, Path, PathBuf},
};

#[cfg(unix)]
use cap_std::fs::OpenOptionsExt;
use cap_std::{
    ambient_authority,
    fs::{Dir, File, OpenOptions},
};
#[cfg(unix)]
use rustix::fs::OFlags;
use url::Url;

/// Folders of this machine, and the only way to the files in them.
#[derive(Debug)]
pub struct Roots {
    folders: Vec<Folder>,
}

#[derive(Debug)]
struct Folder {
    /// The path as given, and with symbolic links resolved: both may be written in a URI.
    paths: [PathBuf; 2],
    handle: Dir,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file is read.
    Read,
    /// A file is written, or created in a folder that exists.
    Write,
    /// A folder is listed.
    List,
}

/// A file or folder in a listed folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootEntry {
    /// URI of the entry.
    pub uri: String,
    /// Whether it is a folder; `false` for a symbolic link.
    pub is_folder: bool,
}

/// Why a file was not accessed.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// Not a `file:` URI of this machine with a plain absolute path.
    #[error("`{0}` is not a `file:` URI of this machine")]
    NotAFile(String),
    /// Outside all roots, or a symbolic link leads outside.
    #[error("`{0}` is not within the roots")]
    Outside(String),
    /// A folder, a device or the like where a file is expected, or the other way around.
    #[error("`{0}` is of another kind than the operation needs")]
    WrongKind(String),
    /// More bytes or entries than are read at once.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// The operating system refused.
    #[error("`{uri}`: {source}")]
    Io {
        /// The URI.
        uri: String,
        /// The error.
        source: io::Error,
    },
}

/// Most bytes of a file that is read.
pub const MAX_FILE: u64 = 64 * 1024 * 1024;
/// Most entries of a folder that is listed.
pub const MAX_ENTRIES: usize = 10_000;

// === impl Roots ===

impl Roots {
    /// Opens these folders, each a `file:` URI. Fails if one cannot be opened.
    pub fn open<'a>(uris: impl IntoIterator<Item = &'a str>) -> Result<Self, RootsError> {
        let folder = |uri: &'a str| {
            let path = path_of(uri)?;
            let failed = |source| RootsError::Io { uri: uri.to_owned(), source };
            let handle = Dir::open_ambient_dir(&path, ambient_authority()).map_err(failed)?;
            let real = path.canonicalize().map_err(failed)?;
            Ok(Folder { paths: [path, real], handle })
        };
        Ok(Self { folders: uris.into_iter().map(folder).collect::<Result<_, _>>()? })
    }

    /// Whether a URI names a file or folder within the roots, or one that could be created there.
    pub fn contains(&self, uri: &str) -> bool {
        self.find(uri).is_ok_and(|found| found.is_inside())
    }

    /// Whether an operation is possible now.
    pub fn check(&self, operation: Operation, uri: &str) -> Result<(), RootsError> {
        let found = self.find(uri)?;
        let wrong = || RootsError::WrongKind(uri.to_owned());
        match (operation, found.folder.handle.metadata(&found.below)) {
            (Operation::Read | Operation::Write, Ok(data)) if data.is_file() => Ok(()),
            (Operation::List, Ok(data)) if data.is_dir() => Ok(()),
            (_, Ok(_)) => Err(wrong()),
            (Operation::Write, Err(error)) if error.kind() == io::ErrorKind::NotFound && found.is_inside() => {
                let parent = found.below.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = found.folder.handle.metadata(parent.unwrap_or(Path::new(".")));
                parent.map_err(|error| found.failed(error)).and_then(|data| match data.is_dir() {
                    true => Ok(()),
                    false => Err(wrong()),
                })
            }
            (_, Err(error)) => Err(found.failed(error)),
        }
    }

    /// Reads a file of at most [`MAX_FILE`] bytes.
    pub fn read(&self, uri: &str) -> Result<Vec<u8>, RootsError> {
        let found = self.find(uri)?;
        let file = found.open_file(OpenOptions::new().read(true))?;
        let mut content = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(|error| found.failed(error))?;
        match MAX_FILE < content.len() as u64 {
            true => Err(RootsError::TooLarge(uri.to_owned())),
            false => Ok(content),
        }
    }

    /// Writes a file, replacing its content, or creates it in a folder that exists.
    pub fn write(&self, uri: &str, content: &[u8]) -> Result<(), RootsError> {
        let found = self.find(uri)?;
        let mut file = found.open_file(OpenOptions::new().write(true).create(true))?;
        file.set_len(0).and_then(|()| file.write_all(content)).map_err(|error| found.failed(error))
    }

    /// Lists a folder of at most [`MAX_ENTRIES`] entries, ordered by URI. Names that are not UTF-8 are percent-encoded.
    pub fn list(&self, uri: &str) -> Result<Vec<RootEntry>, RootsError> {
        self.check(Operation::List, uri)?;
        let found = self.find(uri)?;
        let path = path_of(uri)?;
        let mut entries = Vec::new();
        for entry in found.folder.handle.read_dir(&found.below).map_err(|error| found.failed(error))? {
            let entry = entry.map_err(|error| found.failed(error))?;
            if entries.len() == MAX_ENTRIES {
                return Err(RootsError::TooLarge(uri.to_owned()));
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let Ok(uri) = Url::from_file_path(path.join(entry.file_name())) {
                entries.push(RootEntry { uri: uri.into(), is_folder });
            }
        }
        entries.sort();
        Ok(entries)
    }

    /// The root that a URI lies in, by its components, and the rest of its path.
    fn find<'a>(&'a self, uri: &'a str) -> Result<Found<'a>, RootsError> {
        let path = path_of(uri)?;
        let below = |folder: &'a Folder| {
            let rest = folder.paths.iter().find_map(|root| path.strip_prefix(root).ok())?;
            let below = if rest.as_os_str().is_empty() { PathBuf::from(".") } else { rest.to_owned() };
            Some(Found { folder, below, uri })
        };
        self.folders.iter().find_map(below).ok_or_else(|| RootsError::Outside(uri.to_owned()))
    }
}

/// A path below a root.
struct Found<'a> {
    folder: &'a Folder,
    below: PathBuf,
    uri: &'a str,
}

impl Found<'_> {
    /// Whether no symbolic link on the way leads outside. What does not exist yet is where its parent is.
    fn is_inside(&self) -> bool {
        let handle = &self.folder.handle;
        for part in self.below.ancestors().filter(|part| !part.as_os_str().is_empty()) {
            match handle.metadata(part) {
                Ok(_) => return true,
                // A link to nowhere may become one to anywhere.
                Err(_) if handle.symlink_metadata(part).is_ok() => return false,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Opens a file. What it is, is looked at after it was opened: before, another program could replace it by a pipe or a
    /// device, whose opening or reading waits for ever.
    fn open_file(&self, options: &mut OpenOptions) -> Result<File, RootsError> {
        #[cfg(unix)]
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let wrong = || RootsError::WrongKind(self.uri.to_owned());
        let file = self.folder.handle.open_with(&self.below, options).map_err(|error| match error.kind() {
            ErrorKind::IsADirectory => wrong(),
            // A pipe without a reader, or a socket.
            _ if self.folder.handle.metadata(&self.below).is_ok_and(|data| !data.is_file() && !data.is_dir()) => {
                wrong()
            }
            _ => self.failed(error),
        })?;
        let is_file = file.metadata().map_err(|error| self.failed(error))?.is_file();
        if is_file { Ok(file) } else { Err(wrong()) }
    }

    fn failed(&self, source: io::Error) -> RootsError {
        // `cap-std` refuses a path that leads outside with this kind and without a code of the system.
        match source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none() {
            true => RootsError::Outside(self.uri.to_owned()),
            false => RootsError::Io { uri: self.uri.to_owned(), source },
        }
    }
}

/// The path of a `file:` URI of this machine: absolute, without `..` and NUL after percent-decoding, without query.
pub(super) fn path_of(uri: &str) -> Result<PathBuf, RootsError> {
    let wrong = || RootsError::NotAFile(uri.to_owned());
    let url = Url::parse(uri).map_err(|_| wrong())?;
    let is_local = url.host_str().is_none_or(|host| host.is_empty() || host == "localhost");
    if url.scheme() != "file" || !is_local || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    let path = url.to_file_path().map_err(|()| wrong())?;
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let has_nul = path.as_os_str().as_encoded_bytes().contains(&0);
    if is_plain && !has_nul { Ok(path) } else { Err(wrong()) }
}
