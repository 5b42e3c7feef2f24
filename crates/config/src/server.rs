//! One entry of `mcpServers`: the common snippet as people paste it, and the name made from its label.

use std::{fmt, path::PathBuf, str::FromStr};

use url::Url;

use crate::{
    document::Section,
    error::{ConfigError, Place},
    interpolate,
    paths::Environment,
    secret::Secret,
};

/// A server's id: lower-case letters, digits, `_` and `-`, 1 to 32 of them, never `__`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(String);

/// A text that names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no server name: 1 to 32 of a-z, 0-9, `_` and `-`, without `__`")]
pub struct InvalidServerName(pub String);

/// One server as it was written; variables are put in when it is needed.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// As it was pasted.
    pub label: String,
    /// Made from the label.
    pub name: ServerName,
    /// Where it stands.
    pub place: Place,
    /// Whether it may be used.
    pub standing: Standing,
    written: Written,
}

/// Whether an entry may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Enabled,
    /// `"disabled": true`, or `"enabled": false`.
    Disabled,
}

/// How a server is reached, variables put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A program.
    Process {
        /// Its name or path.
        command: String,
        /// Its arguments; people put keys into them.
        arguments: Vec<Secret>,
        /// What it is given besides what every server sees.
        variables: Vec<(String, Secret)>,
        /// Where it runs.
        directory: Option<PathBuf>,
    },
    /// An address.
    Http {
        /// Where; people put keys into it.
        url: Secret,
        /// Sent with every request.
        headers: Vec<(String, Secret)>,
    },
}

/// The values with their variables in them.
#[derive(Clone, Debug)]
enum Written {
    Process { command: Secret, arguments: Vec<Secret>, variables: Vec<(String, Secret)>, directory: Option<PathBuf> },
    Http { url: Secret, headers: Vec<(String, Secret)> },
}

/// Keys other hosts know and we have no use for yet.
const OF_OTHERS: [&str; 14] = [
    "alwaysAllow",
    "autoApprove",
    "description",
    "disabledTools",
    "envFile",
    "excludeTools",
    "includeTools",
    "lifecycle",
    "name",
    "oauth",
    "startup_timeout_sec",
    "timeout",
    "tools",
    "trust",
];

// === impl ServerName ===

