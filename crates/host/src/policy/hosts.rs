//! The hosts that the arguments of a call name, and which of them are new.
//!
//! | part | file |
//! |---|---|
//! | URLs inside a text | `hosts/url_token.rs` |
//! | the host of a URL, in one spelling | `hosts/canonical.rs` |
//! | hosts without a scheme | `hosts/bare.rs` |
//! | quotes inside of a URL | `hosts/quotes.rs` |
//! | arguments and schemas as trees | `hosts/tree.rs`, `hosts/formats.rs` |
//!
//! Every string and every member name is read as it is written, after one percent-decode, with escapes such as `\u0068`
//! replaced, without quotes that divide a URL, and, if it is JSON, as JSON. Text that is encoded in another way (twice, base64, HTML entities) is not read.
//! Arguments beyond a bound, and URLs that cannot be parsed, count as a new host.

mod bare;
mod canonical;
mod formats;
mod quotes;
mod tree;
mod url_token;

use std::borrow::Cow;

use toolway_config::HostPattern;
use toolway_wire::json::Raw;

use self::{
    bare::BareHosts,
    formats::{Naming, Schemas},
    tree::Tree,
    url_token::{NextUrl, UrlTokens},
};
use super::SeenUrls;

pub(super) use tree::texts;
pub(super) use url_token::{Searched, UrlToken, recorded_urls};

/// Bytes of arguments that are searched.
const MAX_ARGUMENTS: usize = 256 * 1024;
/// URLs in the arguments of one call.
const MAX_URLS: usize = 1_000;
/// Hosts that are reported for one call.
const MAX_HOSTS: usize = 100;
/// Levels of JSON inside strings of JSON.
const MAX_NESTED: usize = 4;
/// Characters of a text that stands for a host that cannot be read.
const MAX_SHOWN: usize = 200;

/// A host that the arguments of a call name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundHost {
    /// The host in its canonical form; a part of the text if it cannot be read. Text of a model: a surface escapes it.
    pub host: String,
    /// JSON Pointer to the argument.
    pub pointer: String,
    /// Why it is new or not.
    pub status: HostStatus,
}

/// Why a host is new or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStatus {
    /// `policy.hosts` or `--allow-host` names it.
    Configured,
    /// Its URL stands in a message of the user or in an earlier result.
    Seen,
    /// None of these.
    New,
    /// A URL that cannot be parsed, or content that can reach any host.
    Unreadable,
    /// The arguments are too large or too deep to be searched.
    TooLarge,
}

/// What is searched, and what is known.
#[derive(Clone, Copy, Debug)]
pub struct HostSearch<'a> {
    /// Input schema of the tool, for `format`.
    pub schema: Option<&'a Raw>,
    /// Whether hosts without a scheme count everywhere: the tool is annotated open-world.
    pub bare: Bare,
    /// Configured hosts.
    pub configured: &'a [HostPattern],
    /// URLs of the user and of earlier results.
    pub seen: Option<&'a SeenUrls>,
}

/// Where hosts without a scheme count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// In arguments whose `format` is a URI or a host name.
    ByFormat,
    /// In every argument.
    Everywhere,
}

struct Finder<'a> {
    search: HostSearch<'a>,
    found: Vec<FoundHost>,
    urls: usize,
    /// Hosts that are reported.
    most: usize,
}

