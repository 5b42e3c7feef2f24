//! Looks up a program without file extension on Windows: `npx` is the script `npx.cmd` there.
//!
//! The system itself only tries `.exe`, but configurations are copied from other systems.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{MAIN_SEPARATOR, Path, PathBuf},
};

use crate::connection::environment::Environment;

/// Extensions tried if `PATHEXT` is not set.
const EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// The file of the program, or `command` if none is found, so that the system reports the error.
pub(super) fn find(command: &str, environment: &Environment) -> OsString {
    let variable = |name: &str| {
        let is_it = |(known, _): &(&OsString, &OsString)| known.eq_ignore_ascii_case(name);
        environment.iter().find(is_it).map(|(_, value)| value.as_os_str())
    };
    let extensions = variable("PATHEXT").and_then(OsStr::to_str).unwrap_or(EXTENSIONS);
    let found = variable("PATH").filter(|_| is_bare(command)).and_then(|path| first(command, path, extensions));
    found.map_or_else(|| command.into(), PathBuf::into_os_string)
}

fn is_bare(command: &str) -> bool {
    !command.contains(['/', MAIN_SEPARATOR]) && Path::new(command).extension().is_none()
}

fn first(command: &str, path: &OsStr, extensions: &str) -> Option<PathBuf> {
    // Relative folders would depend on the working directory.
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    let names: Vec<String> = extensions.split(';').filter(|e| !e.is_empty()).map(|e| format!("{command}{e}")).collect();
    folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)).collect::<Vec<_>>()).find(|f| f.is_file())
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::{Environment, find};

    #[test]
    fn program_without_extension_is_found_in_path_order() {
        let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, name) in [(&far, "npx.EXE"), (&near, "npx.CMD"), (&near, "npx"), (&far, "uvx.EXE")] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let path = env::join_paths([near.path(), far.path()]).unwrap();
        let environment: Environment =
            [("Path".into(), path), ("PATHEXT".into(), ".EXE;;.CMD".into())].into_iter().collect();
        assert_eq!(find("npx", &environment), near.path().join("npx.CMD"));
        assert_eq!(find("uvx", &environment), far.path().join("uvx.EXE"));
        for as_it_is in ["npx.cmd", "./npx", "none"] {
            assert_eq!(find(as_it_is, &environment), as_it_is);
        }
        assert_eq!(find("npx", &Environment::new()), "npx");
    }
}
