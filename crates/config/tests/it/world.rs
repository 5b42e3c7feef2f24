//! A home directory and a project in a temporary folder, with the files of sixteen hosts.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use toolway_config::{
    ConfigError, Endpoint, Environment, Keychain, Loaded, Paths, Secret, ServerConfig, Sources,
    consent::Accepted,
    import::{Imported, SearchRoots, read_all},
    keychain::KeychainError,
    layers::Flags,
    load,
    load::ProjectStart,
    server::{Format, HttpKind},
};

pub(crate) struct World {
    folder: TempDir,
    pub(crate) environment: Environment,
}

/// A keychain with two secrets: one input of the user and one of another host.
#[derive(Debug)]
pub(crate) struct Chain;

impl Keychain for Chain {
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        match (service, entry) {
            ("toolway-inputs", entry) if entry.ends_with("mcp.json#files/tok") => Ok(Secret::new("typed")),
            ("goose", "STORED") => Ok(Secret::new("stored")),
            _ => Err(KeychainError::Missing),
        }
    }
}

impl World {
    /// An empty home directory and an empty project.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let home = folder.path().join("home").canonicalize().unwrap();
        let mut environment = Environment::new();
        for (name, value) in [("HOME", home.to_str().unwrap()), ("TOKEN", "t0k"), ("KIND", "kind")] {
            environment.insert(name.into(), value.into());
        }
        Self { folder, environment }
    }

    /// With the files of all hosts.
    pub(crate) fn of_all_hosts() -> Self {
        let world = Self::empty();
        world.copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts"), &world.root());
        world
    }

    fn copy(&self, from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                self.copy(&entry.path(), &target);
            } else {
                let text = fs::read_to_string(entry.path()).unwrap();
                let text = text.replace("@PROJECT@", self.project().to_str().unwrap());
                fs::write(target, text.replace("/@HOME@", self.home().to_str().unwrap())).unwrap();
            }
        }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    /// Writes a file below the world's root.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.root().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    /// Loads the configuration from the project folder.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        self.load_with(&Accepted::default(), Flags::default())
    }

    /// The same, with acceptances and command-line options.
    pub(crate) fn load_with(&self, accepted: &Accepted, flags: Flags) -> Result<Loaded, ConfigError> {
        let directory = self.project();
        let user = fs::metadata(&directory).unwrap().uid();
        load(&Sources {
            environment: &self.environment,
            paths: &Paths::of(&self.environment),
            named: None,
            project: Some(ProjectStart { directory: &directory, user }),
            flags,
            accepted,
        })
    }

    /// Warnings about entries and files that are not used.
    pub(crate) fn excluded(&self) -> Vec<String> {
        let loaded = self.load().unwrap();
        let exclusions = loaded.config.warnings.iter().filter(|warning| warning.is_exclusion());
        exclusions.map(|warning| self.stable(&warning.to_string())).collect()
    }

    /// The error of loading.
    pub(crate) fn problem(&self) -> String {
        self.stable(&self.load().unwrap_err().to_string())
    }

    /// Imports the files of these hosts.
    pub(crate) fn import(&self, formats: &[Format]) -> Imported {
        let (home, config, project) = (self.home(), self.home().join(".config"), self.project());
        let search = SearchRoots {
            home: Some(&home),
            config: Some(&config),
            project: Some(&project),
            environment: &self.environment,
        };
        read_all(formats, &search)
    }

    /// The resolved endpoint of a server, on one line.
    pub(crate) fn line(&self, server: &ServerConfig) -> String {
        self.line_with(server, &Chain)
    }

    /// The same, with another keychain.
    pub(crate) fn line_with(&self, server: &ServerConfig, keychain: &dyn Keychain) -> String {
        let text = match server.endpoint(&self.environment, keychain) {
            Ok(endpoint) => line(&endpoint),
            Err(error) => format!("refused: {error}"),
        };
        self.stable(&text)
    }

    /// Replaces the temporary folders by `HOME` and `PROJECT`.
    pub(crate) fn stable(&self, text: &str) -> String {
        text.replace(self.home().to_str().unwrap(), "HOME").replace(self.project().to_str().unwrap(), "PROJECT")
    }
}

fn line(endpoint: &Endpoint) -> String {
    let pairs = |pairs: &[(String, Secret)], between: &str| {
        pairs.iter().map(|(name, value)| format!(" | {name}{between}{}", value.expose())).collect::<String>()
    };
    match endpoint {
        Endpoint::Process { command, arguments, variables, directory } => {
            let arguments: String = arguments.iter().map(|argument| format!(" {}", argument.expose())).collect();
            let directory = directory.as_ref().map(|directory| directory.display().to_string()).unwrap_or_default();
            format!("{command}{arguments}{} | in {directory}", pairs(variables, "="))
        }
        Endpoint::Http { url, headers, kind, sign_in: _ } => {
            let kind = match kind {
                HttpKind::Auto => "auto",
                HttpKind::Http => "http",
                HttpKind::Sse => "sse",
            };
            format!("{kind} {}{}", url.expose(), pairs(headers, ": "))
        }
    }
}