impl HostSearch<'_> {
    /// The hosts in these arguments, each once for each status.
    pub fn find(&self, arguments: Option<&Raw>) -> Vec<FoundHost> {
        arguments.map(|arguments| self.find_most(arguments, MAX_HOSTS)).unwrap_or_default()
    }

    /// The hosts of URLs in these arguments that were not seen; `None` if they are too many, or too large to be searched.
    pub(super) fn named_hosts(&self, arguments: &Raw) -> Option<Vec<String>> {
        let found = self.find_most(arguments, MAX_URLS);
        let is_searched = found.iter().all(|found| found.status != HostStatus::TooLarge);
        let named = found.into_iter().filter(|found| found.status == HostStatus::New);
        is_searched.then(|| named.map(|found| found.host).collect())
    }

    fn find_most(&self, arguments: &Raw, most: usize) -> Vec<FoundHost> {
        let mut finder = Finder { search: *self, found: Vec::new(), urls: 0, most };
        let text = arguments.as_bytes();
        match if text.len() <= MAX_ARGUMENTS { Tree::parse(text) } else { None } {
            Some(tree) => {
                let schema = self.schema.and_then(|schema| serde_json::from_slice(schema.as_bytes()).ok());
                let root = schema.unwrap_or_default();
                finder.walk(&tree, &Schemas::new(&root), "", 0);
            }
            None => finder.report(String::new(), "", HostStatus::TooLarge),
        }
        finder.found
    }

    /// The hosts in a URI.
    pub fn find_in_uri(&self, uri: &str) -> Vec<FoundHost> {
        let mut finder = Finder { search: *self, found: Vec::new(), urls: 0, most: MAX_HOSTS };
        if uri.len() <= MAX_ARGUMENTS {
            finder.read(uri, "", BareHosts::No, 0);
            // `page:evil.example/x`: a URI without an authority may name a host as well.
            if let Some(rest) = bare::without_authority(uri) {
                finder.read(rest, "", BareHosts::Sentence, 0);
            }
        } else {
            finder.report(String::new(), "", HostStatus::TooLarge);
        }
        finder.found
    }
}

impl FoundHost {
    /// Whether it is a host whose name can stand in a command. The URL standard allows `$(…)` and `;` in one.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        self.status == HostStatus::New && self.host.bytes().all(is_plain)
    }

    /// What is new about it, for a sentence. Text of the model is escaped.
    pub(super) fn sentence(&self) -> String {
        match self.status {
            HostStatus::Configured | HostStatus::Seen | HostStatus::New => {
                format!("the new host `{}`", self.host.escape_default())
            }
            HostStatus::Unreadable => format!("a host that cannot be read from `{}`", self.host.escape_default()),
            HostStatus::TooLarge => "hosts that cannot be read, because its arguments are too large".to_owned(),
        }
    }
}

impl HostStatus {
    /// Whether a user is asked about it.
    pub fn is_new(self) -> bool {
        matches!(self, Self::New | Self::Unreadable | Self::TooLarge)
    }

    /// The word for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Seen => "seen",
            Self::New => "new",
            Self::Unreadable => "unreadable",
            Self::TooLarge => "too-large",
        }
    }
}

