//! Public names of tools and prompts, and their origins.
//!
//! A public name is `<server>__<tool>` if every model vendor accepts that. If its characters or its length forbid it,
//! the name is a readable beginning with a tag: `_` and twelve hexadecimal digits of a digest of server and raw name. A
//! name that merely looks tagged also gets a tag, so that a server cannot choose a name that collides with another one.
//! A server name of more than 32 characters is shortened in the prefix, so that the name of the tool stays readable: a
//! beginning, `_` and twelve hexadecimal digits of a digest of the server name.
//! A prefixed name depends on its own origin only. `assign` resolves conflicts of names without prefix.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use ring::digest::{Context, SHA256};
use toolway_config::ServerName;

/// Server and raw name of an item. The raw name is sent to the server unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Server name.
    pub server: ServerName,
    /// Name of the item at its server: a name, a URI or a template.
    pub raw_name: String,
}

/// Name for models and clients: unique within a catalog, at most 64 ASCII letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicName(Arc<str>);

/// An invalid public name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid tool or prompt name `{0}`: use 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`, as shown by `toolway tools`"
)]
pub struct InvalidPublicName(pub String);

/// When public names have the name of their server as a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// Always, so that a name does not depend on other servers.
    #[default]
    Always,
    /// Only if several servers use the same name; then each of them has the prefix.
    Auto,
    /// Never. If several servers use the same name, only the item of the first is offered.
    Never,
}

/// Maximum length of a public name, as accepted by the strictest vendor.
pub const LONGEST: usize = 64;
/// Number of hexadecimal digits of a tag.
const TAG_DIGITS: usize = 12;
/// Maximum length of a server name in a public name; a longer one is shortened.
const SERVER_ROOM: usize = 32;
/// Separator of server and name.
const SEPARATOR: &str = "__";

/// Assigns a public name to each origin, in the same order; `None` if its name is taken.
///
/// Tries the shortest name of the naming mode first and the tagged one last, which is unique unless digests collide. Without
/// prefixes there is one candidate, so that the first of several items of one name gets it.
pub(super) fn assign(origins: &[Origin], naming: Naming) -> Vec<Option<PublicName>> {
    let mut stages = vec![NameStage::first(naming); origins.len()];
    let mut names: Vec<String> = origins.iter().zip(&stages).map(|(origin, stage)| stage.name(origin)).collect();
    loop {
        let losers = losers(&names, &stages, naming);
        if losers.is_empty() {
            break;
        }
        for index in losers {
            stages[index] = stages[index].next(naming);
            names[index] = stages[index].name(&origins[index]);
        }
    }
    let mut taken = HashSet::with_capacity(names.len());
    names.into_iter().map(PublicName::given).map(|name| taken.insert(name.clone()).then_some(name)).collect()
}

/// The name of an item without conflicts.
pub(super) fn wanted(origin: &Origin, naming: Naming) -> String {
    NameStage::first(naming).name(origin)
}

/// Returns the items that share a name and have to take their next candidate.
fn losers(names: &[String], stages: &[NameStage], naming: Naming) -> Vec<usize> {
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        groups.entry(name).or_default().push(index);
    }
    let mut losers: Vec<_> = groups.into_values().filter(|group| 1 < group.len()).flatten().collect();
    losers.retain(|index| stages[*index].next(naming) != stages[*index]);
    losers.sort_unstable();
    losers
}

/// Form of a candidate name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameStage {
    Bare,
    Prefixed,
    Tagged,
}

// === impl NameStage ===

impl NameStage {
    fn first(naming: Naming) -> Self {
        match naming {
            Naming::Always => Self::Prefixed,
            Naming::Auto | Naming::Never => Self::Bare,
        }
    }

    fn next(self, naming: Naming) -> Self {
        match (self, naming) {
            (Self::Bare, Naming::Never) => Self::Bare,
            (Self::Bare, _) => Self::Prefixed,
            (Self::Prefixed | Self::Tagged, _) => Self::Tagged,
        }
    }

    fn name(self, origin: &Origin) -> String {
        let text = match self {
            Self::Bare => origin.raw_name.clone(),
            Self::Prefixed | Self::Tagged => prefixed(origin),
        };
        let as_it_is = match self {
            Self::Bare => is_plain(&text),
            Self::Prefixed => is_plain(&text) && is_clear(&origin.server),
            Self::Tagged => false,
        };
        if as_it_is { text } else { tagged(&text, origin) }
    }
}

/// `<server>__<name>`. One vendor requires a letter or `_` at the beginning.
fn prefixed(origin: &Origin) -> String {
    let server = shortened(&origin.server);
    let before = if begins_well(&server) { "" } else { "_" };
    format!("{before}{server}{SEPARATOR}{}", origin.raw_name)
}

/// The server in a public name: its name, or a readable beginning with a tag if the name is long.
fn shortened(server: &ServerName) -> Cow<'_, str> {
    let name = server.as_str();
    if name.len() <= SERVER_ROOM {
        return Cow::Borrowed(name);
    }
    // Server names are ASCII. Without the last `_`, the separator cannot occur in the result.
    let beginning = name[..SERVER_ROOM - TAG_DIGITS - 1].trim_end_matches('_');
    Cow::Owned(format!("{beginning}_{}", digest([name])))
}

