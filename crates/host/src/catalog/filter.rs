//! Which of a server's items are offered at all: what the operator left out in the server's entry.
//!
//! Patterns are compared with the name the server gave. What a *caller* may see of the rest is policy's business.

use super::ItemKind;

/// What of one server is offered. The default leaves nothing out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only tools that one of these matches; all where there is none.
    pub include_tools: Option<Vec<Pattern>>,
    /// No tool that one of these matches, also when it is included.
    pub exclude_tools: Vec<Pattern>,
    /// As for tools.
    pub include_prompts: Option<Vec<Pattern>>,
    /// As for tools.
    pub exclude_prompts: Vec<Pattern>,
    /// Tools altogether.
    pub tools: Switch,
    /// Resources and their templates altogether.
    pub resources: Switch,
    /// Prompts altogether.
    pub prompts: Switch,
}

/// Whether one kind is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// It is.
    #[default]
    On,
    /// It is not, and the server is not asked for it.
    Off,
}

/// What leaves one item out.
enum Exclusion<'a> {
    /// A pattern of what is excluded.
    By(&'a Pattern),
    /// It is not among what is included.
    NotIncluded,
}

/// A name in which `*` stands for any number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

// === impl Filter ===

impl Filter {
    /// Whether this kind is offered at all.
    pub fn switch(&self, kind: ItemKind) -> Switch {
        match kind {
            ItemKind::Tool => self.tools,
            ItemKind::Resource | ItemKind::Template => self.resources,
            ItemKind::Prompt => self.prompts,
        }
    }

    /// The key of the server's entry that leaves an item out; `None` when it is offered.
    pub(crate) fn key_against(&self, kind: ItemKind, raw_name: &str) -> Option<&'static str> {
        let (off, include, exclude) = match kind {
            ItemKind::Tool => ("tools: false", "includeTools", "excludeTools"),
            ItemKind::Prompt => ("prompts: false", "includePrompts", "excludePrompts"),
            ItemKind::Resource | ItemKind::Template => ("resources: false", "", ""),
        };
        if self.switch(kind) == Switch::Off {
            return Some(off);
        }
        match self.exclusion(kind, raw_name)? {
            Exclusion::By(_) => Some(exclude),
            Exclusion::NotIncluded => Some(include),
        }
    }

    /// Why an item is not offered; `None` when it is.
    pub(crate) fn objection(&self, kind: ItemKind, raw_name: &str) -> Option<String> {
        Some(match self.exclusion(kind, raw_name)? {
            Exclusion::By(pattern) => format!("left out by `{}` of the configuration", pattern.as_str()),
            Exclusion::NotIncluded => "not among those the configuration includes".to_owned(),
        })
    }

    fn exclusion(&self, kind: ItemKind, raw_name: &str) -> Option<Exclusion<'_>> {
        let (include, exclude) = match kind {
            ItemKind::Tool => (&self.include_tools, &self.exclude_tools),
            ItemKind::Prompt => (&self.include_prompts, &self.exclude_prompts),
            ItemKind::Resource | ItemKind::Template => return None,
        };
        if let Some(pattern) = exclude.iter().find(|pattern| pattern.matches(raw_name)) {
            return Some(Exclusion::By(pattern));
        }
        let included = include.as_ref().is_none_or(|list| list.iter().any(|pattern| pattern.matches(raw_name)));
        (!included).then_some(Exclusion::NotIncluded)
    }
}

// === impl Pattern ===

impl Pattern {
    /// A pattern; any text is one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name matches: in time proportional to the product of the lengths at worst, without recursion.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen) = (0, 0);
        // Where to try again: behind the last star, and one byte further in the name.
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at + 1, seen));
                    at += 1;
                }
                Some(byte) if *byte == name[seen] => (at, seen) = (at + 1, seen + 1),
                _ => match star {
                    Some((after, tried)) => {
                        star = Some((after, tried + 1));
                        (at, seen) = (after, tried + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, ItemKind, Pattern};

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, matches) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read*", "read", true),
            ("read*", "reader", true),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c2b", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("**x", "x", true),
            ("Read", "read", false),
        ] {
            assert_eq!(Pattern::from(pattern).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = Pattern::new("a*".repeat(2_000) + "b");
        assert!(!pattern.matches(&"a".repeat(10_000)));
    }

    #[test]
    fn what_is_excluded_is_out_even_when_included() {
        let filter = Filter {
            include_tools: Some(vec!["read*".into()]),
            exclude_tools: vec!["*_all".into()],
            ..Filter::default()
        };
        assert_eq!(filter.objection(ItemKind::Tool, "read_one"), None);
        assert!(filter.objection(ItemKind::Tool, "read_all").unwrap().contains("`*_all`"));
        assert!(filter.objection(ItemKind::Tool, "write").is_some());
        assert_eq!(filter.objection(ItemKind::Prompt, "write"), None, "prompts have patterns of their own");
    }
}
