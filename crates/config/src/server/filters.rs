//! What of a server is offered: which tools and prompts by name, and whole kinds on or off.

/// Which names pass: those that are included, or all, without those that are excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameFilter {
    /// Only these; nothing said means all.
    pub include: Option<Vec<String>>,
    /// Never these.
    pub exclude: Vec<String>,
}

/// Whether a kind of thing is offered at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offered {
    /// It is.
    #[default]
    Yes,
    /// It is neither asked for nor shown.
    No,
}

/// What of a server is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Tools by their raw names.
    pub tool_names: NameFilter,
    /// Prompts by their raw names.
    pub prompt_names: NameFilter,
    /// Tools at all.
    pub tools: Offered,
    /// Resources and templates at all.
    pub resources: Offered,
    /// Prompts at all.
    pub prompts: Offered,
}

// === impl NameFilter ===

impl NameFilter {
    /// Whether a raw name passes. `*` in a pattern stands for any text.
    pub fn passes(&self, name: &str) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        self.include.as_deref().is_none_or(named) && !named(&self.exclude)
    }

    /// What passes both: exclusions unite, and a name must be included by each that includes.
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

    /// What passes both.
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
    /// From a switch as it is written.
    pub fn when(on: bool) -> Self {
        if on { Self::Yes } else { Self::No }
    }

    fn and(self, other: Self) -> Self {
        Self::when(self == Self::Yes && other == Self::Yes)
    }
}

/// The patterns of one list that the other lets through; of two overlapping patterns the narrower one stays.
fn intersection(mine: Vec<String>, theirs: &[String]) -> Vec<String> {
    let wider = |pattern: &String, others: &[String]| others.iter().any(|other| matches(other, pattern));
    let narrower = theirs.iter().filter(|name| wider(name, &mine)).cloned().collect::<Vec<_>>();
    let mut both: Vec<String> = mine.into_iter().filter(|name| wider(name, theirs)).collect();
    both.extend(narrower.into_iter().filter(|name| !both.contains(name)).collect::<Vec<_>>());
    both
}

/// Whether a name is what a pattern says; only `*` is special. Linear in both, whatever the pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{Filters, NameFilter, Offered, matches};

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> NameFilter {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        NameFilter { include: include.map(owned), exclude: owned(exclude) }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, yes) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read*", "reader", true),
            ("*_file", "read_file", true),
            ("r*d*e", "read_file", true),
            ("r*d*x", "read_file", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_excluded_stays_out_although_it_is_included() {
        let filter = filter(Some(&["read*"]), &["read_secret"]);
        assert!(filter.passes("read_file"));
        assert!(!filter.passes("read_secret"));
        assert!(!filter.passes("write"));
    }

    #[test]
    fn two_filters_together_let_through_only_what_each_does() {
        let both = filter(Some(&["read*", "list"]), &["a"]).and(filter(Some(&["read_file", "write"]), &["b"]));
        assert_eq!(both, filter(Some(&["read_file"]), &["a", "b"]));
        assert_eq!(filter(None, &[]).and(filter(Some(&["x"]), &[])), filter(Some(&["x"]), &[]));
    }

    #[test]
    fn a_kind_that_is_off_stays_off() {
        let off = Filters { tools: Offered::No, ..Filters::default() };
        assert!(!off.passes_tool("x"));
        assert!(!Filters::default().and(off).passes_tool("x"));
    }
}
