//! Which roots of a gateway client are passed on to servers.
//!
//! A client names paths of its own machine, or of ours. If others can reach the gateway, a client must not make our servers
//! work in any folder of this machine.

use std::path::{Path, PathBuf};

use url::Url;

use super::fence::path_of;

/// Which roots of clients are passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientRootBound {
    /// All: the clients run on this machine, as its user.
    #[default]
    Anywhere,
    /// All but `file:` roots: the clients run elsewhere.
    NoFiles,
    /// Only folders within one of these.
    Within(Vec<PathBuf>),
}

impl ClientRootBound {
    /// Whether a root with this URI is passed on.
    pub fn admits(&self, uri: &str) -> bool {
        let Ok(url) = Url::parse(uri) else { return false };
        match self {
            Self::Anywhere => true,
            Self::NoFiles => url.scheme() != "file",
            Self::Within(folders) => path_of(uri).is_ok_and(|folder| {
                let real = real_path(&folder);
                folders.iter().any(|bound| folder.starts_with(bound) && real.starts_with(real_path(bound)))
            }),
        }
    }
}

/// The path with symbolic links of its existing part resolved.
fn real_path(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            return path.strip_prefix(ancestor).map_or_else(|_| real.clone(), |rest| real.join(rest));
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::ClientRootBound;

    #[test]
    fn only_folders_within_the_bound_are_passed_on() {
        let stage = tempfile::tempdir().unwrap();
        let stage = stage.path().canonicalize().unwrap();
        let inside = stage.join("root");
        std::fs::create_dir_all(inside.join("a")).unwrap();
        std::fs::create_dir(stage.join("root-evil")).unwrap();
        std::os::unix::fs::symlink(stage.join("root-evil"), inside.join("link")).unwrap();
        let bound = ClientRootBound::Within(vec![inside.clone()]);
        let base = format!("file://{}", inside.display());
        for good in ["", "/", "/a", "/missing/folder"] {
            assert!(bound.admits(&format!("{base}{good}")), "{good}");
        }
        for bad in ["-evil", "/../root-evil", "/%2e%2e/root-evil", "/..%2froot-evil", "/link", "/link/x", "/a%00b"] {
            assert!(!bound.admits(&format!("{base}{bad}")), "{bad}");
        }
        for bad in ["file:///", "file://host.example/root", "https://a.example/root", "root", "file:root"] {
            assert!(!bound.admits(bad), "{bad}");
        }
    }

    #[test]
    fn without_files_only_other_uris_are_passed_on() {
        assert!(!ClientRootBound::NoFiles.admits("file:///a"));
        assert!(!ClientRootBound::NoFiles.admits("FILE:///a"));
        assert!(ClientRootBound::NoFiles.admits("https://a.example/"));
        assert!(ClientRootBound::Anywhere.admits("file:///a"));
    }
}
