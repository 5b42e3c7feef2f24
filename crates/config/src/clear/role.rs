//! What a text of an entry is, by its path: decides which parts of it can be secret, and the syntax of its references.

use crate::{interpolate::Dialect, mask::Role, server::KEYS};

/// What a text of an entry is.
#[derive(Clone, Copy)]
pub(super) enum TextRole<'a> {
    /// A command or a path: only URLs in it are looked at.
    Plain,
    /// The URL of the server.
    Address,
    Variable(&'a str),
    Header(&'a str),
    Argument(&'a str),
    /// A text that is secret as a whole, with its key.
    Whole(&'a str),
    /// A text without references: only well-known keys are found.
    Prose,
}

/// Keys of `auth`, `oauth` and models that are secret as a whole.
const WHOLE: [&str; 9] =
    ["apiKey", "assertion", "clientSecret", "idToken", "idpClientSecret", "key", "password", "privateKey", "token"];

impl<'a> TextRole<'a> {
    /// The role of the text at a path in an entry; `before` is the element before in a list. `None`: it is not looked at.
    pub(super) fn of(path: &[&'a str], before: &'a str) -> Option<Self> {
        let (first, last) = (*path.first()?, *path.last()?);
        let known = || KEYS.iter().any(|key| key.name == first);
        Some(match first {
            "command" | "cwd" | "envFile" => Self::Plain,
            "url" => Self::Address,
            "args" => Self::Argument(before),
            "env" => Self::Variable(last),
            "headers" => Self::Header(last),
            "auth" | "oauth" if WHOLE.contains(&last) => Self::Whole(last),
            "auth" | "oauth" => Self::Plain,
            _ if known() => Self::Prose,
            // A key of another host: without effect, but written.
            _ if 1 < path.len() && path[path.len() - 2].to_ascii_lowercase().contains("header") => Self::Header(last),
            _ if !before.is_empty() => Self::Argument(before),
            _ => Self::Variable(last),
        })
    }

    /// The role of the text at a path in a model.
    pub(super) fn of_model(path: &[&'a str]) -> Self {
        match path {
            ["baseUrl"] => Self::Address,
            ["headers", name] => Self::Header(name),
            [key] if WHOLE.contains(key) => Self::Whole(key),
            _ => Self::Prose,
        }
    }

    /// The role as `mask` has it; `None` if the whole text is looked at in another way.
    pub(super) fn mask(self) -> Option<Role<'a>> {
        match self {
            Self::Plain | Self::Address => Some(Role::Plain),
            Self::Variable(name) => Some(Role::Variable(name)),
            Self::Header(name) => Some(Role::Header(name)),
            Self::Argument(before) => Some(Role::Argument(before)),
            Self::Whole(_) | Self::Prose => None,
        }
    }

    pub(super) fn dialect(self) -> Dialect {
        match self {
            Self::Variable(_) | Self::Header(_) | Self::Whole(_) => Dialect::ToolwayValue,
            Self::Plain | Self::Address | Self::Argument(_) | Self::Prose => Dialect::Toolway,
        }
    }
}
