//! Whether a call may be sent: one decision for each request, as a value.
//!
//! | part | file |
//! |---|---|
//! | what is decided on | `input.rs`, `surface.rs` |
//! | trust level and risk, paths in arguments | `trust_level.rs`, `file_access.rs` |
//! | which rule matches | `rules.rs`, `argument_match.rs`, `text_match.rs`, `fit.rs` |
//! | what an assistant says about its calls | `assistant.rs` |
//! | what is new to reach: hosts, URLs of the conversation, resources | `reach.rs`, `hosts.rs`, `seen_urls.rs` |
//! | decision, grant, approval request, refusal | `decision.rs` |
//! | answers of a user: what is proposed, what they cover | `approval.rs`, `proposal.rs`, `scope.rs` |
//! | answers that hold longer: saved ones, those of a conversation | `saved.rs`, `conversation_answers.rs` |
//! | definitions as they were first seen | `baseline.rs`, `call/drift.rs` |
//! | what is unusual in texts of servers | `scan.rs` |
//! | slots: a grant becomes a permit | `limit.rs`, `caller_counter.rs` |
//! | limits of servers and clients | `limit/` |
//!
//! The first rule of the user's file that matches decides, else the mode (the stricter of the one for all and that of the
//! client), else the approval of the assistant, else the default of the surface. The first rule of
//! the project's file that matches only makes it stricter, and so does the approval of the assistant. A rule that cannot be evaluated refuses; one that matches in one
//! reading of an argument only counts where it makes the result stricter. A saved approval lifts
//! `ask`, never `deny`, and nothing in mode `ask`, of `requireConfirmation` or of an assistant that always asks. A saved refusal refuses whatever is allowed.

pub mod approval;
mod argument_match;
pub mod assistant;
pub mod baseline;
mod caller_counter;
pub(crate) mod conversation_answers;
pub mod decision;
mod file_access;
mod fit;
pub mod hosts;
pub mod input;
pub mod limit;
pub mod proposal;
pub mod reach;
mod rules;
pub mod saved;
pub mod scan;
pub mod scope;
mod seen_urls;
pub mod surface;
mod text_match;
pub mod trust_level;

use std::{collections::BTreeMap, sync::Arc};

pub use approval::{ApprovalAnswer, ApprovalTerm};
pub use assistant::{AssistantApproval, AssistantPolicy};
pub use baseline::{Baseline, Baselines, MemoryBaselines, SeenDigest, SeenItem};
pub(crate) use conversation_answers::ConversationAnswers;
pub(crate) use decision::Definition;
pub(crate) use decision::Remedy;
pub use decision::{ApprovalRequest, Decision, Grant, Refusal, RuleId, Subject};
pub use hosts::{Bare, FoundHost, HostSearch, HostStatus};
pub use input::{Annotations, PolicyInput};
pub use limit::{
    CALLS_PER_CLIENT, CallLimits, Permit,
    book::LimitUse,
    days::{CallDays, DayCount, DayTaken, DayUse, MemoryCallDays},
    reached::{LimitEnd, LimitKey, LimitOwner, LimitReached, LimitScope},
};
pub use proposal::{ArgumentChoice, Before, CoverError, Proposal};
pub use reach::{Reach, Reached, ResourceOffer};
use rules::{Doubt, Matched};
pub(crate) use saved::OutdatedNotices;
pub use saved::{
    ApprovalKey, Attendance, MemorySavedApprovals, SavedApproval, SavedApprovalError, SavedApprovals, SavedEffect,
    SavedFinding, StoredApproval,
};
pub use scope::{ArgumentScope, AskedCall, SameValue, Scope};
pub use seen_urls::SeenUrls;
pub use surface::Surface;
use toolway_config::{
    Approver, ClientSettings, DriftEffect, FileAccess, HostPattern, PolicyMode, PolicySettings, ProjectRules,
    RuleEffect, SamplingLevels, SamplingPermission, SamplingSettings, Settings, policy::Rule,
};
use toolway_wire::exchange::Request;
pub use trust_level::{Risk, TrustLevel};

use crate::{
    call::{CallKind, Caller, DriftKind, Selection},
    catalog::{Filter, ItemKind, guard::Hides},
};

/// The decision where no rule matches, as the embedding program sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// The default of each surface.
    #[default]
    BySurface,
    /// Allow every call.
    Allow,
    /// Require an approval for each call.
    Ask,
    /// Deny all calls.
    Deny,
}

