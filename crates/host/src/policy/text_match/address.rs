//! Patterns that are URLs, such as `https://a.example/*`: scheme, host and path are compared as the `url` crate reads them.
//!
//! A `*` in the host matches within the host only. Programs read unusual URLs in different ways (backslashes, user names,
//! other letters than ASCII, missing slashes): such a URL is unclear where its canonical form matches.

use toolway_config::Pattern;
use url::{Host, Url};

use super::{
    Fit, IsMatch, UNCLEAR,
    resolved::{Dots, canonical_host, decoded, inner_address, joined},
};

pub(super) const NOT_AN_ADDRESS: &str = "is not a URL";

/// Letters that the versions of the standard for names of hosts read in different ways.
const DEVIATIONS: [char; 5] = ['ß', 'ẞ', 'ς', '\u{200c}', '\u{200d}'];

/// Schemes with a host, which browsers and most libraries read alike.
const WITH_HOST: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// A pattern that is a URL.
pub(super) enum AddressPattern {
    /// `https://a.example/*`
    Web { scheme: String, host: HostPattern, port: PortPattern, rest: PathPattern },
    /// `file:///etc/*`; the host is ignored.
    File(PathPattern),
    /// The `url` crate does not read it: nothing is known to match.
    Unreadable,
}

/// The host of a pattern, in its canonical form.
pub(super) enum HostPattern {
    /// `a.example`, `*.example`, `10.*`
    Whole(String),
    /// `a.example*`: this host, and unclearly all that begin so, such as `a.example.evil.example`.
    Beginning(String),
}

/// The port of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PortPattern {
    /// None is given: the usual one of the scheme.
    Usual,
    Any,
    Exactly(u16),
}

/// Path and query of a pattern.
pub(super) struct PathPattern {
    /// As the `url` crate writes it.
    written: String,
    /// Without escapes.
    decoded: String,
}

impl AddressPattern {
    /// Reads a pattern; `None` if it is about something else than a web address or a local file.
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let (scheme, rest) = pattern.split_once(':')?;
        let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.*".contains(letter);
        // A pattern about `..` is about the text.
        if scheme.is_empty() || !scheme.chars().all(is_scheme) || pattern.contains("..") {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let glob = Pattern::from(scheme.as_str());
        let is_literal = !scheme.contains('*');
        if glob.matches("file") && (is_literal || rest.starts_with("///")) {
            return Some(Self::file(rest));
        }
        let is_web = WITH_HOST.iter().any(|known| glob.matches(known)) && (is_literal || rest.starts_with("//"));
        is_web.then(|| Self::web(scheme, rest).unwrap_or(Self::Unreadable))
    }

    fn file(rest: &str) -> Self {
        match Url::parse(&format!("file:{rest}")) {
            Ok(url) => Self::File(PathPattern::new(&path_and_query(&url))),
            Err(_) => Self::Unreadable,
        }
    }

    fn web(scheme: String, rest: &str) -> Option<Self> {
        let rest = rest.trim_start_matches(['/', '\\']);
        let (authority, path) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            None => (authority, PortPattern::Usual),
            Some((host, "*")) => (host, PortPattern::Any),
            Some((host, port)) => (host, PortPattern::Exactly(port.parse().ok()?)),
        };
        let url = Url::parse(&format!("https://{host}{path}")).ok()?;
        // `https://a.example*` is about every path of the host.
        let is_open = path.is_empty() && host.ends_with('*');
        let rest = if is_open { "*".to_owned() } else { path_and_query(&url) };
        let host = canonical_host(&url);
        let host = match host.strip_suffix('*').filter(|before| !before.is_empty() && !before.ends_with(['.', '*'])) {
            Some(before) => HostPattern::Beginning(before.to_owned()),
            None => HostPattern::Whole(host),
        };
        Some(Self::Web { scheme, host, port, rest: PathPattern::new(&rest) })
    }

    /// Compares a text with the pattern.
    pub(super) fn compare(&self, text: &str, is_match: IsMatch) -> Fit {
        let Ok(url) = Url::parse(text) else { return Fit::Unclear(NOT_AN_ADDRESS) };
        let is_web = WITH_HOST.contains(&url.scheme());
        if !is_web && url.scheme() != "file" && url.cannot_be_a_base() {
            // `a.example:443/x` and `view-source:https://…` have a scheme of their own.
            return Fit::Unclear(NOT_AN_ADDRESS);
        }
        let fit = match self {
            Self::Unreadable => return Fit::Unclear(UNCLEAR),
            Self::File(_) if url.scheme() != "file" => Fit::Mismatch,
            Self::File(rest) => rest.compare(&url, is_match),
            Self::Web { scheme, host, port, rest } => {
                let is_same = Pattern::from(scheme.as_str()).matches(url.scheme());
                match host.compare(&canonical_host(&url), is_match) {
                    _ if !is_same || !is_web => Fit::Mismatch,
                    Fit::Match => port.compare(&url, rest.compare(&url, is_match)),
                    fit => fit,
                }
            }
        };
        match Spelling::of(text, &url) {
            Spelling::Usual => fit,
            Spelling::Unusual if fit == Fit::Mismatch => fit,
            Spelling::Unusual | Spelling::Ambiguous => Fit::Unclear(UNCLEAR),
        }
    }
}

