//! The address of a server: a program or a URL, with all references resolved.

use std::{env, fmt};

use http::{HeaderMap, HeaderName, HeaderValue};
use toolway_config::{
    Endpoint, Secret,
    endpoint::{secrets_of_url, secrets_of_variables},
    is_secret_name,
};
use toolway_wire::seal::fingerprint;
use url::Url;

use super::{dial::DialError, era_memory, state::TransportKind, stdio::Program};

/// Address of a server.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A program, connected over stdin and stdout.
    Process(Program),
    /// A URL; the HTTP transport is detected.
    Http {
        /// URL of the endpoint.
        url: Url,
        /// Headers sent with every request.
        headers: HeaderMap,
    },
}

impl ServerAddress {
    /// A URL without additional headers.
    pub fn http(url: Url) -> Self {
        Self::Http { url, headers: HeaderMap::new() }
    }

    /// Converts an endpoint of the configuration.
    pub(super) fn resolved(endpoint: Endpoint) -> Result<Self, DialError> {
        Ok(match endpoint {
            Endpoint::Process { command, arguments, variables, directory } => Self::Process(Program {
                command,
                arguments: arguments.iter().map(|argument| argument.expose().to_owned()).collect(),
                directory,
                variables: variables.iter().map(|(name, value)| (name.into(), value.expose().into())).collect(),
            }),
            Endpoint::Http { url, headers, .. } => {
                let bad_url = |_| DialError::Configuration("invalid URL".to_owned());
                Self::Http { url: Url::parse(url.expose()).map_err(bad_url)?, headers: header_map(&headers)? }
            }
        })
    }

    /// The texts that say which program or URL it is, with their keys. Of secrets only the names are given.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        match self {
            Self::Process(program) => {
                let mut texts = vec![text("command", &program.command)];
                texts.extend(program.arguments.iter().map(|argument| text("args", argument)));
                // Without one it starts in ours, where `./server` is another program than elsewhere.
                let directory = program.directory.clone().or_else(|| env::current_dir().ok());
                texts.extend(directory.iter().map(|folder| text("cwd", &folder.display().to_string())));
                texts.extend(program.variables.iter().map(|(name, value)| {
                    let name = name.to_string_lossy();
                    let is_shown = !is_secret_name(&name);
                    text(&format!("env.{name}"), if is_shown { value.to_str().unwrap_or_default() } else { "" })
                }));
                texts
            }
            Self::Http { url, headers } => {
                let mut texts = vec![text("url", url.as_str())];
                texts.extend(headers.iter().map(|(name, value)| {
                    let is_shown = !is_secret_name(name.as_str());
                    let value = if is_shown { value.to_str().unwrap_or_default() } else { "" };
                    text(&format!("headers.{name}"), value)
                }));
                texts
            }
        }
    }

    /// The secrets in it, by name or form.
    pub(super) fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Process(program) => {
                let pairs =
                    program.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
                secrets_of_variables(pairs)
            }
            Self::Http { url, headers } => {
                let pairs = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
                secrets_of_url(url.as_str(), pairs)
            }
        }
    }

    /// Kind of transport.
    pub(crate) fn kind(&self) -> TransportKind {
        match self {
            Self::Process(_) => TransportKind::Stdio,
            Self::Http { .. } => TransportKind::Http,
        }
    }

    /// The command or the URL, without arguments, keys or query.
    pub(crate) fn displayed(&self) -> String {
        match self {
            Self::Process(program) => program.command.clone(),
            Self::Http { url, .. } => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        }
    }

    /// A digest of URL, headers and configured secrets, by which a stored session recognises its server; `None` for a
    /// program, whose sessions end with it.
    pub(super) fn session_entry(&self, secrets: &[Secret]) -> Option<String> {
        let Self::Http { url, headers } = self else { return None };
        let headers = headers.iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        let secrets = secrets.iter().map(|secret| secret.expose().as_bytes());
        Some(fingerprint([url.as_str().as_bytes()].into_iter().chain(headers).chain(secrets)))
    }

    /// Key of its era in the era memory.
    pub fn era_key(&self) -> String {
        match self {
            Self::Process(program) => era_memory::process_key(program),
            Self::Http { url, .. } => era_memory::address_key(url),
        }
    }
}

fn header_map(headers: &[(String, Secret)]) -> Result<HeaderMap, DialError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || DialError::Configuration(format!("header `{name}` cannot be sent: its name or value is invalid"));
        let header: HeaderName = name.parse().map_err(|_| bad())?;
        let mut text = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        text.set_sensitive(true);
        map.append(header, text);
    }
    Ok(map)
}

/// Prints no secrets: headers, query and user information of a URL may contain tokens.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(program) => program.fmt(f),
            Self::Http { headers, .. } => {
                let place = self.displayed();
                let names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
                f.debug_struct("Http").field("url", &place).field("headers", &names).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::{Program, ServerAddress};

    #[test]
    fn address_does_not_print_its_secrets() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"))]);
        let url = "https://ada:s3cret@example.org:8443/mcp?key=s3cret".parse().unwrap();
        let address = ServerAddress::Http { url, headers };
        assert_eq!(
            format!("{address:?}"),
            r#"Http { url: "https://example.org:8443/mcp", headers: ["authorization"] }"#
        );

        let program = Program {
            arguments: vec!["--key".into(), "s3cret".into()],
            variables: [("KEY".into(), "s3cret".into())].into(),
            ..Program::new("npx")
        };
        assert_eq!(
            format!("{:?}", ServerAddress::Process(program)),
            r#"Program { command: "npx", arguments: 2, directory: None, variables: ["KEY"] }"#
        );
    }
}
