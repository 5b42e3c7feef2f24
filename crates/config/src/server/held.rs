//! Files of a project server, read when the user is asked about it, so that what was shown is what is used.

use std::convert::Infallible;

use super::{
    ServerConfig, Transport, VariablesSnapshot,
    auth::{Auth, OAuth, TextKind},
};
use crate::{
    error::ConfigError,
    interpolate::{Lookup, Template},
    keychain::NoKeychain,
    paths::Environment,
};

impl ServerConfig {
    /// Reads the `envFile` and the files of all references now. References to files are refused in `command`, `args` and
    /// URLs, where the content of a file would be run, or sent to a server without a key that says so.
    pub(crate) fn with_held_files(mut self, environment: &Environment) -> Result<Self, ConfigError> {
        self.refuse_files()?;
        self.refuse_user_part()?;
        let lookup = Lookup {
            environment,
            // The user has not accepted the server yet.
            keychain: &NoKeychain,
            folder: self.source.folder.as_deref(),
            base: &self.source.base,
            server: self.name.as_str(),
            file: &self.source.place.file,
            defined_by: self.source.defined_by,
        };
        let mut count = 0;
        self.transport.hold_files(&lookup, &mut count);
        if let Transport::Process(process) = &mut self.transport
            && let Some(file) = &mut process.variables_file
        {
            file.snapshot = Some(VariablesSnapshot::of(&file.path, &lookup));
        }
        Ok(self)
    }

    /// A user name in front of the host would pass for the host.
    fn refuse_user_part(&self) -> Result<(), ConfigError> {
        let Transport::Http(http) = &self.transport else { return Ok(()) };
        let written = http.url.written().expose();
        let rest = written.split_once("://").map_or(written, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        if !authority.contains('@') {
            return Ok(());
        }
        Err(ConfigError::Refused {
            place: self.source.place.at(http.url.line()),
            problem: format!(
                "`{}.url`: a user name or password is not allowed in the URL of a project's server; use `headers`",
                self.label
            ),
        })
    }

    fn refuse_files(&self) -> Result<(), ConfigError> {
        let is_address = |key: &str| match &self.transport {
            Transport::Http(http) => {
                key == "url" || http.sign_in_texts().any(|(name, kind, _)| name == key && kind == TextKind::Address)
            }
            Transport::Process(_) => matches!(key, "command" | "args"),
        };
        match self.transport.texts().into_iter().find(|(key, text)| text.has_file() && is_address(key)) {
            Some((key, text)) => Err(ConfigError::Refused {
                place: self.source.place.at(text.line()),
                problem: format!(
                    "`{}.{key}`: a file reference is not allowed in `command`, `args` and URLs of a project's server; \
                     use `env` or `headers`",
                    self.label
                ),
            }),
            None => Ok(()),
        }
    }
}

impl Transport {
    fn hold_files(&mut self, lookup: &Lookup<'_>, count: &mut usize) {
        let mut hold = |text: &mut Template| text.hold_files(lookup, count);
        match self {
            Self::Process(process) => {
                hold(&mut process.command);
                process.arguments.iter_mut().for_each(&mut hold);
                process.variables.iter_mut().for_each(|(_, text)| hold(text));
                process.variables_file.iter_mut().for_each(|file| hold(&mut file.path));
                process.directory.iter_mut().for_each(&mut hold);
            }
            Self::Http(http) => {
                hold(&mut http.url);
                http.headers.iter_mut().for_each(|(_, text)| hold(text));
                let mut held = |_: &'static str, _: TextKind, text: &Template| -> Result<Template, Infallible> {
                    let mut text = text.clone();
                    hold(&mut text);
                    Ok(text)
                };
                if let Some(auth) = &mut http.auth {
                    let Ok(all): Result<Auth<Template>, Infallible> = auth.map(&mut held);
                    **auth = all;
                }
                let Ok(all): Result<OAuth<Template>, Infallible> = http.oauth.map(&mut held);
                *http.oauth = all;
            }
        }
    }
}