impl HostPattern {
    fn compare(&self, host: &str, is_match: IsMatch) -> Fit {
        match self {
            Self::Whole(pattern) => Fit::of(is_match(pattern, host)),
            Self::Beginning(before) if is_match(before, host) => Fit::Match,
            Self::Beginning(before) if is_match(&format!("{before}*"), host) => {
                Fit::Unclear("names a host that only begins as the one in the rule")
            }
            Self::Beginning(_) => Fit::Mismatch,
        }
    }
}

impl PortPattern {
    fn compare(self, url: &Url, fit: Fit) -> Fit {
        match self {
            Self::Any => fit,
            Self::Usual if url.port().is_none() || fit == Fit::Mismatch => fit,
            // Another service of the same host.
            Self::Usual => Fit::Unclear("names another port than the usual one"),
            Self::Exactly(port) if url.port_or_known_default() == Some(port) => fit,
            Self::Exactly(_) => Fit::Mismatch,
        }
    }
}

impl PathPattern {
    fn new(written: &str) -> Self {
        Self { written: written.to_owned(), decoded: decoded(written) }
    }

    /// Compares the path as it is written, and as a server reads it that decodes it first.
    fn compare(&self, url: &Url, is_match: IsMatch) -> Fit {
        let written = path_and_query(url);
        let path = joined(&decoded(url.path()).replace('\\', "/"), Dots::Resolve, true);
        let query = decoded(&written[url.path().len()..]);
        let is_open = |wanted: &str, text: &str| is_match(wanted, text) || is_match(wanted, text.trim_end_matches('/'));
        let readings = [is_open(&self.written, &written), is_open(&self.decoded, &format!("{path}{query}"))];
        Fit::of_readings(readings.into_iter(), UNCLEAR)
    }
}

/// How a URL is written.
enum Spelling {
    /// All programs read it alike.
    Usual,
    /// Its canonical form differs in more than case.
    Unusual,
    /// Programs find different hosts in it.
    Ambiguous,
}

impl Spelling {
    fn of(text: &str, url: &Url) -> Self {
        let after_scheme = text.split_once(':').map_or("", |(_, rest)| rest);
        let hierarchical = after_scheme.trim_start_matches(['/', '\\']);
        let authority = hierarchical.split('/').next().unwrap_or_default();
        let has_space = |letter: char| letter.is_control() || letter.is_whitespace();
        let count = authority.matches('@').count();
        if authority.contains('\\') || 1 < count || (count == 1 && authority.contains(['#', '?'])) {
            return Self::Ambiguous;
        }
        // Older readers write `fass` for `faß`, and find `#` in a user name that ends with `＃`.
        let is_user_plain = authority.rsplit_once('@').is_none_or(|(user, _)| user.is_ascii());
        if authority.contains(DEVIATIONS) || !is_user_plain {
            return Self::Ambiguous;
        }
        let slashes = after_scheme.len() - hierarchical.len();
        let is_local = url.scheme() == "file" && url.host_str().is_none_or(|host| host == "localhost");
        let is_usual = authority.is_ascii()
            && count == 0
            && !authority.contains('%')
            && !text.contains(has_space)
            && (slashes == 2 || is_local)
            && !after_scheme.split(['?', '#']).next().unwrap_or_default().contains('\\')
            && is_usual_host(authority, url)
            && (url.scheme() != "file" || is_local);
        if is_usual { Self::Usual } else { Self::Unusual }
    }
}

/// Whether the host is written as the `url` crate writes it, but for case.
fn is_usual_host(authority: &str, url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_mapped = matches!(url.host(), Some(Host::Ipv6(address)) if inner_address(address).is_some());
    url.scheme() == "file" || (!is_mapped && authority.to_ascii_lowercase().starts_with(host))
}

fn path_and_query(url: &Url) -> String {
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
    format!("{}{query}{fragment}", url.path())
}

/// Whether a text names a host that a pattern is about: `evil.example` for `EVIL.example/x` and `https://evil.example/`,
/// `127.0.0.1` for `2130706433`.
pub(super) fn names_host(pattern: &str, text: &str, is_match: IsMatch) -> bool {
    let is_about_hosts = pattern.contains(['.', ':']) && !pattern.contains(char::is_whitespace);
    if !is_about_hosts {
        return false;
    }
    let rest = text.trim_start_matches(['/', '\\']);
    let names = |url: &Url| is_match(&pattern.to_lowercase(), &canonical_host(url));
    let is_address = Url::parse(text).is_ok_and(|url| WITH_HOST.contains(&url.scheme()) && names(&url));
    is_address || Url::parse(&format!("https://{rest}")).is_ok_and(|url| names(&url))
}