impl ServerName {
    /// The name a label gives: lower case, anything else than letters, digits, `_` and `-` a `-`, at most 32.
    pub fn from_label(label: &str) -> Result<Self, InvalidServerName> {
        let mut name = String::new();
        for letter in label.chars().map(|letter| letter.to_ascii_lowercase()) {
            let letter = if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
            let doubled = matches!(letter, '-' | '_') && name.ends_with(letter);
            if !doubled {
                name.push(letter);
            }
        }
        name.truncate(32);
        name.trim_matches('-').parse().map_err(|_| InvalidServerName(label.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerName {
    type Err = InvalidServerName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if !(1..=32).contains(&text.len()) || text.contains("__") || !text.bytes().all(plain) {
            return Err(InvalidServerName(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl ServerConfig ===

impl ServerConfig {
    /// Reads one entry; what is odd about it is added to `warnings`. `home` is where a program runs when the entry
    /// does not say.
    pub(crate) fn read(
        label: &str,
        mut entry: Section<'_>,
        home: Option<&PathBuf>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigError> {
        let place = entry.place();
        let expected = "1 to 32 letters, digits, `_` or `-`".to_owned();
        let name = ServerName::from_label(label).map_err(|_| ConfigError::Expected {
            place: place.clone(),
            key: label.to_owned(),
            expected,
        })?;
        let disabled = entry.take_flag("disabled")?.unwrap_or(false) || !entry.take_flag("enabled")?.unwrap_or(true);
        let written = Written::read(&mut entry, home)?;
        for key in entry.keys() {
            let what = if OF_OTHERS.contains(&key) { "is not used yet" } else { "is unknown" };
            warnings.push(format!("{place}: `{}` {what} and changes nothing", entry.name(key)));
        }
        let standing = if disabled { Standing::Disabled } else { Standing::Enabled };
        Ok(Self { label: label.to_owned(), name, place, standing, written })
    }

    /// How the server is reached, with the variables of this environment.
    pub fn endpoint(&self, environment: &Environment) -> Result<Endpoint, ConfigError> {
        let expand = |key: &str, text: &Secret| {
            interpolate::expand(text.expose(), environment).map_err(|unset| ConfigError::Unset {
                place: self.place.clone(),
                key: format!("{}.{key}", self.label),
                variable: unset.0,
            })
        };
        let pairs = |key: &str, pairs: &[(String, Secret)]| {
            let pair = |(name, value): &(String, Secret)| {
                Ok((name.clone(), Secret::new(expand(&format!("{key}.{name}"), value)?)))
            };
            pairs.iter().map(pair).collect::<Result<Vec<_>, ConfigError>>()
        };
        match &self.written {
            Written::Process { command, arguments, variables, directory } => Ok(Endpoint::Process {
                command: expand("command", command)?,
                arguments: arguments
                    .iter()
                    .map(|argument| expand("args", argument).map(Secret::new))
                    .collect::<Result<_, _>>()?,
                variables: pairs("env", variables)?,
                directory: directory.clone(),
            }),
            Written::Http { url, headers } => {
                let url = expand("url", url)?;
                if !is_web_address(&url) {
                    return Err(ConfigError::Expected {
                        place: self.place.clone(),
                        key: format!("{}.url", self.label),
                        expected: "an http or https address".to_owned(),
                    });
                }
                Ok(Endpoint::Http { url: Secret::new(url), headers: pairs("headers", headers)? })
            }
        }
    }
}

/// Whether this is an address a server can be at.
pub fn is_web_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

// === impl Written ===

impl Written {
    fn read(entry: &mut Section<'_>, home: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let kind = entry.take_text("type")?;
        let command = entry.take_text("command")?;
        let url = entry.take_text("url")?;
        let over_http = match kind.as_deref() {
            Some("stdio" | "local") => false,
            Some("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "sse" | "remote") => true,
            Some(_) => return Err(entry.expected("type", "`stdio`, `http` or `sse`")),
            None if command.is_some() && url.is_some() => {
                return Err(entry.expected("command", "the only one, or `url`: a server is a program or an address"));
            }
            None => url.is_some(),
        };
        if over_http {
            let url = url.ok_or_else(|| entry.expected("url", "the server's address"))?;
            return Ok(Self::Http { url: Secret::new(url), headers: secrets(entry.take_pairs("headers")?) });
        }
        let command = command.filter(|command| !command.is_empty());
        let command = command.ok_or_else(|| entry.expected("command", "the program to start, or `url` an address"))?;
        let folder = entry.place().file.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Self::Process {
            command: Secret::new(command),
            arguments: entry.take_texts("args")?.into_iter().map(Secret::new).collect(),
            variables: secrets(entry.take_pairs("env")?),
            directory: entry.take_text("cwd")?.map(|directory| folder.join(directory)).or_else(|| home.cloned()),
        })
    }
}

fn secrets(pairs: Vec<(String, String)>) -> Vec<(String, Secret)> {
    pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::ServerName;

    #[test]
    fn a_label_becomes_a_name() {
        for (label, name) in [
            ("files", "files"),
            ("My Files", "my-files"),
            ("@scope/server.git", "scope-server-git"),
            ("a__b", "a_b"),
            ("GitHub (work)", "github-work"),
            ("x234567890123456789012345678901234567890", "x2345678901234567890123456789012"),
        ] {
            assert_eq!(ServerName::from_label(label).unwrap().as_str(), name, "{label}");
        }
        assert!(ServerName::from_label("").is_err());
        assert!(ServerName::from_label("日本").is_err());
    }
}
