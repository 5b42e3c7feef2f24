//! Secrets of a server that must not be shown: values that look like a secret or have the name of one, and all values
//! that come from references. An ordinary value (`true`, `node`, a path) is not a secret.

use std::sync::{Mutex, PoisonError};

use super::Endpoint;
use crate::{
    error::ConfigError,
    interpolate::{Piece, Reference, Template},
    keychain::{Keychain, KeychainError},
    mask::{Role, looks_secret, secrets},
    paths::Environment,
    secret::{Secret, SecretName},
    server::{
        ServerConfig, Transport,
        auth::{SignIn, TextKind},
    },
};

/// Variables whose values are not secret and occur in many paths.
const HARMLESS: [&str; 9] = ["HOME", "USER", "LOGNAME", "LANG", "PATH", "SHELL", "TMPDIR", "TZ", "PWD"];

impl ServerConfig {
    /// Resolves the references of the server, as [`ServerConfig::endpoint`] does, and returns its secrets too.
    pub fn endpoint_with_secrets(
        &self,
        environment: &Environment,
        keychain: &dyn Keychain,
    ) -> Result<ResolvedEndpoint, ConfigError> {
        let handed_over = HandedOver { keychain, secrets: Mutex::default() };
        let endpoint = self.endpoint(environment, &handed_over)?;
        let mut secrets = self.secrets(&endpoint);
        secrets.extend(handed_over.secrets.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(ResolvedEndpoint { endpoint, secrets })
    }

    /// The secrets of the server with these resolved values.
    pub fn secrets(&self, endpoint: &Endpoint) -> Vec<Secret> {
        let mut found = Found::default();
        match (endpoint, &self.transport) {
            (Endpoint::Process { command, arguments, variables, .. }, Transport::Process(process)) => {
                found.look(command, Role::Plain, Some(&process.command));
                let mut before = "";
                for (argument, written) in arguments.iter().zip(&process.arguments) {
                    found.look(argument.expose(), Role::Argument(before), Some(written));
                    before = argument.expose();
                }
                for (name, value) in variables {
                    let written = process.variables.iter().find(|(known, _)| known == name).map(|(_, text)| text);
                    found.look(value.expose(), Role::Variable(name), written);
                }
            }
            (Endpoint::Http { url, headers, sign_in, .. }, Transport::Http(http)) => {
                found.look(url.expose(), Role::Plain, Some(&http.url));
                for ((name, value), (_, written)) in headers.iter().zip(&http.headers) {
                    found.look(value.expose(), Role::Header(name), Some(written));
                }
                found.of_sign_in(sign_in);
            }
            _ => {}
        }
        found.0
    }
}

/// A resolved endpoint, and its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedEndpoint {
    /// How the server is reached.
    pub endpoint: Endpoint,
    /// Everything that must not be shown; may have duplicates.
    pub secrets: Vec<Secret>,
}

/// A keychain that notes what it hands over: the text around a secret does not say where it begins.
#[derive(Debug)]
struct HandedOver<'a> {
    keychain: &'a dyn Keychain,
    secrets: Mutex<Vec<Secret>>,
}

impl HandedOver<'_> {
    fn note(&self, found: Result<Secret, KeychainError>) -> Result<Secret, KeychainError> {
        let secret = found?;
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(secret.clone());
        Ok(secret)
    }
}

impl Keychain for HandedOver<'_> {
    fn get(&self, service: &str, entry: &str) -> Result<Secret, KeychainError> {
        self.note(self.keychain.get(service, entry))
    }

    fn stored(&self, name: &SecretName) -> Result<Secret, KeychainError> {
        self.note(self.keychain.stored(name))
    }
}

/// The secrets among environment variables that no configuration entry describes.
pub fn secrets_of_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Secret> {
    let mut found = Found::default();
    variables.into_iter().for_each(|(name, value)| found.look(value, Role::Variable(name), None));
    found.0
}

/// The secrets in a URL and its headers that no configuration entry describes.
pub fn secrets_of_url<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Secret> {
    let mut found = Found::default();
    found.look(url, Role::Plain, None);
    headers.into_iter().for_each(|(name, value)| found.look(value, Role::Header(name), None));
    found.0
}

#[derive(Default)]
struct Found(Vec<Secret>);

impl Found {
    fn of_sign_in(&mut self, sign_in: &SignIn<Secret>) {
        let texts = sign_in.auth.texts().into_iter().chain(sign_in.oauth.texts());
        let secret = texts.filter(|(_, kind, _)| *kind == TextKind::Secret);
        self.0.extend(secret.map(|(_, _, text)| text.clone()));
    }

    /// Adds the secrets of a resolved value; `written` is the value in the file.
    fn look(&mut self, value: &str, role: Role<'_>, written: Option<&Template>) {
        if let Some(written) = written.filter(|written| came_from_elsewhere(written)) {
            self.0.push(Secret::new(value));
            // `--token=<key>`: what a reference stands for is a secret without the text around it.
            self.0.extend(resolved_parts(&written.pieces(), value).into_iter().map(Secret::new));
            // `Bearer <key>`: the key alone is a secret too.
            let key = value.rsplit(' ').next().filter(|_| matches!(role, Role::Header(_)));
            self.0.extend(key.map(Secret::new));
            return;
        }
        let ranges = secrets(value, role);
        self.0.extend(ranges.into_iter().map(|range| Secret::new(&value[range])));
    }
}

