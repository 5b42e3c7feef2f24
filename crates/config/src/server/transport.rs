//! Transport of a server as written: a program to start or a URL to connect to.

use super::{
    VariablesFile,
    auth::{Auth, OAuth, TextKind},
};
use crate::interpolate::Template;

/// Transport of a server; references are resolved when it is started or connected. Lines are ignored in comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A program (stdio).
    Process(Process),
    /// A URL (HTTP).
    Http(Http),
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Program name or path.
    pub command: Template,
    /// Program arguments.
    pub arguments: Vec<Template>,
    /// Environment variables, in addition to those every server gets.
    pub variables: Vec<(String, Template)>,
    /// File with further variables; `variables` takes precedence.
    pub variables_file: Option<VariablesFile>,
    /// Working directory; `None` means the default of the source.
    pub directory: Option<Template>,
}

/// A URL to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Server URL.
    pub url: Template,
    /// Headers sent with every request.
    pub headers: Vec<(String, Template)>,
    /// Transport to use.
    pub kind: HttpKind,
    /// Whether plain http to other machines is allowed.
    pub plain: PlainHttp,
    /// Authentication; `None` means OAuth, or none if `headers` has `Authorization`.
    pub auth: Option<Box<Auth<Template>>>,
    /// OAuth settings.
    pub oauth: Box<OAuth<Template>>,
}

/// HTTP transport of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP, with HTTP+SSE as fallback.
    #[default]
    Auto,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// Whether plain http to other machines is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to this machine.
    #[default]
    Loopback,
    /// To any machine (`allowInsecureHttp`).
    Anywhere,
}

impl Transport {
    /// All strings with their keys.
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
    /// All strings of `auth` and `oauth` with their keys.
    pub(crate) fn sign_in_texts(&self) -> impl Iterator<Item = (&'static str, TextKind, &Template)> {
        self.auth.iter().flat_map(|auth| auth.texts()).chain(self.oauth.texts())
    }

    /// Whether `headers` has `Authorization`.
    pub fn has_authorization(&self) -> bool {
        has_header(&self.headers, "authorization")
    }
}

/// Whether a header is in the list.
pub(crate) fn has_header<T>(headers: &[(String, T)], wanted: &str) -> bool {
    headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
}

fn named<'a>(key: &str, pairs: &'a [(String, Template)]) -> impl Iterator<Item = (String, &'a Template)> {
    pairs.iter().map(move |(name, text)| (format!("{key}.{name}"), text))
}