/// The policy in effect. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    stance: Stance,
    mode: Option<PolicyMode>,
    user: Arc<[Rule]>,
    project: Arc<ProjectRules>,
    /// Hosts that are never new.
    hosts: Arc<[HostPattern]>,
    /// What becomes of calls whose definition has changed; `None`: agents ask.
    changed_tools: Option<DriftEffect>,
    new_tools: DriftEffect,
    /// Clients of the gateway, by name.
    clients: Arc<BTreeMap<String, ClientSettings>>,
    /// Whether models answer servers, at the top.
    sampling: Arc<SamplingSettings>,
    /// The assistant of the conversation.
    assistant: Option<Arc<AssistantPolicy>>,
}

/// A mode in effect, and whose it is.
#[derive(Clone, Copy)]
enum EffectiveMode<'a> {
    OfAll(PolicyMode),
    OfClient(&'a Arc<str>, PolicyMode),
}

/// The result for one request, before saved approvals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `Allow`, `Ask` or `Deny`.
    pub effect: RuleEffect,
    /// The rule, mode or default that decided.
    pub rule: RuleId,
    /// Reason in the rule, or what is new about the request.
    pub reason: Option<String>,
    /// Whether a saved approval lifts an `Ask`.
    pub lift: Lift,
    /// What the user's file says, or the mode or default where it has no rule that matches.
    pub user: Opinion,
    /// What the project's file says; `None` if no rule of it matches.
    pub project: Option<Opinion>,
    /// What the request reaches, where only that can keep it from passing `writes`.
    pub reached: Reached,
}

/// What one source of policy says about a request: its user's file with the defaults, or the project's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The effect as written; `Writes` is not resolved.
    pub effect: RuleEffect,
    /// The rule, mode or default.
    pub rule: RuleId,
    /// Reason in the rule, or why it cannot be evaluated.
    pub reason: Option<String>,
}

/// Whether saved approvals answer an approval request. A saved refusal always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// They do.
    BySaved,
    /// They do not: the mode is `ask`, or the tool is one of `requireConfirmation`.
    Never,
}

impl Policy {
    /// Creates a policy that consists of a default decision only.
    pub fn of(stance: Stance) -> Self {
        Self { stance, ..Self::default() }
    }

    /// Creates the policy of a configuration; `stance` is the default of the embedding program.
    pub fn new(stance: Stance, settings: &Settings) -> Self {
        let PolicySettings { mode, user, project, hosts, changed_tools, new_tools, .. } = settings.policy.clone();
        let clients = Arc::new(settings.gateway.clients.value.clone());
        Self {
            stance,
            mode: mode.value,
            user: user.into(),
            project: project.into(),
            hosts: hosts.value.into(),
            changed_tools: changed_tools.value,
            new_tools: new_tools.value,
            clients,
            sampling: Arc::new(settings.sampling.value.clone()),
            assistant: None,
        }
    }

    /// This policy with another mode for all callers, if one is given. It is the user's: no project chooses one.
    #[must_use]
    pub fn with_mode(self, mode: Option<PolicyMode>) -> Self {
        Self { mode: mode.or(self.mode), ..self }
    }

    /// This policy for the calls of a conversation with an assistant, if it has one.
    #[must_use]
    pub fn with_assistant(self, assistant: Option<Arc<AssistantPolicy>>) -> Self {
        Self { assistant, ..self }
    }

    /// The mode in effect for a caller: the strictest of the mode for all, the mode of the client and the assistant's.
    pub fn mode_of(&self, caller: &Caller) -> Option<PolicyMode> {
        let mode = self.effective_mode(caller).map(EffectiveMode::mode);
        self.assistant.as_ref().map_or(mode, |assistant| assistant.bound(mode))
    }

    /// What becomes of a call whose tool or server is not what was seen first. A model is asked for, others are recorded.
    pub(crate) fn drift_effect(&self, caller: &Caller, kind: DriftKind) -> DriftEffect {
        let default = if matches!(caller, Caller::Agent(_)) { DriftEffect::Ask } else { DriftEffect::Allow };
        match kind {
            DriftKind::Changed => self.changed_tools.unwrap_or(default),
            DriftKind::New => self.new_tools,
        }
    }

    /// What no model and no client is shown. It is the same for all of them: hiding is never a default.
    pub(crate) fn hides(&self) -> Hides {
        Hides { changed: self.changed_tools == Some(DriftEffect::Hide), new: self.new_tools == DriftEffect::Hide }
    }

    /// Who approves the calls of a caller that are asked about.
    pub fn approver_of(&self, caller: &Caller) -> Approver {
        self.client(caller).map(|client| client.approver.value).unwrap_or_default()
    }

