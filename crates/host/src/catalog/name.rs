//! What models and clients call a tool or a prompt, and where it really lives.
//!
//! A public name is `<server>__<tool>` wherever that is safe for every model vendor. Where it is not, because of
//! its characters or its length, it is a readable beginning and a tag, `_` and twelve hexadecimal digits of a digest
//! of server and raw name. A name that merely looks tagged gets a tag of its own, so a server cannot choose a name
//! that lands on another's. A prefixed name depends on nothing but its own origin: no neighbour that appears or
//! leaves changes it. Who gives way when names are shorter is decided in `assign`.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use ring::digest::{Context, SHA256};
use toolway_config::ServerName;

/// Where an item lives. The raw name goes back to its server exactly as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Whose it is.
    pub server: ServerName,
    /// What the server calls it: a name, a URI or a template.
    pub raw_name: String,
}

/// What models and clients see: unique within a catalog, at most 64 of letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicName(Arc<str>);

/// A text that cannot be a public name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a tool or prompt: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`, as `tools` lists it")]
pub struct InvalidPublicName(pub String);

/// When the name of its server stands before an item's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// Always. A name never changes because of a neighbour.
    #[default]
    Always,
    /// Only where two servers use one name; then before each of them.
    Auto,
    /// Never. Where two servers use one name, the first keeps it and the others get a tag.
    Never,
}

/// The strictest vendor takes no more.
pub const LONGEST: usize = 64;
/// Hexadecimal digits of a tag.
const TAG_DIGITS: usize = 12;
/// What stands between server and name.
const SEPARATOR: &str = "__";

/// The public name of each origin, in the same order; `None` for one whose name is taken for good.
///
/// Names are tried from the shortest the mode allows to the tagged one, which nothing else can equal short of a
/// collision of digests.
pub(super) fn assign(origins: &[Origin], naming: Naming) -> Vec<Option<PublicName>> {
    let mut stages = vec![Stage::first(naming); origins.len()];
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

/// The name an item has where nothing stands in its way.
pub(super) fn wanted(origin: &Origin, naming: Naming) -> String {
    Stage::first(naming).name(origin)
}

/// Those that have to give way: they share a name and can still be called something else.
fn losers(names: &[String], stages: &[Stage], naming: Naming) -> Vec<usize> {
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        groups.entry(name).or_default().push(index);
    }
    let stays = if naming == Naming::Never { 1 } else { 0 };
    let shared = groups.into_values().filter(|group| 1 < group.len());
    let mut losers: Vec<_> = shared.flat_map(|group| group.into_iter().skip(stays)).collect();
    losers.retain(|index| stages[*index].next(naming) != stages[*index]);
    losers.sort_unstable();
    losers
}

/// How much of a name is needed to tell it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Bare,
    Prefixed,
    /// With a tag whatever it looks like.
    TaggedBare,
    Tagged,
}

// === impl Stage ===

impl Stage {
    fn first(naming: Naming) -> Self {
        match naming {
            Naming::Always => Self::Prefixed,
            Naming::Auto | Naming::Never => Self::Bare,
        }
    }

    fn next(self, naming: Naming) -> Self {
        match (self, naming) {
            (Self::Bare, Naming::Never) => Self::TaggedBare,
            (Self::Bare, _) => Self::Prefixed,
            (Self::Prefixed | Self::Tagged, _) => Self::Tagged,
            (Self::TaggedBare, _) => Self::TaggedBare,
        }
    }

    fn name(self, origin: &Origin) -> String {
        let text = match self {
            Self::Bare | Self::TaggedBare => origin.raw_name.clone(),
            Self::Prefixed | Self::Tagged => prefixed(origin),
        };
        let as_it_is = match self {
            Self::Bare => is_plain(&text),
            Self::Prefixed => is_plain(&text) && is_clear(&origin.server),
            Self::TaggedBare | Self::Tagged => false,
        };
        if as_it_is { text } else { tagged(&text, origin) }
    }
}

/// `<server>__<name>`; one vendor wants a letter or `_` at the beginning.
fn prefixed(origin: &Origin) -> String {
    let server = origin.server.as_str();
    let before = if begins_well(server) { "" } else { "_" };
    format!("{before}{server}{SEPARATOR}{}", origin.raw_name)
}

/// Whether nobody else's prefixed names can begin as this server's do: `a_` and `a` both give `a___b`, and `_7` is
/// what `7` becomes.
fn is_clear(server: &ServerName) -> bool {
    let inner = server.as_str().strip_prefix('_');
    !server.as_str().ends_with('_') && inner.is_none_or(begins_well)
}

/// Whether a text is safe with every vendor and does not look tagged.
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

/// A readable beginning of `text`, and the tag of its origin.
fn tagged(text: &str, origin: &Origin) -> String {
    let room = LONGEST - TAG_DIGITS - 1;
    let mut name = String::with_capacity(LONGEST);
    if !begins_well(text) {
        name.push('_');
    }
    let safe = |letter: char| if letter.is_ascii() && is_safe_byte(letter as u8) { letter } else { '_' };
    // No more letters are looked at than there is room for: the text is a stranger's.
    name.extend(text.chars().take(room - name.len()).map(safe));
    name.truncate(room);
    name.push('_');
    name.push_str(&tag(origin));
    name
}

/// What a name without its server stands for; a tag is taken off where it is that of what is left.
fn untagged(server: ServerName, name: &str) -> Origin {
    let whole = Origin { server, raw_name: name.to_owned() };
    let Some(at) = name.len().checked_sub(TAG_DIGITS + 1).filter(|_| looks_tagged(name)) else { return whole };
    let origin = Origin { raw_name: name[..at].to_owned(), ..whole.clone() };
    if tag(&origin) == name[at + 1..] { origin } else { whole }
}

fn tag(origin: &Origin) -> String {
    let mut context = Context::new(&SHA256);
    context.update(origin.server.as_str().as_bytes());
    // No server name holds this byte, so no two origins are one text.
    context.update(b"\n");
    context.update(origin.raw_name.as_bytes());
    let digest = context.finish();
    digest.as_ref().iter().take(TAG_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

// === impl PublicName ===

impl PublicName {
    fn given(name: String) -> Self {
        Self(name.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whose it may be where nobody lists it, and what they call it: every server whose prefixed names begin like this.
    /// Mostly that is none or one.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        let text = self.as_str();
        let Some(first) = text.find(SEPARATOR) else { return Vec::new() };
        // A server's name may end with a `_` of its own.
        let ends = [first, first + 1].into_iter().filter(|end| text[*end..].starts_with(SEPARATOR));
        let read = |end: usize| {
            let (front, raw_name) = (&text[..end], &text[end + SEPARATOR.len()..]);
            let added = front.strip_prefix('_').filter(|server| !begins_well(server));
            let servers = [Some(front).filter(|server| begins_well(server)), added].into_iter().flatten();
            servers.filter_map(|server| Some(untagged(server.parse().ok()?, raw_name))).collect::<Vec<_>>()
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
