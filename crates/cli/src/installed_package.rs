//! Whether what `npx` or `uvx` starts is installed already, so that waiting for it has another reason.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use toolway_config::{Environment, server::Transport};
use toolway_host::connection::{ServerAddress, WantedServer, Way};

/// Options of `npx` that name the package.
const NPM: &[&str] = &["-p", "--package"];
/// Options of `uvx` that name the package.
const UV: &[&str] = &["--from"];
/// Options of `uvx` with another value.
const UV_VALUES: &[&str] = &["-p", "--python", "--with", "--index-url", "--index"];

/// Whether the package of the server is in the cache of its installer. `false` for installers whose cache is not known.
pub(crate) fn is_installed(server: &WantedServer, environment: &Environment) -> bool {
    let words = arguments(server);
    let variable = |name: &str| environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").or_else(|| variable("USERPROFILE"));
    match server.installer() {
        Some("npx" | "npm exec") => {
            let words = words.strip_prefix(&["exec".to_owned()]).unwrap_or(&words);
            let package = package(words, NPM, &[]);
            let cache = variable("npm_config_cache").or_else(|| Some(home()?.join(".npm")));
            package.zip(cache).is_some_and(|(package, cache)| has_npm(&cache, without_version(package)))
        }
        Some("uvx") => {
            let package = package(&words, UV, UV_VALUES);
            let cache = variable("UV_CACHE_DIR").or_else(|| Some(variable("XDG_CACHE_HOME")?.join("uv")));
            let cache = cache.or_else(|| Some(home()?.join(".cache/uv")));
            package.zip(cache).is_some_and(|(package, cache)| has_uv(&cache, &python_name(package)))
        }
        _ => false,
    }
}

/// The arguments of the server's command as written.
fn arguments(server: &WantedServer) -> Vec<String> {
    match &server.way {
        Way::Configured(entry) => match &entry.transport {
            Transport::Process(process) => {
                process.arguments.iter().map(|word| word.written().expose().to_owned()).collect()
            }
            Transport::Http(_) => Vec::new(),
        },
        Way::Address(ServerAddress::Process(program)) => program.arguments.clone(),
        Way::Address(_) | Way::InProcess(_) | Way::Custom(_) => Vec::new(),
    }
}

/// The package: the value of an option in `named`, else the first word that is neither an option nor the value of one in
/// `with_value`.
fn package<'a>(words: &'a [String], named: &[&str], with_value: &[&str]) -> Option<&'a str> {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if named.contains(&word) {
            return words.next();
        }
        if with_value.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Whether npm's cache for `npx` has the package, in a folder that was installed to the end.
fn has_npm(cache: &Path, package: &str) -> bool {
    folders(&cache.join("_npx")).iter().map(|folder| folder.join("node_modules")).any(|modules| {
        modules.join(".package-lock.json").is_file() && modules.join(package).join("package.json").is_file()
    })
}

/// Whether uv's cache has a wheel of the package.
fn has_uv(cache: &Path, package: &str) -> bool {
    let is_of_wheels =
        |folder: &&PathBuf| folder.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("wheels-"));
    folders(cache).iter().filter(is_of_wheels).any(|wheels| wheels.join("pypi").join(package).is_dir())
}

/// The folders in a folder; none if it cannot be read.
fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// `@scope/name@1.2` without the version.
fn without_version(package: &str) -> &str {
    match package.char_indices().skip(1).find(|(_, letter)| *letter == '@') {
        Some((at, _)) => &package[..at],
        None => package,
    }
}

/// The name of a Python package as uv's cache has it: without extras and version, in lower case, with dashes.
fn python_name(package: &str) -> String {
    let end = package.find(|letter: char| !(letter.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&letter)));
    package[..end.unwrap_or(package.len())].to_lowercase().replace(['_', '.'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_found_in_the_arguments_of_an_installer() {
        let found = |line: &str, named: &[&str], with_value: &[&str]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            package(&words, named, with_value).map(str::to_owned)
        };
        assert_eq!(found("-y @a/b@1 --x", NPM, &[]).as_deref(), Some("@a/b@1"));
        assert_eq!(found("-y -p @a/b run", NPM, &[]).as_deref(), Some("@a/b"));
        assert_eq!(found("--python 3.12 mcp_git", UV, UV_VALUES).as_deref(), Some("mcp_git"));
        assert_eq!(found("--from mcp[cli] mcp", UV, UV_VALUES).as_deref(), Some("mcp[cli]"));
        assert_eq!(
            (without_version("@a/b@1"), without_version("b@latest"), without_version("@a/b")),
            ("@a/b", "b", "@a/b")
        );
        assert_eq!((python_name("Mcp_Git==1.2").as_str(), python_name("mcp[cli]@1").as_str()), ("mcp-git", "mcp"));
    }
}
