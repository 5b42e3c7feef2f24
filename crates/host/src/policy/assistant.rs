//! What an assistant says about the calls of its conversations.
//!
//! It takes the place of the default of the surface, and of nothing else: the stricter of it, the mode and the rules counts.
//! A conversation that goes on has two: the approval it began with, and the one that is configured now. Both have to allow
//! a call, so that no row of a database allows anything.

use std::sync::Arc;

use toolway_config::{Approval, AssistantConfig, PolicyMode, RuleEffect, ToolPattern, Trust};

use super::{PolicyInput, RuleId, Subject};
use crate::call::CallKind;

/// The assistant of a conversation, as policy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantPolicy {
    /// Its name.
    pub name: Arc<str>,
    /// What the configuration says now; `None`: it has no assistant of this name any more.
    pub configured: Option<AssistantApproval>,
    /// What the conversation began with, if it goes on with that.
    pub stored: Option<AssistantApproval>,
}

/// An approval with its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantApproval {
    /// Which calls are asked about.
    pub approval: Approval,
    /// Tools that `trusted-only` passes.
    pub trusted_tools: Vec<ToolPattern>,
}

// === impl AssistantPolicy ===

impl AssistantPolicy {
    /// An assistant as it is configured.
    pub fn new(name: &str, config: &AssistantConfig) -> Self {
        Self { name: name.into(), configured: Some(config.into()), stored: None }
    }

    /// The stricter approval.
    pub fn approval(&self) -> Approval {
        self.approvals().map(|said| said.approval).max().unwrap_or_default()
    }

    /// The stricter of a mode and the mode that says the same as the approval.
    pub fn bound(&self, mode: Option<PolicyMode>) -> Option<PolicyMode> {
        let own = match self.approval() {
            Approval::AlwaysAsk => PolicyMode::Ask,
            Approval::TrustedOnly => PolicyMode::Writes,
            Approval::Auto => return mode,
        };
        match mode {
            Some(mode) if own.effect() < mode.effect() => Some(mode),
            _ => Some(own),
        }
    }

    /// What takes the place of the default of the surface; `None` if the configuration has no such assistant.
    pub(super) fn default_effect(&self, input: &PolicyInput<'_>) -> Option<RuleEffect> {
        self.configured.as_ref().map(|_| self.effect(input))
    }

    /// `Allow`, or `Ask` if one of its approvals asks.
    pub(super) fn effect(&self, input: &PolicyInput<'_>) -> RuleEffect {
        match self.approvals().all(|said| said.passes(input)) {
            true => RuleEffect::Allow,
            false => RuleEffect::Ask,
        }
    }

    /// Whether saved answers lift nothing.
    pub(super) fn asks_always(&self) -> bool {
        self.approval() == Approval::AlwaysAsk
    }

    /// What decided, if it did.
    pub(super) fn rule(&self) -> RuleId {
        RuleId::Assistant(Arc::clone(&self.name), self.approval())
    }

    /// Whether a further trusted tool in the configuration would pass this request.
    pub(super) fn may_trust(&self, input: &PolicyInput<'_>) -> bool {
        let asks = |said: &AssistantApproval| said.approval != Approval::Auto && !said.passes(input);
        let is_open = self.configured.as_ref().is_some_and(|said| said.approval == Approval::TrustedOnly);
        is_open && !self.stored.as_ref().is_some_and(asks) && input.subject.kind == CallKind::Tool && is_own(input)
    }

    fn approvals(&self) -> impl Iterator<Item = &AssistantApproval> {
        self.configured.iter().chain(&self.stored)
    }
}

// === impl AssistantApproval ===

impl AssistantApproval {
    fn passes(&self, input: &PolicyInput<'_>) -> bool {
        match self.approval {
            Approval::AlwaysAsk => false,
            Approval::TrustedOnly => input.trust == Trust::Full || self.trusts(input),
            Approval::Auto => true,
        }
    }

    fn trusts(&self, input: &PolicyInput<'_>) -> bool {
        let Subject { kind, server, raw_name } = input.subject;
        let is_named = || self.trusted_tools.iter().any(|pattern| pattern.matches(server.as_str(), raw_name));
        *kind == CallKind::Tool && is_own(input) && is_named()
    }
}

impl From<&AssistantConfig> for AssistantApproval {
    fn from(config: &AssistantConfig) -> Self {
        Self { approval: config.approval, trusted_tools: config.trusted_tools.clone() }
    }
}

/// Whether a server may be trusted by its name: a project can give its own server any name, and its servers are untrusted or
/// trusted by their folder.
fn is_own(input: &PolicyInput<'_>) -> bool {
    input.trust >= Trust::Read && input.lists.folder.is_none()
}
