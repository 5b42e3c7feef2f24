//! The path of a sampling request: permission, quota, person, model, review. Each step is taken once and in this order; the
//! model is reached only through the value that [`Sampler::prepare`](super::Sampler::prepare) returned.

use std::{sync::Arc, time::SystemTime};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolway_config::{PolicyMode, SamplingLevels, SamplingPermission};
use toolway_wire::{exchange::Answer, message::RpcError};
use uuid::Uuid;

use super::{
    PreparedSample, Sampled, SamplingDetails, SamplingRequest,
    permission::{self, Permission, PermissionInput, Presence, RefusedBy, SavedAnswer},
    quota::{QuotaExceeded, Reservation, SampledTokens, SamplingEnd, SamplingLedger, SamplingQuotas, SamplingUse},
    refused,
    totals::BudgetPlace,
};
use crate::{
    call::Caller,
    connection::Connection,
    host::Inner,
    inbox::{InboxAnswer, InboxItem, SamplingAnswer},
    policy::{
        ApprovalKey, AskedCall, AssistantPolicy, Attendance, Reached, SavedApproval, SavedEffect, SavedFinding, Scope,
        saved,
    },
    record::{AuditNote, PersonWait, kind},
    tallies::ModelTokens,
};

/// Code of the error for a request that the user declined, as the protocol suggests for sampling.
const USER_REJECTED: i64 = -1;
/// What saved answers are about.
const METHOD: &str = "sampling/createMessage";
/// Stands in place of a definition: no call of a method of this name has it.
const DEFINITION: &str = "server-request:";

/// The call that requests belong to, and where they are decided.
#[derive(Clone)]
pub(crate) struct SamplingDesk {
    pub(crate) host: Arc<Inner>,
    pub(crate) connection: Connection,
    /// Mode of the call.
    pub(crate) mode: Option<PolicyMode>,
    /// Assistant of its conversation.
    pub(crate) assistant: Option<Arc<AssistantPolicy>>,
    pub(crate) attendance: Attendance,
    /// Name of what is called.
    pub(crate) called: String,
    pub(crate) person_wait: PersonWait,
}

/// What is true at one moment.
struct Terms {
    levels: SamplingLevels,
    mode: Option<PolicyMode>,
    presence: Presence,
}

/// Reserved tokens. They are settled when this is dropped.
struct Reserved {
    ledger: Arc<dyn SamplingLedger>,
    id: Uuid,
    end: SamplingEnd,
}

/// What happened, for the audit log.
#[derive(Default)]
struct Account {
    model: Option<String>,
    reason: Option<String>,
    max_tokens: u64,
    decided_by: String,
    tokens: Option<SampledTokens>,
    stop_reason: Option<String>,
}

impl SamplingDesk {
    /// Answers a request, and notes how in the audit log.
    pub(crate) async fn answer(&self, request: SamplingRequest) -> Answer {
        let mut account = Account::default();
        let answered = self.decide_and_sample(&request, &mut account).await;
        let outcome = match &answered {
            Ok(_) => "answered",
            Err(error) if error.code() == USER_REJECTED => "declined",
            Err(error) if error.code() == RpcError::INTERNAL => "failed",
            Err(_) => "refused",
        };
        self.note(&request, &account, outcome, answered.as_ref().err());
        answered.map_or_else(Answer::Refused, |sampled| Answer::Given(sampled.result))
    }

    async fn decide_and_sample(&self, request: &SamplingRequest, account: &mut Account) -> Result<Sampled, RpcError> {
        let mut terms = self.terms(request);
        let saved = self.saved_answer(request).await;
        // What is refused in any case is neither translated nor counted.
        self.check(request, terms.decide(saved, None), account)?;
        let ports = &self.host.context.ports;
        let PreparedSample { mut details, send } = ports.sampler.prepare(request, &terms.levels)?;
        account.describe(&details);
        let (mut reserved, decision) = match self.reserve(request, &terms, &details).await? {
            (Reservation::Granted(left), reserved) => {
                details.quota = left;
                (reserved, terms.decide(saved, None))
            }
            (Reservation::Exceeded(exceeded), mut reserved) => {
                reserved.end = SamplingEnd::NotSent;
                (reserved, terms.decide(saved, Some(&exceeded)))
            }
        };
        let permission = self.check(request, decision, account)?;
        let place = self.take_of_budget(request, &details)?;
        if permission == Permission::Ask {
            self.ask(request, details.clone(), account).await?;
            // The person took time: what the configuration says now counts.
            let before = std::mem::replace(&mut terms, self.terms(request));
            if terms.levels.permission() == SamplingPermission::Never {
                return Err(self.refusal(request, &RefusedBy::Never));
            }
            if !terms.bound_as(&before) {
                return Err(refused(&request.server, "its settings changed while the user was asked"));
            }
        }
        // From here on tokens may be used, also if the call ends before the answer comes.
        reserved.end = SamplingEnd::Sent { tokens: None, outcome: "cancelled" };
        let answered = send().await;
        account.tokens = answered.tokens;
        let used =
            answered.tokens.map_or(details.reserved_tokens(), |tokens| tokens.input.saturating_add(tokens.output));
        if let Some(SampledTokens { input, output }) = answered.tokens {
            self.host.context.tallies.count_tokens(&details.model, ModelTokens { input, output });
        }
        self.host.context.sampled.add_tokens(request.origin.conversation.as_ref(), used);
        drop(place);
        let outcome = if answered.answer.is_ok() { "answered" } else { "failed" };
        reserved.end = SamplingEnd::Sent { tokens: answered.tokens, outcome };
        let sampled = answered.answer?;
        account.stop_reason = Some(sampled.stop_reason.clone());
        if terms.levels.has_review() {
            reserved.end = SamplingEnd::Sent { tokens: answered.tokens, outcome: "withheld" };
            self.review(request, SamplingDetails { answer: Some(sampled.text.clone()), ..details }).await?;
            reserved.end = SamplingEnd::Sent { tokens: answered.tokens, outcome };
        }
        Ok(sampled)
    }