    /// What clients may see, where the configuration bounds it, by name.
    pub(crate) fn client_bounds(&self) -> BTreeMap<String, Selection> {
        let bounds = self.clients.iter().map(|(name, client)| {
            let servers = client.servers.value.as_ref().map(|servers| servers.iter().cloned().collect());
            (name.clone(), Selection { servers, tools: client.tools.value.clone() })
        });
        bounds.filter(|(_, bound)| *bound != Selection::default()).collect()
    }

    /// The levels that decide whether our models answer a server with these settings in the calls of a caller.
    pub fn sampling_levels(&self, server: &SamplingSettings, caller: &Caller) -> SamplingLevels {
        let client = self.client(caller).map(|client| client.sampling.value.clone());
        SamplingLevels {
            top: SamplingSettings::clone(&self.sampling),
            server: server.clone(),
            client: client.unwrap_or_default(),
        }
    }

    /// The strictest permission of these levels; `None` if none is set.
    pub(crate) fn sampling_permission(&self, server: &SamplingSettings, caller: &Caller) -> Option<SamplingPermission> {
        let client = self.client(caller).and_then(|client| client.sampling.value.allow);
        [self.sampling.allow, server.allow, client].into_iter().flatten().min()
    }

    fn client(&self, caller: &Caller) -> Option<&ClientSettings> {
        let Caller::Client(name) = caller else { return None };
        self.clients.get(&**name)
    }

    fn effective_mode<'a>(&self, caller: &'a Caller) -> Option<EffectiveMode<'a>> {
        let of_all = self.mode.map(EffectiveMode::OfAll);
        let Caller::Client(name) = caller else { return of_all };
        let of_client = self.client(caller).and_then(|client| client.mode.value);
        let of_client = of_client.map(|mode| EffectiveMode::OfClient(name, mode));
        match (of_all, of_client) {
            (Some(all), Some(client)) if all.mode().effect() < client.mode().effect() => Some(client),
            (all, client) => all.or(client),
        }
    }

    /// Decides about one request, which is in the grant: only what was decided on is sent. `filter` is the filter of the
    /// server's entry; it applies to calls as it does to listings.
    pub fn decide(&self, input: &PolicyInput<'_>, request: Option<Request>, filter: &Filter) -> Decision {
        let subject = input.subject.clone();
        if let Some(key) = left_out_by(&subject, filter) {
            return Decision::Deny(Refusal::FilteredOut { subject, key });
        }
        let Verdict { effect, rule, reason, lift, reached, .. } = self.evaluate(input);
        match effect {
            RuleEffect::Allow => Decision::Allow(Grant::new(subject, rule, request)),
            RuleEffect::Ask | RuleEffect::Writes => {
                let grant = Grant::new(subject, rule, request);
                let remedy = self.remedy(input, grant.rule());
                Decision::Ask(ApprovalRequest::new(grant, input, reason, lift).reaching(reached).allowed_by(remedy))
            }
            RuleEffect::Deny => Decision::Deny(Refusal::Denied { rule, reason }),
        }
    }

    /// Evaluates rules, mode and defaults.
    pub fn evaluate(&self, input: &PolicyInput<'_>) -> Verdict {
        let user = rules::evaluate(&self.user, input);
        let first = user.first.map_or_else(|| self.default_of(input), Opinion::from);
        let user = first.or_stricter(user.unclear.map(Opinion::from));
        let project = rules::evaluate(self.project.as_slice(), input);
        let project = match (project.first.map(Opinion::from), project.unclear.map(Opinion::from)) {
            (Some(first), unclear) => Some(first.or_stricter(unclear)),
            (None, unclear) => unclear,
        };
        let deciding = user.clone().or_stricter(project.clone());
        let reached = match deciding.effect {
            RuleEffect::Writes if input.passes_writes() && !input.passes_unseen() => Reached::of(input, &self.hosts),
            _ => Reached::default(),
        };
        let effect = match deciding.effect {
            RuleEffect::Writes if input.passes_writes() && !reached.is_new() => RuleEffect::Allow,
            RuleEffect::Writes => RuleEffect::Ask,
            other => other,
        };
        let asking = self.effective_mode(input.caller).filter(|mode| mode.mode() == PolicyMode::Ask);
        let confirms = input.requires_confirmation();
        let always = self.assistant.as_ref().is_some_and(|assistant| assistant.asks_always());
        let lift = if asking.is_some() || confirms || always { Lift::Never } else { Lift::BySaved };
        let Opinion { rule, reason, .. } = deciding;
        let outside = if input.lists.file_access == FileAccess::RootsOnly { file_access::refusal(input) } else { None };
        if let Some(outside) = outside.filter(|_| effect != RuleEffect::Deny) {
            let rule = RuleId::Entry(input.subject.server.clone(), "allowFileAccess");
            let effect = RuleEffect::Deny;
            return Verdict { effect, rule, reason: Some(outside), lift, user, project, reached };
        }
        let confirming = || confirms.then(|| RuleId::Entry(input.subject.server.clone(), "requireConfirmation"));
        let asks = asking.map(EffectiveMode::rule).or_else(confirming).or_else(|| self.assistant_asking(input));
        if let Some(rule) = asks.filter(|_| effect == RuleEffect::Allow) {
            return Verdict { effect: RuleEffect::Ask, rule, reason: None, lift, user, project, reached };
        }
        let reason = reason.or_else(|| reached.reason());
        Verdict { effect, rule, reason, lift, user, project, reached }
    }

    /// The approval of the assistant, if it asks about a request.
    fn assistant_asking(&self, input: &PolicyInput<'_>) -> Option<RuleId> {
        let assistant = self.assistant.as_ref()?;
        (assistant.effect(input) == RuleEffect::Ask).then(|| assistant.rule())
    }

    /// What would allow a request that is asked about. Where a rule and the assistant ask, no single command does.
    fn remedy(&self, input: &PolicyInput<'_>, rule: &RuleId) -> Remedy {
        match (&self.assistant, self.assistant_asking(input), rule) {
            (Some(assistant), Some(_), RuleId::Assistant(..)) if assistant.may_trust(input) => Remedy::TrustedTool,
            (_, Some(_), _) => Remedy::None,
            (_, None, _) => Remedy::Rule,
        }
    }

    fn default_of(&self, input: &PolicyInput<'_>) -> Opinion {
        let stance = match self.stance {
            Stance::BySurface => None,
            Stance::Allow => Some(RuleEffect::Allow),
            Stance::Ask => Some(RuleEffect::Ask),
            Stance::Deny => Some(RuleEffect::Deny),
        };
        if let Some(effect) = stance {
            return Opinion { effect, rule: RuleId::Stance(effect), reason: None };
        }
        if let Some(mode) = self.effective_mode(input.caller) {
            return Opinion { effect: mode.mode().effect(), rule: mode.rule(), reason: None };
        }
        if let Some(assistant) = &self.assistant
            && let Some(effect) = assistant.default_effect(input)
        {
            return Opinion { effect, rule: assistant.rule(), reason: None };
        }
        let effect = match (input.surface, input.caller) {
            (Surface::Chat | Surface::Run, _) | (Surface::Console, Caller::Agent(_)) => RuleEffect::Writes,
            _ => RuleEffect::Allow,
        };
        Opinion { effect, rule: RuleId::Default(input.surface, effect), reason: None }
    }
}

