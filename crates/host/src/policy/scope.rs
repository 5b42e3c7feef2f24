//! What an answer covers: the sentence that a prompt shows, as a value.
//!
//! | part | file |
//! |---|---|
//! | one argument: the same value, a folder, a host, any | `scope/argument.rs` |
//! | paths and URLs that may be generalised | `scope/place.rs` |
//! | values in one spelling, digests | `scope/canonical.rs` |
//! | the form in the store and for surfaces | `scope/json.rs` |
//!
//! Arguments are told apart by the names at the top. An argument that a scope does not name is not covered: a call with a
//! further argument is asked about. Arguments with hidden characters are covered only by a scope of exactly these values,
//! because only then a person has seen them.

mod argument;
mod canonical;
mod json;
mod place;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use toolway_config::visible;
use toolway_wire::json::{JsonKind, Member, Raw};

pub use argument::{ArgumentScope, SameValue};

use super::Reached;

/// What an answer covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Any arguments.
    Any,
    /// Arguments by name. All others must be absent; one that may be any may be absent, too.
    Arguments(BTreeMap<String, ArgumentScope>),
    /// Exactly these arguments, by their SHA-256 digest in hexadecimal: they cannot be told apart by name.
    Whole(String),
    /// Calls that ask only because they reach these hosts.
    Hosts(BTreeSet<String>),
    /// Calls that ask only because they reach a new host, whichever it is.
    AnyHost,
}

/// What is compared with a scope: one call that requires approval.
#[derive(Clone, Copy, Debug)]
pub struct AskedCall<'a> {
    /// Arguments as they will be sent.
    pub arguments: Option<&'a Raw>,
    /// What it reaches, where only that is why it asks.
    pub reached: &'a Reached,
}

/// Arguments that are told apart by name. More of them are covered as a whole.
const MAX_NAMES: usize = 64;
/// Levels of arguments that are told apart by name. Deeper ones are covered as a whole.
const MAX_LEVELS: usize = 32;
/// Bytes of a scope. A larger one is the digest of all arguments.
const MAX_BYTES: usize = 16 * 1024;

// === impl Scope ===

impl Scope {
    /// The scope of exactly these arguments.
    pub fn same(arguments: Option<&Raw>) -> Self {
        let Some(arguments) = arguments else { return Self::Arguments(BTreeMap::new()) };
        let is_readable = || canonical::levels(arguments) <= MAX_LEVELS && !canonical::has_unreadable_names(arguments);
        let members = match named(arguments) {
            Some(members) if members.len() <= MAX_NAMES && is_readable() => members,
            _ => return Self::Whole(canonical::sha256(arguments.as_bytes())),
        };
        let values = members.into_iter().map(|member| (member.key, ArgumentScope::same(&member.value)));
        let scope = Self::Arguments(values.collect());
        if scope.is_small() { scope } else { Self::Whole(canonical::sha256(arguments.as_bytes())) }
    }

    /// The scope of the new hosts of a call; `None` if it asks for another reason.
    pub fn hosts(reached: &Reached) -> Option<Self> {
        let hosts: BTreeSet<String> = reached.new_hosts().map(|found| found.host.clone()).collect();
        (!hosts.is_empty()).then_some(Self::Hosts(hosts))
    }

    /// Whether a call is covered. Hosts are covered by hosts, arguments by arguments, exactly the same call by both.
    pub fn covers(&self, call: AskedCall<'_>) -> bool {
        let mut new = call.reached.new_hosts().peekable();
        let asks_for_hosts = new.peek().is_some();
        match self {
            Self::AnyHost => asks_for_hosts,
            Self::Hosts(hosts) => asks_for_hosts && new.all(|found| found.is_plain() && hosts.contains(&found.host)),
            _ if asks_for_hosts && !self.is_exact() => false,
            Self::Whole(digest) => call.arguments.is_some_and(|raw| canonical::sha256(raw.as_bytes()) == *digest),
            // Looking into each level would take long, and a person was shown one text.
            _ if call.arguments.is_some_and(|raw| MAX_LEVELS < canonical::levels(raw)) => false,
            Self::Any => !has_hidden(call.arguments),
            Self::Arguments(scopes) => covers_arguments(scopes, call.arguments) && self.was_seen(call.arguments),
        }
    }

