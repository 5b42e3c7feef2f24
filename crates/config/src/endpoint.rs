//! How a server is reached, with every reference resolved; errors name file, line and key.

mod secrets;
mod sign_in;

use std::path::PathBuf;

pub use sign_in::GOOGLE_FILE;

pub use secrets::{ResolvedEndpoint, secrets_of_url, secrets_of_variables};

use crate::{
    address,
    error::ConfigError,
    header,
    interpolate::{Lookup, Template, Unresolved},
    keychain::Keychain,
    paths::Environment,
    secret::Secret,
    server::{Http, HttpKind, Process, ServerConfig, Transport, auth::SignIn},
};

/// How a server is reached, with references resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A program with the stdio transport.
    Process {
        /// Program name or path.
        command: String,
        /// Arguments; secret because they may contain keys.
        arguments: Vec<Secret>,
        /// Environment variables, in addition to those every server gets.
        variables: Vec<(String, Secret)>,
        /// Working directory.
        directory: Option<PathBuf>,
    },
    /// A server at a URL.
    Http {
        /// Server URL; secret because it may contain keys.
        url: Secret,
        /// Headers sent with every request.
        headers: Vec<(String, Secret)>,
        /// Transport to use.
        kind: HttpKind,
        /// Authentication of requests.
        sign_in: Box<SignIn<Secret>>,
    },
}

impl ServerConfig {
    /// Resolves the references of the server with this environment and this keychain.
    pub fn endpoint(&self, environment: &Environment, keychain: &dyn Keychain) -> Result<Endpoint, ConfigError> {
        let lookup = Lookup {
            environment,
            keychain,
            folder: self.source.folder.as_deref(),
            base: &self.source.base,
            server: self.name.as_str(),
            file: &self.source.place.file,
            defined_by: self.source.defined_by,
        };
        let resolver = Resolver { server: self, lookup };
        match &self.transport {
            Transport::Process(process) => resolver.process(process),
            Transport::Http(http) => resolver.http(http),
        }
    }
}

/// Resolves the references of one server.
struct Resolver<'a> {
    server: &'a ServerConfig,
    lookup: Lookup<'a>,
}

impl Resolver<'_> {
    fn process(&self, process: &Process) -> Result<Endpoint, ConfigError> {
        let command = self.value("command", &process.command)?.expose().to_owned();
        if command.trim().is_empty() {
            return Err(self.expected("command", process.command.line(), "the program to start"));
        }
        let arguments = process.arguments.iter().map(|argument| self.value("args", argument));
        Ok(Endpoint::Process {
            command: self.tilde(&command),
            arguments: arguments.collect::<Result<_, _>>()?,
            variables: self.variables(process)?,
            directory: self.directory(process.directory.as_ref())?,
        })
    }

    fn http(&self, http: &Http) -> Result<Endpoint, ConfigError> {
        let url = self.value("url", &http.url)?;
        address::check(url.expose(), http.plain)
            .map_err(|refused| self.expected("url", http.url.line(), refused.expected()))?;
        let sign_in = Box::new(self.sign_in(http)?);
        Ok(Endpoint::Http { url, headers: self.headers(http)?, kind: http.kind, sign_in })
    }

    /// Checks the header values that contained references.
    fn headers(&self, http: &Http) -> Result<Vec<(String, Secret)>, ConfigError> {
        let headers = self.pairs("headers", &http.headers)?;
        for ((name, value), (_, written)) in headers.iter().zip(&http.headers) {
            if let Some(expected) = header::problem(name, value.expose()) {
                return Err(self.expected(&format!("headers.{name}"), written.line(), expected));
            }
        }
        Ok(headers)
    }

    /// Expands a leading `~/`; the program is started without a shell.
    fn tilde(&self, path: &str) -> String {
        let home = path.strip_prefix("~/").and_then(|_| self.lookup.path(path).ok());
        home.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
    }

    fn directory(&self, written: Option<&Template>) -> Result<Option<PathBuf>, ConfigError> {
        let Some(written) = written else { return Ok(self.server.source.folder.clone()) };
        self.path("cwd", written).map(Some)
    }

    fn path(&self, key: &str, written: &Template) -> Result<PathBuf, ConfigError> {
        let path = self.value(key, written)?;
        self.lookup.path(path.expose()).map_err(|reason| self.unresolved(key, written.line(), reason))
    }

    /// Variables of `envFile`, then those of `env`, which take precedence.
    fn variables(&self, process: &Process) -> Result<Vec<(String, Secret)>, ConfigError> {
        let own = self.pairs("env", &process.variables)?;
        let Some(written) = &process.variables_file else { return Ok(own) };
        let (file, line) = (self.path("envFile", &written.path)?, written.path.line());
        let read = written
            .variables(&file)
            .map_err(|problem| self.unresolved("envFile", line, Unresolved::File { file, problem }))?;
        let missing = |(name, _): &(String, Secret)| !own.iter().any(|(known, _)| known == name);
        Ok(read.into_iter().filter(missing).chain(own.iter().cloned()).collect())
    }

    fn pairs(&self, key: &str, pairs: &[(String, Template)]) -> Result<Vec<(String, Secret)>, ConfigError> {
        let pair = |(name, text): &(String, Template)| Ok((name.clone(), self.value(&format!("{key}.{name}"), text)?));
        pairs.iter().map(pair).collect()
    }

    fn value(&self, key: &str, template: &Template) -> Result<Secret, ConfigError> {
        template.expand(&self.lookup).map_err(|reason| self.unresolved(key, template.line(), reason))
    }

    fn unresolved(&self, key: &str, line: usize, reason: Unresolved) -> ConfigError {
        let place = self.server.source.place.at(line);
        ConfigError::Unresolved { place, key: format!("{}.{key}", self.server.label), reason: Box::new(reason) }
    }

    fn expected(&self, key: &str, line: usize, expected: &str) -> ConfigError {
        ConfigError::Expected {
            place: self.server.source.place.at(line),
            key: format!("{}.{key}", self.server.label),
            expected: expected.to_owned(),
        }
    }
}
