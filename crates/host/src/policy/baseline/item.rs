//! What a baseline is about: the entry of a server, its instructions, or one of its tools and prompts.

use std::fmt::Write as _;

use toolway_config::visible;

use crate::catalog::ItemKind;

/// What was seen of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SeenItem {
    /// The entry of the server, with the files that it names.
    Entry,
    /// The instructions of the server, if it is trusted.
    Instructions,
    /// A tool or prompt as all callers see it.
    Shared {
        /// Tool or prompt.
        kind: ItemKind,
        /// The server's own name of it.
        name: String,
    },
    /// A tool or prompt as the server lists it to one client only.
    Own {
        /// Tool or prompt.
        kind: ItemKind,
        /// The server's own name of it.
        name: String,
        /// Label of the client.
        caller: String,
    },
}

/// The key of instructions, behind the mark.
const INSTRUCTIONS: &str = "instructions";
/// Begins the keys of all items but most tools, whose key is their name. A name that begins with it is escaped by it.
const MARK: char = '\u{1}';

impl SeenItem {
    /// A tool or prompt as all callers see it.
    pub fn shared(kind: ItemKind, name: &str) -> Self {
        Self::Shared { kind, name: name.to_owned() }
    }

    /// Whether it is about the server as a whole. Each server has one of them.
    pub fn is_of_server(&self) -> bool {
        matches!(self, Self::Entry | Self::Instructions)
    }

    /// The text under which it is stored; no two items of a server have the same.
    pub fn key(&self) -> String {
        match self {
            Self::Entry => String::new(),
            Self::Instructions => format!("{MARK}{INSTRUCTIONS}"),
            Self::Shared { kind: ItemKind::Tool, name } if !name.is_empty() && !name.starts_with(MARK) => name.clone(),
            Self::Shared { kind, name } => format!("{MARK}{}{MARK}{name}", word(*kind)),
            Self::Own { kind, name, caller } => {
                let mut key = format!("{MARK}{}{MARK}", word(*kind).to_ascii_uppercase());
                // The length keeps callers and names apart.
                let _written = write!(key, "{}{MARK}{caller}{name}", caller.len());
                key
            }
        }
    }

    /// Reads a stored text; `None` if a later version wrote it.
    pub fn parse(key: &str) -> Option<Self> {
        if key.is_empty() {
            return Some(Self::Entry);
        }
        let Some(rest) = key.strip_prefix(MARK) else { return Some(Self::shared(ItemKind::Tool, key)) };
        if rest == INSTRUCTIONS {
            return Some(Self::Instructions);
        }
        let (kind, rest) = rest.split_once(MARK)?;
        match kind {
            "tool" => Some(Self::shared(ItemKind::Tool, rest)),
            "prompt" => Some(Self::shared(ItemKind::Prompt, rest)),
            "TOOL" | "PROMPT" => {
                let (length, rest) = rest.split_once(MARK)?;
                let (caller, name) = rest.split_at_checked(length.parse().ok()?)?;
                let kind = if kind == "TOOL" { ItemKind::Tool } else { ItemKind::Prompt };
                Some(Self::Own { kind, name: name.to_owned(), caller: caller.to_owned() })
            }
            _ => None,
        }
    }

    /// Kind and name of a tool or prompt as all callers see it.
    pub fn as_shared(&self) -> Option<(ItemKind, &str)> {
        match self {
            Self::Shared { kind, name } => Some((*kind, name)),
            Self::Entry | Self::Instructions | Self::Own { .. } => None,
        }
    }

    /// What it is, for a person.
    pub fn shown(&self) -> String {
        match self {
            Self::Entry => "its entry".to_owned(),
            Self::Instructions => "its instructions".to_owned(),
            Self::Shared { kind, name } => format!("{kind} `{}`", visible::one_line(name)),
            Self::Own { kind, name, caller } => {
                format!("{kind} `{}` as `{}` sees it", visible::one_line(name), visible::one_line(caller))
            }
        }
    }
}

fn word(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Prompt => "prompt",
        ItemKind::Resource | ItemKind::Template => "resource",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_items_share_a_key_whatever_their_names() {
        let own = |kind, name: &str, caller: &str| SeenItem::Own { kind, name: name.into(), caller: caller.into() };
        let items = [
            SeenItem::Entry,
            SeenItem::Instructions,
            SeenItem::shared(ItemKind::Tool, "\u{1}instructions"),
            SeenItem::shared(ItemKind::Tool, "read"),
            SeenItem::shared(ItemKind::Prompt, "read"),
            SeenItem::shared(ItemKind::Tool, ""),
            SeenItem::shared(ItemKind::Tool, "\u{1}prompt\u{1}read"),
            SeenItem::shared(ItemKind::Tool, "\u{1}TOOL\u{1}8\u{1}client:aread"),
            own(ItemKind::Tool, "read", "client:a"),
            own(ItemKind::Tool, "aread", "client:"),
            own(ItemKind::Prompt, "read", "client:a"),
        ];
        let mut keys: Vec<String> = items.iter().map(SeenItem::key).collect();
        for (item, key) in items.iter().zip(&keys) {
            assert_eq!(SeenItem::parse(key).as_ref(), Some(item), "{key:?}");
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), items.len());
        assert_eq!(SeenItem::shared(ItemKind::Tool, "read").key(), "read");
    }
}