    /// Takes the tokens of a request out of the budget of its conversation.
    fn take_of_budget(
        &self,
        request: &SamplingRequest,
        details: &SamplingDetails,
    ) -> Result<Option<BudgetPlace>, RpcError> {
        let Some(conversation) = &request.origin.conversation else { return Ok(None) };
        let place = BudgetPlace::take(&self.host.context, conversation, details.reserved_tokens());
        let used_up =
            || refused(&request.server, "the tokens of the conversation's budget are used up (`--max-tokens`)");
        place.map(Some).ok_or_else(used_up)
    }

    /// What configuration, mode and surface say now.
    fn terms(&self, request: &SamplingRequest) -> Terms {
        let policy = self.host.policy().with_mode(self.mode).with_assistant(self.assistant.clone());
        let caller = &request.origin.caller;
        let levels = policy.sampling_levels(&self.connection.wanted().sampling, caller);
        let presence = self.host.context.presence(request.origin.surface, self.attendance);
        Terms { levels, mode: policy.mode_of(caller), presence }
    }

    /// Passes what is allowed or asked about.
    fn check(
        &self,
        request: &SamplingRequest,
        permission: Permission,
        account: &mut Account,
    ) -> Result<Permission, RpcError> {
        match &permission {
            Permission::Refused(by) => {
                by.as_str().clone_into(&mut account.decided_by);
                if matches!(by, RefusedBy::Unattended | RefusedBy::Review) {
                    let conversation = request.origin.conversation.as_ref();
                    self.host.context.sampled.add_unapproved(conversation, &request.server);
                }
                return Err(self.refusal(request, by));
            }
            Permission::Allowed(by) => by.as_str().clone_into(&mut account.decided_by),
            Permission::Ask => {}
        }
        Ok(permission)
    }

    /// The error for the server. It names the setting.
    fn refusal(&self, request: &SamplingRequest, by: &RefusedBy) -> RpcError {
        let server = &request.server;
        match by {
            RefusedBy::Never => refused(server, "`sampling.allow` is `never`"),
            RefusedBy::Unattended => refused(server, "no user can be asked, and `sampling.allow` is `ask`"),
            RefusedBy::Review => refused(server, "no user can be asked, and `sampling.review` is `true`"),
            RefusedBy::Quota(exceeded) => {
                refused(server, &QuotaExceeded::reason(exceeded, server.as_str(), &request.origin.caller.label()))
            }
        }
    }

    async fn reserve(
        &self,
        request: &SamplingRequest,
        terms: &Terms,
        details: &SamplingDetails,
    ) -> Result<(Reservation, Reserved), RpcError> {
        let ledger = Arc::clone(&self.host.context.ports.sampling);
        let id = Uuid::now_v7();
        let wanted = SamplingUse {
            id,
            at: SystemTime::now(),
            call: request.origin.call,
            server: request.server.clone(),
            caller: request.origin.caller.label(),
            model: details.model.clone(),
            reason: details.reason.clone(),
            tokens: details.reserved_tokens(),
        };
        let reserving = ledger.reserve(wanted, SamplingQuotas::of(&terms.levels));
        // Made before waiting: a request that is withdrawn meanwhile keeps nothing.
        let reserved = Reserved { ledger: Arc::clone(&ledger), id, end: SamplingEnd::NotSent };
        match reserving.await {
            Ok(reservation) => Ok((reservation, reserved)),
            Err(error) => {
                tracing::error!(server = %request.server, %error, "the quota of sampling cannot be read");
                Err(refused(&request.server, "its quota cannot be checked"))
            }
        }
    }

    /// Asks a person whether the model may answer.
    async fn ask(
        &self,
        request: &SamplingRequest,
        details: SamplingDetails,
        account: &mut Account,
    ) -> Result<(), RpcError> {
        let answer = self.wait(request, details).await;
        let term = match answer {
            InboxAnswer::Sampling(SamplingAnswer::Once) => "once",
            InboxAnswer::Sampling(SamplingAnswer::Always) => {
                self.save(request).await;
                "always"
            }
            InboxAnswer::Sampling(SamplingAnswer::No) => {
                "no".clone_into(&mut account.decided_by);
                return Err(RpcError::new(USER_REJECTED, "the user declined the sampling request"));
            }
            _ => {
                "unanswered".clone_into(&mut account.decided_by);
                return Err(refused(&request.server, "no user answered, and `sampling.allow` is `ask`"));
            }
        };
        term.clone_into(&mut account.decided_by);
        Ok(())
    }

