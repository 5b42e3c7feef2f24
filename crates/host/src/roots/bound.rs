//! Which roots of a gateway client are passed on to servers.
//!
//! A client names paths of its own machine, or of ours. If others can reach the gateway, a client must not make our servers
//! work in any folder of this machine.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

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
            // Some servers take any URI for a path.
            Self::NoFiles => url.scheme() != "file" && is_read_alike(uri),
            Self::Within(folders) => {
                let Some(folder) = path_of(uri).ok().filter(|_| is_read_alike(uri)) else { return false };
                let Some(real) = real_path(&folder) else { return false };
                let is_within = |bound: &PathBuf| {
                    folder.starts_with(bound) && real_path(bound).is_some_and(|bound| real.starts_with(bound))
                };
                folders.iter().any(is_within)
            }
        }
    }
}

/// Whether every server reads the same path from a URI. A parser of URLs resolves `..` by the text, before
/// symbolic links, takes `\` for `/` and leaves out spaces around and control characters within; others do not.
fn is_read_alike(uri: &str) -> bool {
    let is_dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    let is_odd = |letter: char| letter.is_control() || letter == '\\';
    let Some((_, path)) = uri.split_once(':') else { return false };
    uri.trim() == uri && path.starts_with('/') && !uri.contains(is_odd) && !path.split('/').any(is_dots)
}

/// The path with symbolic links of its existing part resolved; `None` if that is not known: a part cannot be looked at, or
/// is a link to nowhere, which may become one to anywhere.
fn real_path(path: &Path) -> Option<PathBuf> {
    for ancestor in path.ancestors() {
        match ancestor.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(ancestor).ok()?;
                return Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) });
            }
            Err(error) if error.kind() == ErrorKind::NotFound && ancestor.symlink_metadata().is_err() => {}
            Err(_) => return None,
        }
    }
    None
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
        std::os::unix::fs::symlink(stage.join("root-evil/later"), inside.join("nowhere")).unwrap();
        for bad in ["/nowhere", "/nowhere/x"] {
            assert!(!bound.admits(&format!("{base}{bad}")), "a link to nowhere: {bad}");
        }
        // What a parser of URLs reads as a folder inside, and another program as one outside.
        for bad in ["/link/../a", "/link/%2E%2e/a", "/./a", "/a ", "/a\t", "/\n./a", "\\a", " "] {
            assert!(!bound.admits(&format!("{base}{bad}")), "{bad:?}");
        }
        assert!(!bound.admits(&format!(" {base}")) && !bound.admits(&format!("file:{}", &base[8..])));
        for bad in ["file:///", "file://host.example/root", "https://a.example/root", "root", "file:root"] {
            assert!(!bound.admits(bad), "{bad}");
        }
    }

    #[test]
    fn without_files_only_other_uris_are_passed_on() {
        assert!(!ClientRootBound::NoFiles.admits("file:///a"));
        assert!(!ClientRootBound::NoFiles.admits("FILE:///a"));
        assert!(ClientRootBound::NoFiles.admits("https://a.example/"));
        for path in
            ["a:../../etc", "a:/../etc", "https://a.example/../../etc", "a:\\etc", "a:/%2e%2e/etc", "~/x", "/etc"]
        {
            assert!(!ClientRootBound::NoFiles.admits(path), "{path}");
        }
        assert!(ClientRootBound::Anywhere.admits("file:///a"));
    }
}
