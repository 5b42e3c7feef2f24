//! Directories for config, state and cache: the XDG directories, or their counterparts on Windows. The environment is
//! passed in as a value.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

/// Environment variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Directories of Toolway; each is `None` if the environment does not set it and has no home directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Home directory of the user.
    pub home: Option<PathBuf>,
    /// Configuration written by the user.
    pub config: Option<PathBuf>,
    /// Persistent state written by Toolway.
    pub state: Option<PathBuf>,
    /// Data that may be deleted at any time.
    pub cache: Option<PathBuf>,
}

/// Name of our folder in each base directory.
const FOLDER: &str = "toolway";
/// File names of a configuration, in the user's folder and in a project.
pub(crate) const FILES: [&str; 4] = [FILE, "toolway.jsonc", "toolway.yaml", "toolway.yml"];
/// File name of a new configuration.
const FILE: &str = "toolway.json";

impl Paths {
    /// The directories of this environment. Relative paths are ignored, as the XDG specification requires.
    pub fn of(environment: &Environment) -> Self {
        if cfg!(windows) { Self::of_windows(environment) } else { Self::of_xdg(environment) }
    }

    fn of_xdg(environment: &Environment) -> Self {
        let home = absolute(environment, "HOME");
        let ours = |name: &str, fallback: &str| {
            let base = absolute(environment, name).or_else(|| Some(home.as_ref()?.join(fallback)));
            base.map(|base| base.join(FOLDER))
        };
        Self {
            config: ours("XDG_CONFIG_HOME", ".config"),
            state: ours("XDG_STATE_HOME", ".local/state"),
            cache: ours("XDG_CACHE_HOME", ".cache"),
            home,
        }
    }

    /// Configuration is in the roaming profile, state and cache in the local one.
    fn of_windows(environment: &Environment) -> Self {
        let home = absolute(environment, "USERPROFILE");
        let ours = |name: &str| absolute(environment, name).map(|base| base.join(FOLDER));
        let local = ours("LOCALAPPDATA");
        Self { config: ours("APPDATA"), cache: local.as_ref().map(|local| local.join("cache")), state: local, home }
    }

    /// Default path of the user file.
    pub fn user_config(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|folder| folder.join(FILE))
    }
}

fn absolute(environment: &Environment, name: &str) -> Option<PathBuf> {
    environment.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Canonical path, in a form in which Windows can start programs.
pub(crate) fn real(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).map(without_prefix)
}

/// Maximum length of a folder in which Windows starts a program.
const LONGEST_FOLDER: usize = 247;

/// Windows canonicalizes `C:\work` to `\\?\C:\work`, where its shell, which runs every `.cmd`, cannot be started. Paths
/// without a short form are kept: paths without a drive, long paths, names that end with a dot or space.
fn without_prefix(path: PathBuf) -> PathBuf {
    let short = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    let can_be_short = |short: &&str| {
        let is_of_drive = short.get(1..3) == Some(r":\");
        is_of_drive && short.len() <= LONGEST_FOLDER && !short.split('\\').any(|name| name.ends_with(['.', ' ']))
    };
    short.filter(can_be_short).map(PathBuf::from).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Environment, LONGEST_FOLDER, Paths, without_prefix};

    #[test]
    fn canonical_path_has_the_form_in_which_programs_can_start() {
        let plain = |path: &str| without_prefix(path.into()).to_str().unwrap().to_owned();
        assert_eq!(plain(r"\\?\C:\work\toolway"), r"C:\work\toolway");
        let long = format!(r"\\?\C:\{}", "x".repeat(LONGEST_FOLDER));
        for same in [r"\\?\UNC\there\share", r"\\?\C:\work.", "/work/toolway", long.as_str()] {
            assert_eq!(plain(same), same);
        }
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn directories_are_below_the_home_unless_they_are_set() {
        let paths = Paths::of_xdg(&environment(&[
            ("HOME", "/home/ada"),
            ("XDG_CACHE_HOME", "/var/tmp/ada"),
            ("XDG_STATE_HOME", "state"),
        ]));
        assert_eq!(paths.user_config().as_deref(), Some(Path::new("/home/ada/.config/toolway/toolway.json")));
        assert_eq!(paths.state.as_deref(), Some(Path::new("/home/ada/.local/state/toolway")));
        assert_eq!(paths.cache.as_deref(), Some(Path::new("/var/tmp/ada/toolway")));
    }

    #[test]
    fn without_a_home_there_is_no_directory() {
        assert_eq!(Paths::of_xdg(&environment(&[])), Paths::default());
        assert_eq!(Paths::of_windows(&environment(&[("APPDATA", "relative")])), Paths::default());
    }
    #[test]
    fn windows_uses_its_own_directories() {
        let variables = [("USERPROFILE", "/ada"), ("APPDATA", "/ada/roaming"), ("LOCALAPPDATA", "/ada/local")];
        let paths = Paths::of_windows(&environment(&variables));
        assert_eq!(paths.user_config().as_deref(), Some(Path::new("/ada/roaming/toolway/toolway.json")));
        assert_eq!(paths.state.as_deref(), Some(Path::new("/ada/local/toolway")));
        assert_eq!(paths.cache.as_deref(), Some(Path::new("/ada/local/toolway/cache")));
    }
}