    /// Shows a person the answer of the model before the server gets it.
    async fn review(&self, request: &SamplingRequest, details: SamplingDetails) -> Result<(), RpcError> {
        match self.wait(request, details).await {
            InboxAnswer::Sampling(SamplingAnswer::Once | SamplingAnswer::Always) => Ok(()),
            InboxAnswer::Sampling(SamplingAnswer::No) => {
                Err(RpcError::new(USER_REJECTED, "the user declined the answer of the model"))
            }
            _ => Err(refused(&request.server, "no user reviewed the answer, and `sampling.review` is `true`")),
        }
    }

    async fn wait(&self, request: &SamplingRequest, details: SamplingDetails) -> InboxAnswer {
        let item = InboxItem::sampling(&request.server, details, request.origin.clone());
        let answerer = Arc::clone(&self.host.context.ports.answerer);
        let answers =
            |item: Arc<InboxItem>| -> BoxFuture<'_, _> { Box::pin(async move { answerer.answer(&item).await }) };
        let _waiting = self.person_wait.begin();
        self.host.context.inbox.wait(item, answers).await
    }

    fn key(&self, request: &SamplingRequest) -> ApprovalKey {
        let caller = match &request.origin.caller {
            Caller::Agent(_) => "agent".to_owned(),
            other => other.label(),
        };
        ApprovalKey {
            caller,
            server: request.server.clone(),
            entry: self.connection.wanted().entry_digest(&self.host.context.dialer.environment),
            tool: METHOD.to_owned(),
            digest: DEFINITION.to_owned(),
        }
    }

    /// Whether "always for this server" was answered for the server as it is.
    async fn saved_answer(&self, request: &SamplingRequest) -> SavedAnswer {
        let saved = match self.host.context.ports.approvals.of_item(&request.server, METHOD).await {
            Ok(saved) => saved,
            Err(error) => {
                tracing::warn!(server = %request.server, %error, "saved answers cannot be read");
                return SavedAnswer::Nothing;
            }
        };
        let reached = Reached::default();
        let call = AskedCall { arguments: None, reached: &reached };
        match saved::deciding(&saved, &self.key(request), call, Attendance::Unattended) {
            SavedFinding::Allowed(_) => SavedAnswer::Everywhere,
            SavedFinding::AttendedOnly(_) => SavedAnswer::Attended,
            SavedFinding::Refused(_) | SavedFinding::Outdated(_) | SavedFinding::Nothing => SavedAnswer::Nothing,
        }
    }

    async fn save(&self, request: &SamplingRequest) {
        let approval = SavedApproval::new(self.key(request), Scope::Any, SavedEffect::Allow);
        if let Err(error) = self.host.context.ports.approvals.save(approval).await {
            tracing::warn!(server = %request.server, %error, "the answer is not saved; it holds for this request");
        }
    }

    fn note(&self, request: &SamplingRequest, account: &Account, outcome: &str, error: Option<&RpcError>) {
        let mut details = account.details(outcome);
        if let (Value::Object(details), Some(error)) = (&mut details, error) {
            details.insert("error".to_owned(), json!(error.message()));
        }
        self.host.context.note(AuditNote {
            kind: kind::SAMPLING,
            caller: Some(request.origin.caller.label()),
            server: Some(request.server.clone()),
            subject: Some(self.called.clone()),
            call: request.origin.call,
            details,
        });
    }
}

impl Terms {
    /// Whether a request that was prepared and counted by the other terms would be the same by these.
    fn bound_as(&self, other: &Self) -> bool {
        let quotas = |terms: &Self| SamplingQuotas::of(&terms.levels);
        self.levels.max_tokens() == other.levels.max_tokens()
            && self.levels.model() == other.levels.model()
            && quotas(self) == quotas(other)
    }

    fn decide(&self, saved: SavedAnswer, exceeded: Option<&QuotaExceeded>) -> Permission {
        permission::decide(PermissionInput {
            levels: &self.levels,
            mode: self.mode,
            presence: self.presence,
            exceeded,
            saved,
        })
    }
}

impl Account {
    fn describe(&mut self, details: &SamplingDetails) {
        self.model = Some(details.model.clone());
        self.reason = Some(details.reason.clone());
        self.max_tokens = details.max_tokens;
    }

    fn details(&self, outcome: &str) -> Value {
        json!({
            "outcome": outcome,
            "decidedBy": self.decided_by,
            "model": self.model,
            "reason": self.reason,
            "maxTokens": self.max_tokens,
            "inputTokens": self.tokens.map(|tokens| tokens.input),
            "outputTokens": self.tokens.map(|tokens| tokens.output),
            "stopReason": self.stop_reason,
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.ledger.settle(self.id, self.end.clone());
    }
}
