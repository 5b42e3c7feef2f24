//! Filters: which tools and prompts of a server are offered by name, and which kinds at all.

use crate::Pattern;

/// A filter of names: the included ones, or all, without the excluded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    /// Patterns of names that pass; `None` means all.
    pub include: Option<Vec<String>>,
    /// Patterns of names that do not pass.
    pub exclude: Vec<String>,
}

/// Whether tools, resources or prompts are offered at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offered {
    /// Listed and offered.
    #[default]
    Yes,
    /// Neither listed nor offered.
    No,
}

/// Which tools, prompts and resources of a server are offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Filter of tools, by the names the server uses.
    pub tool_names: NameFilter,
    /// Filter of prompts, by the names the server uses.
    pub prompt_names: NameFilter,
    /// Whether tools are offered.
    pub tools: Offered,
    /// Whether resources and resource templates are offered.
    pub resources: Offered,
    /// Whether prompts are offered.
    pub prompts: Offered,
}

// === impl NameFilter ===

impl NameFilter {
    /// Whether a name passes. `*` in a pattern matches any text.
    pub fn passes(&self, name: &str) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| Pattern::from(pattern.as_str()).matches(name));
        self.include.as_deref().is_none_or(named) && !named(&self.exclude)
    }

    /// The filter that passes only what both pass: exclusions are united, inclusions intersected.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let include = match (self.include, other.include) {
            (Some(mine), Some(theirs)) => Some(intersection(mine, &theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        let mut exclude = self.exclude;
        exclude.extend(other.exclude.into_iter().filter(|name| !exclude.contains(name)).collect::<Vec<_>>());
        Self { include, exclude }
    }
}

// === impl Filters ===

impl Filters {
    /// Whether a tool passes.
    pub fn passes_tool(&self, name: &str) -> bool {
        self.tools == Offered::Yes && self.tool_names.passes(name)
    }

    /// Whether a prompt passes.
    pub fn passes_prompt(&self, name: &str) -> bool {
        self.prompts == Offered::Yes && self.prompt_names.passes(name)
    }

    /// The filters that pass only what both pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            tool_names: self.tool_names.and(other.tool_names),
            prompt_names: self.prompt_names.and(other.prompt_names),
            tools: self.tools.and(other.tools),
            resources: self.resources.and(other.resources),
            prompts: self.prompts.and(other.prompts),
        }
    }
}

// === impl Offered ===

impl Offered {
    /// Converts a boolean key.
    pub fn when(on: bool) -> Self {
        if on { Self::Yes } else { Self::No }
    }

    fn and(self, other: Self) -> Self {
        Self::when(self == Self::Yes && other == Self::Yes)
    }
}

/// The patterns of each list that match a pattern of the other; of two overlapping patterns the narrower one is kept.
fn intersection(mine: Vec<String>, theirs: &[String]) -> Vec<String> {
    let wider =
        |pattern: &String, others: &[String]| others.iter().any(|other| Pattern::from(other.as_str()).matches(pattern));
    let narrower = theirs.iter().filter(|name| wider(name, &mine)).cloned().collect::<Vec<_>>();
    let mut both: Vec<String> = mine.into_iter().filter(|name| wider(name, theirs)).collect();
    both.extend(narrower.into_iter().filter(|name| !both.contains(name)).collect::<Vec<_>>());
    both
}

#[cfg(test)]
mod tests {
    use super::{Filters, NameFilter, Offered};

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> NameFilter {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        NameFilter { include: include.map(owned), exclude: owned(exclude) }
    }

    #[test]
    fn exclusion_takes_precedence_over_inclusion() {
        let filter = filter(Some(&["read*"]), &["read_secret"]);
        assert!(filter.passes("read_file"));
        assert!(!filter.passes("read_secret"));
        assert!(!filter.passes("write"));
    }

    #[test]
    fn combined_filter_passes_only_what_both_pass() {
        let both = filter(Some(&["read*", "list"]), &["a"]).and(filter(Some(&["read_file", "write"]), &["b"]));
        assert_eq!(both, filter(Some(&["read_file"]), &["a", "b"]));
        assert_eq!(filter(None, &[]).and(filter(Some(&["x"]), &[])), filter(Some(&["x"]), &[]));
    }

    #[test]
    fn disabled_kind_stays_disabled() {
        let off = Filters { tools: Offered::No, ..Filters::default() };
        assert!(!off.passes_tool("x"));
        assert!(!Filters::default().and(off).passes_tool("x"));
    }
}