    /// The least general scope that covers this one and these arguments: equal values stay, paths get their common folder,
    /// URLs their host, other values may be any. Paths and URLs that have nothing in common stay as they are in
    /// `arguments`: only the user makes them free.
    #[must_use]
    pub fn widened(&self, arguments: Option<&Raw>) -> Self {
        let (before, now) = match (self, Self::same(arguments)) {
            (Self::Arguments(before), Self::Arguments(now)) => (before, now),
            (Self::Any, _) => return Self::Any,
            (_, now) => return now,
        };
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let value = |name: &String| arguments.and_then(|arguments| arguments.get(name));
        let widened = names.into_iter().filter_map(|name| {
            let scope = match (before.get(name), value(name)) {
                (Some(before), Some(value)) => before.widened(&value),
                // A path or URL that only one call has is not made free without the user.
                (None, Some(value)) => {
                    Some(ArgumentScope::same(&value)).filter(ArgumentScope::is_place).unwrap_or(ArgumentScope::Any)
                }
                (Some(before), None) if before.is_place() => return None,
                _ => ArgumentScope::Any,
            };
            Some((name.clone(), scope))
        });
        let widened = Self::Arguments(widened.collect());
        // Names of many calls are no sentence that a person reads.
        if widened.is_small() { widened } else { Self::Arguments(now) }
    }

    /// This scope with another one for an argument.
    #[must_use]
    pub fn with(mut self, name: &str, scope: ArgumentScope) -> Self {
        if let Self::Arguments(scopes) = &mut self {
            scopes.insert(name.to_owned(), scope);
        }
        self
    }

    /// Whether it covers one set of arguments only.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Arguments(scopes) => scopes.values().all(|scope| matches!(scope, ArgumentScope::Same(_))),
            Self::Any | Self::Hosts(_) | Self::AnyHost => false,
        }
    }

    /// Whether it is about hosts, and so about every tool of a server.
    pub fn is_about_hosts(&self) -> bool {
        matches!(self, Self::Hosts(_) | Self::AnyHost)
    }

    /// About how many bytes it takes.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::Any | Self::AnyHost => 0,
            Self::Arguments(scopes) => scopes.iter().map(|(name, scope)| name.len() + scope.kept_bytes()).sum(),
            Self::Whole(digest) => digest.len(),
            Self::Hosts(hosts) => hosts.iter().map(String::len).sum(),
        }
    }

    fn is_small(&self) -> bool {
        let names = if let Self::Arguments(scopes) = self { scopes.len() } else { 0 };
        names <= MAX_NAMES && self.kept_bytes() <= MAX_BYTES
    }

    /// Whether a person has seen all hidden characters of the arguments.
    fn was_seen(&self, arguments: Option<&Raw>) -> bool {
        self.is_exact() || !has_hidden(arguments)
    }
}

fn covers_arguments(scopes: &BTreeMap<String, ArgumentScope>, arguments: Option<&Raw>) -> bool {
    let members = match arguments {
        None => Vec::new(),
        Some(arguments) => match named(arguments) {
            Some(members) => members,
            None => return false,
        },
    };
    let is_given = |name: &String| members.iter().any(|member| member.key == *name);
    let is_covered = |member: &Member| scopes.get(&member.key).is_some_and(|scope| scope.covers(&member.value));
    members.iter().all(is_covered) && scopes.iter().all(|(name, scope)| *scope == ArgumentScope::Any || is_given(name))
}

/// The members of arguments; `None` if they are no object, or if one occurs twice: servers differ in which of them counts.
fn named(arguments: &Raw) -> Option<Vec<Member>> {
    if arguments.kind() != JsonKind::Object {
        return None;
    }
    let mut members = arguments.members();
    members.sort_by(|one, other| one.key.cmp(&other.key));
    let is_repeated = members.windows(2).any(|pair| pair[0].key == pair[1].key);
    (!is_repeated).then_some(members)
}

/// Whether arguments contain hidden characters, in names or in values.
pub(super) fn has_hidden(arguments: Option<&Raw>) -> bool {
    arguments.is_some_and(|arguments| canonical::any_text(arguments, &mut |text| visible::has_hidden(text)))
}

/// `name = "shopping", any text`. Names and values come from a model or a client: a surface draws them with
/// [`crate::visible`].
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any arguments"),
            Self::Arguments(scopes) if scopes.is_empty() => f.write_str("no arguments"),
            Self::Arguments(scopes) => {
                // What is free stands last, where long values do not hide it.
                let is_same = |scope: &ArgumentScope| matches!(scope, ArgumentScope::Same(_));
                let fixed = scopes.iter().filter(|(_, scope)| is_same(scope));
                let wider = scopes.iter().filter(|(_, scope)| !is_same(scope));
                for (index, (name, scope)) in fixed.chain(wider).enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    scope.write(name, f)?;
                }
                Ok(())
            }
            Self::Whole(digest) => write!(f, "the same arguments (sha256 {}…)", digest.get(..12).unwrap_or_default()),
            Self::Hosts(hosts) => {
                let hosts: Vec<_> = hosts.iter().map(|host| format!("`{host}`")).collect();
                write!(f, "any call that only reads and reaches {}", hosts.join(", "))
            }
            Self::AnyHost => f.write_str("any call that only reads, to any host"),
        }
    }
}

#[cfg(test)]
mod tests;
