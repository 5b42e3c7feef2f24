//! Completion of files behind `@`: one folder at a time, within bounds, without names that a terminal would act on.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folders in which files are completed without a question.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachFolders {
    /// Where relative paths begin.
    pub(crate) working: PathBuf,
    /// What `~/` stands for.
    pub(crate) home: Option<PathBuf>,
    /// Folders of the configured roots.
    pub(crate) roots: Vec<PathBuf>,
}

/// A file or folder to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileWord {
    /// As it is typed; a folder ends with a slash.
    pub(crate) path: String,
    /// Bytes of a file; `None` for a folder.
    pub(crate) bytes: Option<u64>,
}

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 2_000;

impl AttachFolders {
    /// The path that was typed.
    pub(crate) fn path(&self, typed: &str) -> PathBuf {
        match (typed.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.working.join(typed),
        }
    }

    /// Whether a file may be attached without a question: it is in the working folder or in a root, links resolved, and no
    /// part of its path below is hidden. A pasted text can name any file.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        std::iter::once(&self.working).chain(&self.roots).any(|folder| {
            let Ok(folder) = folder.canonicalize() else { return false };
            let Ok(below) = path.strip_prefix(&folder) else { return false };
            // The root of the file system holds everything.
            folder.parent().is_some()
                && !below.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
        })
    }

    /// The files and folders that begin with what was typed.
    pub(crate) fn words(&self, typed: &str) -> Vec<FileWord> {
        let (folder, begun) = typed.rsplit_once('/').map_or(("", typed), |(folder, begun)| (folder, begun));
        let prefix = if typed.contains('/') { format!("{folder}/") } else { String::new() };
        let Ok(entries) = fs::read_dir(self.path(if prefix.is_empty() { "." } else { &prefix })) else {
            return Vec::new();
        };
        let mut words: Vec<FileWord> = entries
            .take(MOST_ENTRIES)
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let is_meant = name.starts_with(begun) && (!name.starts_with('.') || begun.starts_with('.'));
                if !is_meant || name.chars().any(char::is_control) {
                    return None;
                }
                // Links are followed; one that leads nowhere, or to itself, is left out.
                let metadata = fs::metadata(entry.path()).ok()?;
                match (metadata.is_dir(), metadata.is_file()) {
                    (true, _) => Some(FileWord { path: format!("{prefix}{name}/"), bytes: None }),
                    (_, true) => Some(FileWord { path: format!("{prefix}{name}"), bytes: Some(metadata.len()) }),
                    _ => None,
                }
            })
            .collect();
        if prefix.is_empty() {
            let roots = self.roots.iter().filter_map(|root| Some(format!("{}/", root.to_str()?)));
            words.extend(roots.filter(|root| root.starts_with(typed)).map(|path| FileWord { path, bytes: None }));
        }
        words.sort_by(|one, other| one.path.cmp(&other.path));
        words
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::AttachFolders;

    fn folders() -> (tempfile::TempDir, AttachFolders) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        for file in ["notes.txt", "my notes.txt", "no\u{1b}[2J", ".env", "src/main.rs"] {
            fs::write(folder.path().join(file), "text").unwrap();
        }
        let folders = AttachFolders { working: folder.path().to_owned(), ..AttachFolders::default() };
        (folder, folders)
    }

    fn paths(folders: &AttachFolders, typed: &str) -> Vec<String> {
        folders.words(typed).into_iter().map(|word| word.path).collect()
    }

    #[test]
    fn one_folder_is_completed_at_a_time() {
        let (_folder, folders) = folders();
        assert_eq!(paths(&folders, ""), ["my notes.txt", "notes.txt", "src/"]);
        assert_eq!(paths(&folders, "n"), ["notes.txt"]);
        assert_eq!(paths(&folders, "."), [".env"]);
        assert_eq!(paths(&folders, "src/"), ["src/deep/", "src/main.rs"]);
        assert_eq!(paths(&folders, "src/m"), ["src/main.rs"]);
        assert!(paths(&folders, "nowhere/").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_to_themselves_end_nothing() {
        let (folder, folders) = folders();
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
        std::os::unix::fs::symlink(".", folder.path().join("src/again")).unwrap();
        assert!(!paths(&folders, "").contains(&"loop".to_owned()));
        assert_eq!(paths(&folders, "src/again/again/again/m"), ["src/again/again/again/main.rs"]);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.txt")).unwrap();
        assert!(!folders.holds(&folders.path("link.txt")));
    }

    #[test]
    fn only_plain_files_inside_are_attached_without_a_question() {
        let (_folder, folders) = folders();
        let holds = |typed: &str| folders.holds(&folders.path(typed));
        assert!(holds("notes.txt") && holds("src/main.rs") && holds("src/../notes.txt"));
        for typed in [".env", "../x", "/etc/passwd", "nowhere.txt", "src/../../etc/passwd"] {
            assert!(!holds(typed), "{typed}");
        }
    }
}