impl EffectiveMode<'_> {
    fn mode(self) -> PolicyMode {
        match self {
            Self::OfAll(mode) | Self::OfClient(_, mode) => mode,
        }
    }

    fn rule(self) -> RuleId {
        match self {
            Self::OfAll(mode) => RuleId::Mode(mode),
            Self::OfClient(client, mode) => RuleId::ClientMode(Arc::clone(client), mode),
        }
    }
}

impl Opinion {
    /// The other opinion if it is stricter, else this one.
    fn or_stricter(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if self.effect < other.effect => other,
            _ => self,
        }
    }
}

impl From<Matched<'_>> for Opinion {
    fn from(matched: Matched<'_>) -> Self {
        let written = matched.rule.reason.clone();
        let reason = match &matched.doubt {
            Doubt::None => written,
            Doubt::Unclear(why) => Some(written.map_or_else(|| why.clone(), |written| format!("{written}; {why}"))),
            Doubt::NotEvaluated(why) => Some(format!("the rule cannot be evaluated: {why}")),
        };
        Self { effect: matched.effect(), rule: RuleId::Rule(matched.rule.place.clone()), reason }
    }
}

fn left_out_by(subject: &Subject, filter: &Filter) -> Option<&'static str> {
    let kind = match subject.kind {
        CallKind::Tool => ItemKind::Tool,
        CallKind::Prompt => ItemKind::Prompt,
        CallKind::Resource => ItemKind::Resource,
        CallKind::Method => return None,
    };
    filter.key_against(kind, &subject.raw_name)
}

#[cfg(test)]
mod tests;