/// Whether a server name could be the shortened form of another one.
fn looks_shortened(server: &str) -> bool {
    (SERVER_ROOM - 1..=SERVER_ROOM).contains(&server.len()) && looks_tagged(server)
}

/// Whether the prefix of this server is unambiguous: `a_` and `a` can both lead to `a___b`, and `7` gets the prefix
/// `_7`; a name can equal the shortened form of another one.
fn is_clear(server: &ServerName) -> bool {
    let name = server.as_str();
    if SERVER_ROOM < name.len() {
        return true;
    }
    let inner = name.strip_prefix('_');
    !name.ends_with('_') && inner.is_none_or(begins_well) && !looks_shortened(name)
}

/// Whether every vendor accepts the text and it does not look tagged.
fn is_plain(text: &str) -> bool {
    is_safe(text) && begins_well(text) && !looks_tagged(text)
}

fn is_safe(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_safe_byte)
}

fn is_safe_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn begins_well(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

fn looks_tagged(text: &str) -> bool {
    let tag = text.len().checked_sub(TAG_DIGITS + 1).map(|at| &text.as_bytes()[at..]);
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    tag.is_some_and(|tag| tag[0] == b'_' && tag[1..].iter().all(hex))
}

/// Returns a readable beginning of `text` with the tag of its origin.
fn tagged(text: &str, origin: &Origin) -> String {
    let room = LONGEST - TAG_DIGITS - 1;
    let mut name = String::with_capacity(LONGEST);
    if !begins_well(text) {
        name.push('_');
    }
    let safe = |letter: char| if letter.is_ascii() && is_safe_byte(letter as u8) { letter } else { '_' };
    // The text comes from a remote party and can be long, so only the part that fits is read.
    name.extend(text.chars().take(room - name.len()).map(safe));
    name.truncate(room);
    name.push('_');
    name.push_str(&tag(origin));
    name
}

/// Returns the origin of a name without prefix. Removes a tag if it matches the rest of the name.
fn untagged(server: ServerName, name: &str) -> Origin {
    let whole = Origin { server, raw_name: name.to_owned() };
    let Some(at) = name.len().checked_sub(TAG_DIGITS + 1).filter(|_| looks_tagged(name)) else { return whole };
    let origin = Origin { raw_name: name[..at].to_owned(), ..whole.clone() };
    if tag(&origin) == name[at + 1..] { origin } else { whole }
}

fn tag(origin: &Origin) -> String {
    // Server names do not contain a line break, so different origins have different texts.
    digest([origin.server.as_str(), "\n", &origin.raw_name])
}

/// Twelve hexadecimal digits of a digest.
fn digest<const N: usize>(parts: [&str; N]) -> String {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part.as_bytes()));
    let digest = context.finish();
    digest.as_ref().iter().take(TAG_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

// === impl PublicName ===

impl PublicName {
    fn given(name: String) -> Self {
        Self(name.into())
    }

    /// The name with the prefix of its server, which no item of another server has.
    pub(crate) fn prefixed(server: &ServerName, raw_name: &str) -> Self {
        Self::given(NameStage::Prefixed.name(&Origin { server: server.clone(), raw_name: raw_name.to_owned() }))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Possible origins of a name that is not listed: all servers whose prefix matches. Usually there is at most one.
    /// A shortened server name is looked up in `servers`.
    pub(crate) fn origins(&self, servers: &[ServerName]) -> Vec<Origin> {
        let text = self.as_str();
        let Some(first) = text.find(SEPARATOR) else { return Vec::new() };
        // A server name can end with `_`.
        let ends = [first, first + 1].into_iter().filter(|end| text[*end..].starts_with(SEPARATOR));
        let read = |end: usize| {
            let (front, raw_name) = (&text[..end], &text[end + SEPARATOR.len()..]);
            let added = front.strip_prefix('_').filter(|server| !begins_well(server));
            let prefixes = [Some(front).filter(|server| begins_well(server)), added].into_iter().flatten();
            let long = |prefix: &str| {
                let is_it = |server: &&ServerName| SERVER_ROOM < server.as_str().len() && shortened(server) == prefix;
                servers.iter().find(is_it).cloned()
            };
            let short =
                |prefix: &str| prefix.parse().ok().filter(|name: &ServerName| name.as_str().len() <= SERVER_ROOM);
            let named = prefixes.flat_map(|prefix| [long(prefix), short(prefix)].into_iter().flatten());
            named.map(|server| untagged(server, raw_name)).collect::<Vec<_>>()
        };
        let named_so = |origin: &Origin| is_clear(&origin.server) || looks_tagged(text);
        ends.flat_map(read).filter(named_so).collect()
    }
}

impl FromStr for PublicName {
    type Err = InvalidPublicName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_safe(text) { Ok(Self(text.into())) } else { Err(InvalidPublicName(text.chars().take(100).collect())) }
    }
}

impl fmt::Display for PublicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for PublicName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of `{}`", self.raw_name, self.server)
    }
}

#[cfg(test)]
mod tests;
