//! Why an item of a server is not offered: the key of its entry that excludes it, with file and line.

use std::fmt;

use toolway_config::{
    Place, ServerConfig,
    server::{NameFilter, Offered},
};
use toolway_host::catalog::ItemKind;

/// The key that excludes an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exclusion {
    key: &'static str,
    place: Place,
}

impl Exclusion {
    /// What excludes one item; `None` if it is offered.
    pub(crate) fn of(entry: &ServerConfig, kind: ItemKind, raw_name: &str) -> Option<Self> {
        let (names, include, exclude) = match kind {
            ItemKind::Tool => (&entry.filters.tool_names, "includeTools", "excludeTools"),
            ItemKind::Prompt => (&entry.filters.prompt_names, "includePrompts", "excludePrompts"),
            ItemKind::Resource | ItemKind::Template => return Self::of_kind(entry, kind),
        };
        let excluded = NameFilter { include: None, exclude: names.exclude.clone() };
        Self::of_kind(entry, kind).or_else(|| {
            if !excluded.passes(raw_name) {
                return Some(Self::at(entry, exclude));
            }
            (!names.passes(raw_name)).then(|| Self::at(entry, include))
        })
    }

    /// What excludes all items of a kind; `None` if they are offered.
    pub(crate) fn of_kind(entry: &ServerConfig, kind: ItemKind) -> Option<Self> {
        let (offered, key) = match kind {
            ItemKind::Tool => (entry.filters.tools, "tools"),
            ItemKind::Prompt => (entry.filters.prompts, "prompts"),
            ItemKind::Resource | ItemKind::Template => (entry.filters.resources, "resources"),
        };
        (offered == Offered::No).then(|| Self::at(entry, key))
    }

    fn at(entry: &ServerConfig, key: &'static str) -> Self {
        let place = entry.origins.get(key).unwrap_or(&entry.source.place).clone();
        Self { key, place }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` in {}", self.key, self.place)
    }
}