fn came_from_elsewhere(written: &Template) -> bool {
    written.references().iter().any(|reference| match reference {
        Reference::Variable { name, .. } => !HARMLESS.contains(&name.as_str()),
        _ => true,
    })
}

/// The parts of a resolved value that secret references stand for, found by the text between them. An ordinary variable,
/// such as a port in a URL, is no secret by itself.
fn resolved_parts<'a>(pieces: &[Piece], value: &'a str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut rest = value;
    let mut references: Vec<&Reference> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Reference(reference) => references.push(reference),
            Piece::Text(text) => {
                let is_last = index + 1 == pieces.len();
                let found = if is_last { rest.rfind(text.as_str()) } else { rest.find(text.as_str()) };
                let Some(at) = found else { return parts };
                parts.extend(has_secret(&references, &rest[..at]).then_some(&rest[..at]));
                rest = &rest[at + text.len()..];
                references.clear();
            }
        }
    }
    parts.extend(has_secret(&references, rest).then_some(rest));
    parts
}

/// Whether one of the references that stand for a part of a value is secret.
fn has_secret(references: &[&Reference], part: &str) -> bool {
    let is_secret = |reference: &&Reference| match reference {
        Reference::Variable { name, .. } => looks_secret(name, part),
        _ => true,
    };
    !part.is_empty() && references.iter().any(is_secret)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{secrets_of_url, secrets_of_variables};
    use crate::{
        Config, Environment, Keychain, NoKeychain, Secret, SecretName, document::Document, keychain::KeychainError,
    };

    fn secrets(entry: &str) -> Vec<String> {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}");
        let config = Config::of(&Document::of(Path::new("/x/toolway.json"), &text).unwrap(), None).unwrap();
        let environment: Environment = [
            ("HOME".into(), "/home/ada".into()),
            ("MODE".into(), "fast".into()),
            ("T".into(), "t0k3n".into()),
            ("TOKEN".into(), "t0k3n".into()),
        ]
        .into();
        let server = config.find("a").unwrap();
        let endpoint = server.endpoint(&environment, &NoKeychain).unwrap();
        let mut secrets: Vec<String> =
            server.secrets(&endpoint).iter().map(|secret| secret.expose().to_owned()).collect();
        secrets.dedup();
        secrets
    }

    #[test]
    fn ordinary_values_are_shown_and_resolved_references_are_not() {
        let entry = r#"{ "command": "node", "args": ["server.js", "--port", "8080", "--token", "abc123"],
            "env": { "NODE_ENV": "production", "DEBUG": "true", "DATA": "${HOME}/data", "MODE": "${MODE}",
                     "API_KEY": "hunter2", "DB": "postgres://ada:s3cret@db/x", "N": "sk-0123456789" } }"#;
        assert_eq!(secrets(entry), ["abc123", "fast", "hunter2", "s3cret", "sk-0123456789"]);
        let entry = r#"{ "url": "https://example.org/mcp?mode=all&key=k3y",
            "headers": { "Authorization": "Bearer ${T}", "Accept": "text/plain", "X-Team": "blue" } }"#;
        assert_eq!(secrets(entry), ["k3y", "Bearer t0k3n", "t0k3n", "blue"]);
    }

    #[test]
    fn a_resolved_reference_is_a_secret_without_the_text_around_it() {
        let entry = r#"{ "command": "x", "args": ["--key=${TOKEN}", "a${TOKEN}b${MODE}c"] }"#;
        assert_eq!(secrets(entry), ["--key=t0k3n", "t0k3n", "at0k3nbfastc", "t0k3n"]);
        let entry = r#"{ "url": "https://example.org/${TOKEN}/mcp?q=${MODE}" }"#;
        assert_eq!(secrets(entry), ["https://example.org/t0k3n/mcp?q=fast", "t0k3n"]);
    }

    #[test]
    fn what_a_keychain_hands_over_is_a_secret() {
        #[derive(Debug)]
        struct One;
        impl Keychain for One {
            fn get(&self, _: &str, _: &str) -> Result<Secret, KeychainError> {
                Err(KeychainError::Missing)
            }

            fn stored(&self, _: &SecretName) -> Result<Secret, KeychainError> {
                Ok(Secret::new("/st/ored"))
            }
        }
        let text = r#"{ "mcpServers": { "a": { "command": "x", "args": ["${HOME}/${secret:one}/x"] } } }"#;
        let config = Config::of(&Document::of(Path::new("/x/toolway.json"), text).unwrap(), None).unwrap();
        let environment: Environment = [("HOME".into(), "/home/ada".into())].into();
        let resolved = config.find("a").unwrap().endpoint_with_secrets(&environment, &One).unwrap();
        assert!(resolved.secrets.contains(&Secret::new("/st/ored")));
    }

    #[test]
    fn values_without_an_entry_are_judged_by_name_and_form() {
        let shown = |secrets: Vec<crate::Secret>| secrets.iter().map(|it| it.expose().to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(secrets_of_variables([("MODE", "fast"), ("MY_TOKEN", "abcd")])), ["abcd"]);
        let headers = [("accept", "text/plain"), ("authorization", "Bearer abcd")];
        assert_eq!(shown(secrets_of_url("https://u:pass@example.org/?q=word", headers)), ["pass", "abcd"]);
    }
}