impl Finder<'_> {
    fn walk(&mut self, tree: &Tree, schemas: &Schemas<'_>, pointer: &str, nested: usize) {
        match tree {
            Tree::Text(text) => {
                let bare = schemas.bare_hosts().unwrap_or(self.everywhere());
                self.read(text, pointer, bare, nested);
            }
            Tree::List(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.walk(element, &schemas.element(index), &format!("{pointer}/{index}"), nested);
                }
            }
            Tree::Object(members) => {
                for member in members {
                    let pointer = format!("{pointer}/{}", member.name.replace('~', "~0").replace('/', "~1"));
                    // A name that the schema gives is not chosen by the caller.
                    let bare = match schemas.names(&member.name) {
                        Naming::Given => BareHosts::No,
                        Naming::Free(format) => format.unwrap_or(self.everywhere()),
                    };
                    self.read(&member.name, &pointer, bare, nested);
                    self.walk(&member.value, &schemas.member(&member.name), &pointer, nested);
                }
            }
            Tree::Other => {}
        }
    }

    /// Finds the hosts in one string.
    fn read(&mut self, text: &str, pointer: &str, bare: BareHosts, nested: usize) {
        let whole = canonical::trimmed(text);
        if self.is_seen(whole) {
            let host = canonical::host_of_whole(whole).unwrap_or_else(|| shown(whole));
            return self.report(host, pointer, HostStatus::Seen);
        }
        if canonical::is_active_content(whole) {
            self.report(shown(whole), pointer, HostStatus::Unreadable);
        }
        // Programs that take the whole string for one URL ignore line breaks in it, and encode spaces.
        let is_list_of_seen = !whole.is_empty() && whole.split_whitespace().all(|word| self.is_seen(word));
        if let Some(host) = canonical::host_of_whole(whole).filter(|_| !is_list_of_seen) {
            self.judge(host, pointer);
        }
        let unseen = self.read_urls(text, pointer);
        for other in other_readings(&unseen) {
            if canonical::is_active_content(canonical::trimmed(&other)) {
                self.report(shown(&other), pointer, HostStatus::Unreadable);
            }
            if let Some(host) = canonical::host_of_whole(&other) {
                self.judge(host, pointer);
            }
            self.read_urls(&other, pointer);
            self.read_bare(&other, pointer, bare);
        }
        self.read_bare(&unseen, pointer, bare);
        let begins_as_json = whole.starts_with(['{', '[', '"']);
        match Tree::parse(unseen.as_bytes()).filter(|_| begins_as_json) {
            Some(_) if nested >= MAX_NESTED => self.report(String::new(), pointer, HostStatus::TooLarge),
            Some(tree) => self.walk(&tree, &Schemas::default(), pointer, nested + 1),
            None => {}
        }
    }

    /// Judges every URL in a text, and returns the text without those that were seen.
    fn read_urls<'t>(&mut self, text: &'t str, pointer: &str) -> Cow<'t, str> {
        let mut unseen = Cow::Borrowed(text);
        let mut tokens = UrlTokens::new(text);
        loop {
            let token = match tokens.next_url() {
                NextUrl::Found(token) if self.urls < MAX_URLS => token,
                NextUrl::Found(_) | NextUrl::TooMuch => {
                    self.report(String::new(), pointer, HostStatus::TooLarge);
                    return unseen;
                }
                NextUrl::End => return unseen,
            };
            self.urls += 1;
            let mut spellings = [token.text, token.without_punctuation()].into_iter();
            match spellings.find(|url| self.is_seen(url) && token.ends_with(url)) {
                Some(url) => {
                    let host = canonical::hosts_of(&token).into_iter().flatten().next();
                    self.report(host.unwrap_or_else(|| shown(url)), pointer, HostStatus::Seen);
                    let end = token.start + url.len();
                    tokens.skip_to(end);
                    unseen.to_mut().replace_range(token.start..end, &" ".repeat(url.len()));
                }
                None => self.judge_token(&token, pointer),
            }
        }
    }

    fn judge_token(&mut self, token: &UrlToken<'_>, pointer: &str) {
        for host in canonical::hosts_of(token) {
            match host {
                Some(host) => self.judge(host, pointer),
                None => self.report(shown(token.text), pointer, HostStatus::Unreadable),
            }
        }
    }

    fn read_bare(&mut self, text: &str, pointer: &str, bare: BareHosts) {
        for host in bare::hosts(text, bare) {
            match host {
                Ok(host) => self.judge(host, pointer),
                Err(text) => self.report(shown(&text), pointer, HostStatus::Unreadable),
            }
        }
    }

    fn judge(&mut self, host: String, pointer: &str) {
        let is_configured = self.search.configured.iter().any(|pattern| pattern.matches(&host));
        let status = if is_configured { HostStatus::Configured } else { HostStatus::New };
        self.report(host, pointer, status);
    }

    fn report(&mut self, host: String, pointer: &str, status: HostStatus) {
        if self.found.iter().any(|found| found.host == host && found.status == status) {
            return;
        }
        if self.most <= self.found.len() {
            // What is left out must not be less than new.
            if let Some(last) = self.found.last_mut() {
                *last = FoundHost { host: String::new(), pointer: pointer.to_owned(), status: HostStatus::TooLarge };
            }
            return;
        }
        self.found.push(FoundHost { host, pointer: pointer.to_owned(), status });
    }

    /// How a text is read whose schema says nothing.
    fn everywhere(&self) -> BareHosts {
        match self.search.bare {
            Bare::Everywhere => BareHosts::Words,
            Bare::ByFormat => BareHosts::No,
        }
    }

    fn is_seen(&self, url: &str) -> bool {
        self.search.seen.is_some_and(|seen| seen.contains(url))
    }
}

/// The hosts of a URL, as far as they can be parsed.
pub(super) fn hosts_of_token(token: &UrlToken<'_>) -> impl Iterator<Item = String> {
    canonical::hosts_of(token).into_iter().flatten()
}

/// A text as programs read it that decode it first: percent-decoded once, with escapes of programming languages replaced,
/// and without quotes of a shell inside of a URL.
pub(super) fn other_readings(text: &str) -> Vec<String> {
    let decoded = canonical::percent_decoded(text);
    let unescaped = tree::unescaped(text);
    let unquoted = quotes::without_quotes(text);
    [decoded, unescaped, unquoted].into_iter().flatten().collect()
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests;
