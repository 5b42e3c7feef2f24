//! How a server is reached, as it was written: a program to start or an address to dial.

use super::{
    VariablesFile,
    auth::{Auth, Nature, OAuth},
};
use crate::interpolate::Template;

/// How a server is reached; references are put in when it is started or dialled. Two are equal if they say the
/// same, wherever they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A program.
    Process(Process),
    /// An address.
    Http(Http),
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its name or path.
    pub command: Template,
    /// Its arguments.
    pub arguments: Vec<Template>,
    /// Variables it is given besides what every server sees.
    pub variables: Vec<(String, Template)>,
    /// A file of further variables; what the entry itself says goes before it.
    pub variables_file: Option<VariablesFile>,
    /// Where it runs.
    pub directory: Option<Template>,
}

/// An address to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Where.
    pub url: Template,
    /// Sent with every request.
    pub headers: Vec<(String, Template)>,
    /// Which transport is spoken there.
    pub kind: HttpKind,
    /// Whether plain http may leave this machine.
    pub plain: PlainHttp,
    /// How requests say who asks; nothing said means that a person signs in, or that a header says it.
    pub auth: Option<Box<Auth<Template>>>,
    /// What is not left to discovery and registration.
    pub oauth: Box<OAuth<Template>>,
}

/// Which of the transports over HTTP a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, and HTTP+SSE where that is not understood.
    #[default]
    Auto,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// Whether plain http may leave this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to this machine itself.
    #[default]
    Loopback,
    /// Anywhere: `allowInsecureHttp` says so.
    Anywhere,
}

impl Transport {
    /// Every text of it with the key it stands under.
    pub fn texts(&self) -> Vec<(String, &Template)> {
        let mut texts = Vec::new();
        match self {
            Self::Process(process) => {
                texts.push(("command".to_owned(), &process.command));
                texts.extend(process.arguments.iter().map(|argument| ("args".to_owned(), argument)));
                texts.extend(named("env", &process.variables));
                texts.extend(process.variables_file.iter().map(|file| ("envFile".to_owned(), &file.path)));
                texts.extend(process.directory.iter().map(|directory| ("cwd".to_owned(), directory)));
            }
            Self::Http(http) => {
                texts.push(("url".to_owned(), &http.url));
                texts.extend(named("headers", &http.headers));
                texts.extend(http.sign_in_texts().map(|(key, _, text)| (key.to_owned(), text)));
            }
        }
        texts
    }
}

impl Http {
    /// Every text of `auth` and `oauth` with its key.
    pub(crate) fn sign_in_texts(&self) -> impl Iterator<Item = (&'static str, Nature, &Template)> {
        self.auth.iter().flat_map(|auth| auth.texts()).chain(self.oauth.texts())
    }

    /// Whether a header of the entry says who asks.
    pub fn has_authorization(&self) -> bool {
        has_header(&self.headers, "authorization")
    }
}

/// Whether a header is among these.
pub(crate) fn has_header<T>(headers: &[(String, T)], wanted: &str) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

fn named<'a>(key: &str, pairs: &'a [(String, Template)]) -> impl Iterator<Item = (String, &'a Template)> {
    pairs.iter().map(move |(name, text)| (format!("{key}.{name}"), text))
}
