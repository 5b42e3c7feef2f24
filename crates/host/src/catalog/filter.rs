//! Filter of the items of a server, as set in the server's configuration entry.
//!
//! Patterns are matched against the name at the server. Restrictions per caller are part of the policy.

use toolway_config::Pattern;
pub use toolway_config::{InvalidToolPattern, ToolPattern};

use super::ItemKind;
use crate::call::MethodSpelling;

/// Filter of the items of one server. The default excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Patterns of included tools; `None` includes all.
    pub include_tools: Option<Vec<Pattern>>,
    /// Patterns of excluded tools. They take precedence over included ones.
    pub exclude_tools: Vec<Pattern>,
    /// Patterns of included prompts; `None` includes all.
    pub include_prompts: Option<Vec<Pattern>>,
    /// Patterns of excluded prompts. They take precedence over included ones.
    pub exclude_prompts: Vec<Pattern>,
    /// Whether tools are offered at all.
    pub tools: Switch,
    /// Whether resources and resource templates are offered at all.
    pub resources: Switch,
    /// Whether prompts are offered at all.
    pub prompts: Switch,
    /// Patterns of methods outside the protocol that clients of a gateway may call.
    pub extra_methods: Vec<Pattern>,
}

/// Whether one kind is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// The kind is offered.
    #[default]
    On,
    /// The kind is not offered, and not requested from the server.
    Off,
}

/// Why an item is excluded.
enum Exclusion<'a> {
    /// An exclude pattern matches it.
    By(&'a Pattern),
    /// No include pattern matches it.
    NotIncluded,
}

// === impl Filter ===

impl Filter {
    /// Returns whether this kind is offered at all.
    pub fn switch(&self, kind: ItemKind) -> Switch {
        match kind {
            ItemKind::Tool => self.tools,
            ItemKind::Resource | ItemKind::Template => self.resources,
            ItemKind::Prompt => self.prompts,
        }
    }

    /// Returns whether clients of a gateway may call this method. Methods of the protocol are never admitted, in whatever
    /// spelling: they would be forwarded unread.
    pub fn admits_method(&self, method: &str) -> bool {
        MethodSpelling::of(method).is_extension() && self.extra_methods.iter().any(|pattern| pattern.matches(method))
    }

    /// Whether methods of the skills extension may be forwarded: the files of skills are resources.
    pub(crate) fn admits_skills(&self) -> bool {
        self.switch(ItemKind::Resource) == Switch::On
    }

    /// Returns the key of the server's entry that excludes an item; `None` if it is offered.
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

    /// Returns the reason why an item is excluded; `None` if it is offered.
    pub(crate) fn objection(&self, kind: ItemKind, raw_name: &str) -> Option<String> {
        Some(match self.exclusion(kind, raw_name)? {
            Exclusion::By(pattern) => format!("excluded by pattern `{}` of the configuration", pattern.as_str()),
            Exclusion::NotIncluded => "not included by the configuration".to_owned(),
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

#[cfg(test)]
mod tests {
    use super::{Filter, ItemKind};

    #[test]
    fn exclude_takes_precedence_over_include() {
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
