//! Paths and addresses in one spelling, for texts and patterns alike. Runs of slashes are one slash, also after a scheme, so
//! that an address in the middle of a command stays comparable.

/// Schemes whose readers accept any number of slashes before the host.
const LENIENT: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// What happens to `.` and `..`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dots {
    /// They are resolved; above the root is the root.
    Resolve,
    /// They stay.
    Keep,
}

/// A text with a scheme.
pub(super) struct Address {
    /// Scheme and host in lower case, without user, default port and final dot: `https:/a.example`, `file:`.
    pub(super) origin: String,
    path: String,
    /// From `?` or `#` to the end; empty without them.
    query: String,
    /// The scheme is one that readers treat alike.
    pub(super) is_well_known: bool,
}

impl Address {
    /// Reads an address; `None` for other texts. Escapes are decoded on request.
    pub(super) fn parse(text: &str, decode: bool) -> Option<Self> {
        let (scheme, rest) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme))?;
        let scheme = scheme.to_ascii_lowercase();
        let is_lenient = LENIENT.contains(&scheme.as_str());
        let is_well_known = is_lenient || scheme == "file";
        // Backslashes are slashes where browsers read them so.
        let rest = if is_well_known { rest.replace('\\', "/") } else { rest.to_owned() };
        let hierarchical = match rest.strip_prefix("//") {
            Some(rest) if is_lenient => rest.trim_start_matches('/'),
            Some(rest) => rest,
            None if is_lenient => rest.strip_prefix('/')?,
            // No host.
            None if scheme == "file" && rest.starts_with('/') => &rest,
            None => return None,
        };
        let split = |text: &'_ str, ends: &[char]| text.find(ends).unwrap_or(text.len());
        let (authority, rest) = hierarchical.split_at(split(hierarchical, &['/', '?', '#']));
        let (path, query) = rest.split_at(split(rest, &['?', '#']));
        // Only now: an escaped slash or question mark ends nothing.
        let decoded = |text: &str| if decode { decoded(text) } else { text.to_owned() };
        let host = plain_host(&decoded(authority), &scheme);
        let origin = if host.is_empty() { format!("{scheme}:") } else { format!("{scheme}:/{host}") };
        Some(Self { origin, path: decoded(path), query: decoded(query), is_well_known })
    }

    /// The address in one spelling.
    pub(super) fn resolved(&self, dots: Dots) -> String {
        let (path, query) = (self.path.replace('\\', "/"), self.query.replace('\\', "/"));
        format!("{}{}{}", self.origin, joined(&path, dots, true), joined(&query, Dots::Keep, false))
    }

    /// The path of a local file.
    pub(super) fn file(&self) -> Option<&str> {
        (self.origin == "file:").then_some(&*self.path)
    }
}

/// A pattern for [`Address::resolved`]: an address if it is one, otherwise a path.
pub(super) fn plain(pattern: &str, dots: Dots) -> String {
    Address::parse(pattern, false).map_or_else(|| path(pattern, dots), |address| address.resolved(dots))
}

/// A path in one spelling, of a drive or not.
pub(super) fn path(text: &str, dots: Dots) -> String {
    let text = text.replace('\\', "/");
    let is_drive = text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text[1..].starts_with(":/");
    let (drive, path) = text.split_at(if is_drive { 2 } else { 0 });
    format!("{drive}{}", joined(path, dots, path.starts_with('/')))
}

/// Segments without empty ones; nothing is above the root of an absolute path.
fn joined(path: &str, dots: Dots, is_absolute: bool) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" => {}
            "." if dots == Dots::Resolve => {}
            ".." if dots == Dots::Resolve => match kept.last() {
                Some(&last) if last != ".." => drop(kept.pop()),
                _ if is_absolute => {}
                _ => kept.push(segment),
            },
            _ => kept.push(segment),
        }
    }
    let (root, end) = (path.starts_with('/'), path.ends_with('/') && !kept.is_empty());
    format!("{}{}{}", if root { "/" } else { "" }, kept.join("/"), if end { "/" } else { "" })
}

/// One letter is a drive.
fn is_scheme(scheme: &str) -> bool {
    1 < scheme.len()
        && scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
}

fn plain_host(authority: &str, scheme: &str) -> String {
    let default_port = match scheme {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => ":",
    };
    let host = authority.rsplit('@').next().unwrap_or_default().to_lowercase();
    let host = host.strip_suffix(default_port).unwrap_or(&host).trim_end_matches('.');
    if (scheme, host) == ("file", "localhost") { String::new() } else { host.to_owned() }
}

fn decoded(text: &str) -> String {
    let (bytes, mut decoded) = (text.as_bytes(), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
