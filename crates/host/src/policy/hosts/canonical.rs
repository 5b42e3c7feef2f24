//! The host of a URL in one spelling, as the URL standard and as older readers find it.

use toolway_config::canonical_host;
use url::{ParseError, Url};

use super::url_token::{UrlForm, UrlPlace, UrlToken};

/// Schemes whose URLs always have a host, also without `//`, and whose backslashes are slashes.
pub(crate) const SPECIAL_SCHEMES: &[&str] = &["http", "https", "ws", "wss", "ftp", "file"];
/// Bytes of user name, password, host and port. More cannot be read.
const MAX_AUTHORITY: usize = 2_000;
/// Schemes around a URL: `view-source:`, `feed:`, `jar:`.
const MAX_WRAPPERS: usize = 4;
/// Media types of `data:` URLs that run no programs and load nothing.
const INERT_TYPES: &[&str] = &["image/", "audio/", "video/", "font/", "text/plain", "text/csv", "application/json"];

/// A text without the characters that readers of URLs remove at both ends.
pub(crate) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c.is_control())
}

/// The hosts that readers find in a URL: more than one if they differ. `None` stands for one that cannot be parsed.
pub(crate) fn hosts_of(token: &UrlToken<'_>) -> Vec<Option<String>> {
    let scheme = token.scheme();
    let is_special = token.form == UrlForm::SchemeRelative || is_special(scheme);
    if scheme.eq_ignore_ascii_case("file") {
        return Url::parse(token.text).map_or_else(|_| vec![None], |url| host(&url).map(Some).into_iter().collect());
    }
    let rest = token.after_scheme();
    let rest = match rest.strip_prefix("//") {
        Some(rest) if !is_special => rest,
        _ => rest.trim_start_matches(['/', '\\']),
    };
    let older = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = if is_special { older.split('\\').next().unwrap_or_default() } else { older };
    let authority = if authority.len() < rest.len() { authority } else { without_sentence(authority) };
    let mut hosts = if authority.is_empty() { Vec::new() } else { hosts_of_authority(authority, token.place) };
    if let Some((_, other)) = token.wide_authority().and_then(|wide| wide.rsplit_once('@')) {
        let host = host_of_authority(without_sentence(other)).or_else(|| host_of_authority(other));
        hosts.extend(host.map(Some));
    }
    // `https://a\@b/`: the standard reads `a`, older readers `b`.
    if let Some((_, other)) = older.rsplit_once('@').filter(|_| authority.len() < older.len()) {
        hosts.push(host_of_authority(other));
    }
    hosts
}

fn hosts_of_authority(authority: &str, place: UrlPlace) -> Vec<Option<String>> {
    let (user, name) = authority.rsplit_once('@').unwrap_or(("", authority));
    let first = name.split('&').next().unwrap_or_default();
    let whole = host_of_authority(authority);
    // In a query, the next parameter follows. Elsewhere `good.example&.evil.example` is a name below `evil.example`.
    let goes_on = |host: &String| host.split_once('&').is_some_and(|(_, rest)| rest.contains('.'));
    let is_whole = first.len() == name.len()
        || (place == UrlPlace::Text
            && whole.as_ref().map_or(name[first.len()..].contains(['.', '。', '．', '｡', '%']), goes_on));
    let before_next = &authority[..authority.len() - (name.len() - first.len())];
    let mut hosts = vec![if is_whole { whole } else { host_of_authority(before_next) }];
    // A reader that normalises letters first finds `#` in `https://evil.example＃@good.example`.
    if !user.is_ascii() {
        hosts.push(None);
    }
    hosts
}

/// The host of a text that is one URL from its beginning to its end, with line breaks and spaces in it.
pub(crate) fn host_of_whole(text: &str) -> Option<String> {
    let joined = text.replace(['\t', '\r', '\n'], "");
    let joined = trimmed(&joined);
    match Url::parse(joined) {
        Ok(url) => host(&url),
        Err(ParseError::RelativeUrlWithoutBase) => {
            let rest = joined.trim_start_matches(['/', '\\']);
            let is_comment = joined.starts_with('\\') && !rest.contains(['.', '/', '\\']);
            if joined.len() < rest.len() + 2 || is_comment {
                return None;
            }
            Url::parse(&format!("https://{rest}")).ok().as_ref().and_then(host)
        }
        Err(_) => None,
    }
}

/// Whether a text is a URL whose content is a program, also inside of `view-source:` and the like: it can reach any host.
pub(crate) fn is_active_content(text: &str) -> bool {
    let head: String = text.chars().filter(|c| !matches!(c, '\t' | '\r' | '\n')).take(200).collect();
    let mut rest = head.as_str();
    for _ in 0..MAX_WRAPPERS {
        let Some((scheme, content)) = rest.split_once(':') else { return false };
        match scheme.to_ascii_lowercase().as_str() {
            "javascript" | "vbscript" => return true,
            "data" => return text.contains(',') && is_active_type(content),
            _ => rest = content,
        }
    }
    false
}

/// Whether the content of a `data:` URL, which begins with its media type, is a program.
fn is_active_type(content: &str) -> bool {
    let kind = content.split(',').next().unwrap_or_default().trim().to_ascii_lowercase();
    let has_type = kind.split(';').next().is_some_and(|kind| kind.contains('/'));
    has_type && (kind.contains("svg") || !INERT_TYPES.iter().any(|inert| kind.starts_with(inert)))
}

/// A text after one percent-decode; `None` if there is nothing to decode.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while let Some(byte) = bytes.get(position) {
        let digit = |at: usize| bytes.get(position + at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                position += 3;
            }
            _ => {
                decoded.push(*byte);
                position += 1;
            }
        }
    }
    (decoded.len() < bytes.len()).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// The host of `user:password@host:port`.
pub(crate) fn host_of_authority(authority: &str) -> Option<String> {
    if MAX_AUTHORITY < authority.len() {
        return None;
    }
    let (user, name) = authority.rsplit_once('@').unwrap_or(("", authority));
    Url::parse(&format!("https://{user}@{name}/")).ok().as_ref().and_then(host)
}

fn host(url: &Url) -> Option<String> {
    let text = url.host_str().filter(|host| !host.is_empty())?;
    if url.scheme() == "file" && text == "localhost" {
        return None;
    }
    // Hosts of other schemes are kept as they were written.
    canonical_host(text).or_else(|| Some(text.to_lowercase()).filter(|text| text.contains(|c| c != '.')))
}

/// Whether URLs of this scheme always have a host.
pub(super) fn is_special(scheme: &str) -> bool {
    SPECIAL_SCHEMES.iter().any(|special| special.eq_ignore_ascii_case(scheme))
}

/// A host that ends a sentence, or stands in parentheses or quotes.
fn without_sentence(authority: &str) -> &str {
    authority
        .trim_end_matches(['.', ',', ';', ':', '!', '\'', '*', '_', ')', '}', '”', '’', '»', '…', '。', '，', '、'])
}
