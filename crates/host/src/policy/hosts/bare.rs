//! Hosts without a scheme, where an argument is said to be one.

use super::canonical::{host_of_authority, is_special, trimmed};

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BareHosts {
    /// Hosts without a scheme do not count.
    No,
    /// Words that look like a host. One that is the whole text may also look like a file.
    Words,
    /// Words that look like a host and not like a file.
    Sentence,
    /// The whole text is a URI; one without a scheme begins with a host.
    Address,
    /// The whole text is a URI or a path; it begins with a host if its first part looks like one.
    Reference,
    /// The whole text is a host.
    Hostname,
}

/// Endings of file names that are also names of countries, or look like them. In a sentence they are files.
const FILE_ENDINGS: &[&str] = &[
    "md", "rs", "py", "js", "ts", "sh", "pl", "cc", "so", "ps", "txt", "pdf", "json", "yaml", "yml", "toml", "xml",
    "csv", "html", "css", "go", "java", "png", "jpg", "gif", "svg", "zip", "gz", "log", "lock", "rb", "php", "cpp",
    "hpp", "doc", "docx", "xls", "xlsx", "ini", "cfg", "conf", "fs",
];

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// It is the whole text.
    Alone,
    /// Among other words.
    Sentence,
}

impl BareHosts {
    /// By the `format` of a JSON Schema; `None` if it names no host.
    pub(super) fn of_format(format: &str) -> Option<Self> {
        match format {
            "uri" | "url" | "iri" => Some(Self::Address),
            "uri-reference" | "iri-reference" => Some(Self::Reference),
            "hostname" | "idn-hostname" | "ipv4" | "ipv6" => Some(Self::Hostname),
            _ => None,
        }
    }
}

/// The hosts of a text; `Err` with a text that must be one and cannot be parsed.
pub(super) fn hosts(text: &str, bare: BareHosts) -> Vec<Result<String, String>> {
    let text = trimmed(text);
    if text.is_empty() {
        return Vec::new();
    }
    let whole = || text.replace(['\t', '\r', '\n'], "");
    match bare {
        BareHosts::No => Vec::new(),
        BareHosts::Words | BareHosts::Sentence => {
            let is_alone = bare == BareHosts::Words && !text.contains(char::is_whitespace);
            let position = if is_alone { Position::Alone } else { Position::Sentence };
            let words = text.split(|c: char| c.is_whitespace() || "\"'`<>(){}[],;|=&".contains(c));
            words.filter_map(|word| word_host(word, position)).map(Ok).collect()
        }
        BareHosts::Hostname => {
            let host = host_of_authority(&bracketed(&whole()));
            vec![host.ok_or_else(|| text.to_owned())]
        }
        BareHosts::Address if has_scheme(&whole()) => Vec::new(),
        BareHosts::Address => {
            let whole = whole();
            let first = whole.trim_start_matches(['/', '\\']);
            let first = first.split(['/', '\\', '?', '#']).next().unwrap_or_default();
            vec![host_of_authority(&bracketed(first)).ok_or_else(|| text.to_owned())]
        }
        BareHosts::Reference => {
            let whole = whole();
            if has_scheme(&whole) {
                Vec::new()
            } else {
                word_host(&whole, Position::Alone).map(Ok).into_iter().collect()
            }
        }
    }
}

/// What follows the scheme of a URI that has no authority: `page:a.example/x`, `page:///a.example/x`. `None` for others, and
/// for schemes that always have a host.
pub(super) fn without_authority(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':').filter(|_| has_scheme(uri))?;
    let has_authority = rest.starts_with("//") && !rest.starts_with("///");
    (!has_authority && !is_special(scheme)).then(|| rest.trim_start_matches('/'))
}

/// `scheme:…`, and not `host:port`.
fn has_scheme(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port =
        port.is_empty() && scheme.contains('.') || !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    // A URL with `//` after its scheme is found as such.
    is_scheme && !is_port && !scheme.contains('.')
}

/// An IPv6 address is written in brackets.
fn bracketed(host: &str) -> String {
    let is_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    if is_ipv6 { format!("[{host}]") } else { host.to_owned() }
}

/// The host that a word begins with, if it looks like one.
fn word_host(word: &str, position: Position) -> Option<String> {
    let is_alone = position == Position::Alone;
    let word = word.trim_start_matches('.').trim_end_matches(['.', ',', ':', '!', '?']);
    let first = word.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let has_more = first.len() < word.len();
    let (user, host) = first.rsplit_once('@').map_or((None, first), |(user, host)| (Some(user), host));
    // An address of e-mail is not a host.
    if user.is_some() && !has_more {
        return None;
    }
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if port.is_some() && !has_port {
        return None;
    }
    let canonical = host_of_authority(name)?;
    let is_address = canonical.parse::<std::net::Ipv4Addr>().is_ok() && (name.matches('.').count() == 3 || has_port);
    let named = name.eq_ignore_ascii_case("localhost") && (is_alone || has_port || has_more);
    let dotless = is_alone && has_port && !canonical.contains('.') && canonical.parse::<std::net::Ipv4Addr>().is_err();
    let is_file = !(is_alone || has_more || has_port) && is_file_name(&canonical);
    (is_address || named || dotless || (looks_like_domain(&canonical) && !is_file)).then_some(canonical)
}

/// Inside a sentence, `main.rs` is a file. A name with more labels may carry data to a host.
fn is_file_name(name: &str) -> bool {
    let ending = name.split_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| FILE_ENDINGS.contains(&ending))
}

/// Whether a name has the labels of a domain.
fn looks_like_domain(name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let Some(last) = labels.last().filter(|_| labels.len() > 1 && labels.iter().all(is_label)) else {
        return false;
    };
    last.starts_with("xn--") || (last.len() > 1 && last.bytes().all(|byte| byte.is_ascii_alphabetic()))
}
