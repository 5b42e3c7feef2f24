//! Where config, state and cache live: the XDG directories of an environment that comes in as a value.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
};

/// Variables by name.
pub type Environment = BTreeMap<OsString, OsString>;

/// Our directories; each is missing where the environment does not say where a home is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// The user's home.
    pub home: Option<PathBuf>,
    /// What the user wrote.
    pub config: Option<PathBuf>,
    /// What we found out and want to keep.
    pub state: Option<PathBuf>,
    /// What may be deleted at any time.
    pub cache: Option<PathBuf>,
}

/// Our folder in each of them.
const FOLDER: &str = "toolway";
/// The user's own configuration.
const FILE: &str = "toolway.json";

impl Paths {
    /// The directories of this environment. A relative path is no answer, as the XDG specification says.
    pub fn of(environment: &Environment) -> Self {
        let absolute =
            |name: &str| environment.get(OsStr::new(name)).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let ours = |name: &str, fallback: &str| {
            absolute(name).or_else(|| home.as_ref().map(|home| home.join(fallback))).map(|base| base.join(FOLDER))
        };
        Self {
            config: ours("XDG_CONFIG_HOME", ".config"),
            state: ours("XDG_STATE_HOME", ".local/state"),
            cache: ours("XDG_CACHE_HOME", ".cache"),
            home,
        }
    }

    /// The user's own configuration.
    pub fn user_config(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|folder| folder.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Environment, Paths};

    fn paths(variables: &[(&str, &str)]) -> Paths {
        Paths::of(&variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<Environment>())
    }

    #[test]
    fn the_directories_follow_the_home_unless_they_are_named() {
        let paths = paths(&[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/var/tmp/ada"), ("XDG_STATE_HOME", "state")]);
        assert_eq!(paths.user_config().as_deref(), Some(Path::new("/home/ada/.config/toolway/toolway.json")));
        assert_eq!(paths.state.as_deref(), Some(Path::new("/home/ada/.local/state/toolway")));
        assert_eq!(paths.cache.as_deref(), Some(Path::new("/var/tmp/ada/toolway")));
    }

    #[test]
    fn without_a_home_there_is_no_directory() {
        assert_eq!(paths(&[]), Paths::default());
    }
}
