//! Paths and addresses in one spelling, for texts and patterns alike. Runs of slashes are one slash, also after a scheme, so
//! that an address in the middle of a command stays comparable.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// What happens to `.` and `..`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dots {
    /// They are resolved; above the root is the root.
    Resolve,
    /// They stay.
    Keep,
}

/// A text that is a URL.
pub(super) struct Address {
    /// Scheme and canonical host, without user and default port: `https:/a.example`, `file:`.
    pub(super) origin: String,
    path: String,
    /// From `?` or `#` to the end; empty without them.
    query: String,
    /// The scheme is one that readers treat alike.
    pub(super) is_well_known: bool,
}

impl Address {
    /// Reads an address; `None` for other texts.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        // One letter is a drive.
        if url.scheme().len() < 2 || url.cannot_be_a_base() {
            return None;
        }
        let is_well_known = matches!(url.scheme(), "http" | "https" | "ws" | "wss" | "ftp" | "file");
        let host = if url.scheme() == "file" { String::new() } else { canonical_host(&url) };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let origin =
            if host.is_empty() { format!("{}:", url.scheme()) } else { format!("{}:/{host}{port}", url.scheme()) };
        let query = url.as_str().find(['?', '#']).map_or("", |at| &url.as_str()[at..]);
        Some(Self { origin, path: url.path().to_owned(), query: query.to_owned(), is_well_known })
    }

    /// The address in one spelling, without escapes.
    pub(super) fn resolved(&self, dots: Dots) -> String {
        let path = joined(&decoded(&self.path).replace('\\', "/"), dots, true);
        format!("{}{path}{}", self.origin, joined(&decoded(&self.query).replace('\\', "/"), Dots::Keep, false))
    }

    /// The path of a local file. Its host is ignored, as most programs do.
    pub(super) fn file(&self) -> Option<String> {
        (self.origin == "file:").then(|| decoded(&self.path))
    }
}

/// The host in lower case, without final dot; IPv4 inside of IPv6 as IPv4.
pub(super) fn canonical_host(url: &Url) -> String {
    match url.host() {
        Some(Host::Ipv6(address)) => {
            inner_address(address).map_or_else(|| address.to_string(), |inner| inner.to_string())
        }
        Some(host) => host.to_string().to_lowercase().trim_end_matches('.').to_owned(),
        None => String::new(),
    }
}

/// The IPv4 address inside of an IPv6 address: mapped, compatible, or translated (RFC 6052).
pub(super) fn inner_address(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [high @ .., left, right] = address.segments();
    let is_carrier = match high {
        [0, 0, 0, 0, 0, 0] => left != 0,
        other => other == [0, 0, 0, 0, 0, 0xffff] || other == [0x64, 0xff9b, 0, 0, 0, 0],
    };
    is_carrier.then(|| Ipv4Addr::from((u32::from(left) << 16) | u32::from(right)))
}

/// A pattern for [`Address::resolved`]: an address if it is one, otherwise a path.
pub(super) fn plain(pattern: &str, dots: Dots) -> String {
    Address::parse(pattern).map_or_else(|| path(pattern, dots), |address| address.resolved(dots))
}

/// A path in one spelling, of a drive or not.
pub(super) fn path(text: &str, dots: Dots) -> String {
    let text = text.replace('\\', "/");
    let is_drive = text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text[1..].starts_with(":/");
    let (drive, path) = text.split_at(if is_drive { 2 } else { 0 });
    format!("{drive}{}", joined(path, dots, path.starts_with('/')))
}

/// Segments without empty ones; nothing is above the root of an absolute path.
pub(super) fn joined(path: &str, dots: Dots, is_absolute: bool) -> String {
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

/// The text without escapes, decoded once.
pub(super) fn decoded(text: &str) -> String {
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
