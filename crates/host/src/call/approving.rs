//! Deciding about a call, and asking a person where policy asks.
//!
//! An approval may wait for minutes. What was approved is what is sent: after it the call is found and decided again, with
//! the definition and the configuration of that moment, and asked about again if what the person saw has changed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_config::{DriftEffect, FileAccess, PolicyMode};
use toolway_wire::{
    exchange::Request,
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

use super::{
    ApprovalHandling, CallOutcome, Caller, CallerContext, Target,
    client_approval::{self, OpenCall},
    drift,
    find::{self, Found},
    pipeline::not_connected,
};
use crate::{
    catalog::Fingerprint,
    host::Inner,
    inbox::{InboxAnswer, InboxItem, ItemOrigin, approval_rows},
    policy::{
        Annotations, ApprovalKey, ApprovalRequest, ApprovalTerm, AssistantPolicy, Attendance, Decision, Definition,
        Grant, Lift, PolicyInput, Proposal, Refusal, RuleId, SavedApproval, SavedEffect, SavedFinding, Scope, SeenUrls,
        Surface, approval,
        conversation_answers::Approved,
        saved,
        scan::{self, Scanner},
    },
    record::{Recording, kind},
};

/// How often a call is decided before it is given up: each further time something had changed.
pub(super) const MAX_DECISIONS: usize = 8;

/// On whose behalf and from where a request comes.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) caller: &'a Caller,
    pub(super) surface: Surface,
    pub(super) conversation: Option<&'a Arc<str>>,
    /// Session of a gateway's client.
    pub(super) session: Option<&'a Arc<str>>,
    /// Mode of policy for this call.
    pub(super) mode: Option<PolicyMode>,
    /// Assistant of the conversation.
    pub(super) assistant: Option<&'a Arc<AssistantPolicy>>,
    /// URLs of the user and of earlier results of the conversation.
    pub(super) seen: Option<&'a SeenUrls>,
    /// Whether a person is present.
    pub(super) attendance: Attendance,
    /// Whether a person is asked at all.
    pub(super) approval: ApprovalHandling,
    /// The call, if its client can be asked for an approval.
    pub(super) open_call: Option<&'a Arc<OpenCall>>,
}

/// What is decided on.
pub(super) struct Asked<'a> {
    /// The request that would be sent; `None` if it is composed later from the subject alone.
    pub(super) request: Option<ComposedRequest>,
    /// The grant of an earlier decision about the same call. What a person has approved is not asked about again.
    pub(super) previous: Option<Grant>,
    pub(super) recording: Option<&'a Recording>,
}

/// A request as it would be sent, with its arguments: what is checked, decided on and recorded is what is sent.
pub(super) struct ComposedRequest {
    request: Request,
    arguments: Option<Raw>,
}

/// A grant, and when it was given.
pub(super) enum Obtained {
    /// By what is true now.
    Now(Grant),
    /// By a person, after a wait: the call has to be found and decided again.
    AfterWaiting(Grant),
}

/// The configuration at one moment.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    revision: u64,
}

impl<'a> Asker<'a> {
    /// A caller on its usual surface.
    pub(super) fn of(caller: &'a Caller) -> Self {
        Self {
            caller,
            surface: Surface::of(caller),
            conversation: None,
            session: None,
            mode: None,
            assistant: None,
            seen: None,
            attendance: Attendance::Attended,
            approval: ApprovalHandling::Ask,
            open_call: None,
        }
    }

    /// The conversation or session in which answers may hold.
    fn held_in(&self) -> Option<&'a Arc<str>> {
        self.conversation.or(self.session)
    }
}

impl Moment {
    /// The moment before something is found and decided.
    pub(super) fn of(host: &Inner) -> Self {
        Self { revision: host.policy_revision() }
    }

    /// Whether policy and the definition are still those that were decided on.
    pub(super) fn is_now(self, host: &Inner, found: &Found) -> bool {
        let is_same = |fingerprint: Fingerprint| {
            let catalog = host.catalog_publisher.catalog();
            if catalog.revision() == found.revision {
                return true;
            }
            let now = find::listed_fingerprint(&catalog, &found.subject);
            // A definition that only this caller sees is not in the shared catalog.
            !found.is_shared || now == Some(fingerprint)
        };
        self.revision == host.policy_revision() && found.fingerprint.is_none_or(is_same)
    }
}

/// A request that is not a call of its own: completion, subscriptions, operations on tasks.
#[derive(Clone, Copy)]
pub(super) struct AuxiliaryRequest<'a> {
    pub(super) context: &'a CallerContext,
    pub(super) target: &'a Target,
    /// Annotations instead of those of the item.
    pub(super) annotations: Option<Annotations>,
}

impl AuxiliaryRequest<'_> {
    /// Looks up the item.
    pub(super) async fn find(&self, host: &Inner) -> Result<Found, Refusal> {
        let context = self.context;
        let mut found = find::find(host, (&context.visible, &|| context.clone()), self.target, None).await?;
        found.annotations = self.annotations.unwrap_or(found.annotations);
        Ok(found)
    }
}

/// A grant by what was true at one moment. What is sent later is compared with it once more.
pub(super) struct CurrentGrant {
    pub(super) found: Found,
    pub(super) grant: Grant,
    pub(super) moment: Moment,
}

/// Decides until nothing changes any more.
pub(super) async fn obtain_current_grant(
    host: &Inner,
    request: AuxiliaryRequest<'_>,
    mut previous: Option<Grant>,
    recording: Option<&Recording>,
) -> Result<CurrentGrant, CallOutcome> {
    let asker = Asker::of(&request.context.caller);
    let mut name = String::new();
    for _ in 0..MAX_DECISIONS {
        let moment = Moment::of(host);
        let found = request.find(host).await?;
        name.clone_from(&found.subject.raw_name);
        let asked = Asked { request: None, previous: previous.take(), recording };
        match obtain_grant(host, &found, asker, asked).await? {
            Obtained::Now(grant) => return Ok(CurrentGrant { found, grant, moment }),
            Obtained::AfterWaiting(grant) => previous = Some(grant),
        }
    }
    Err(Refusal::KeepsChanging(name).into())
}

/// Decides, and requests an approval if one is required. A call that cannot be sent without a sign-in fails before approval
/// is requested: its definition is not known yet.
pub(super) async fn obtain_grant(
    host: &Inner,
    found: &Found,
    asker: Asker<'_>,
    asked: Asked<'_>,
) -> Result<Obtained, CallOutcome> {
    let Asked { request, previous, recording } = asked;
    // Policy looks at the arguments that are sent, not at those that were given.
    let (request, arguments) = request.map(|ComposedRequest { request, arguments }| (request, arguments)).unzip();
    let arguments = arguments.flatten();
    let wanted = found.connection.wanted();
    let roots = match wanted.trust_lists.file_access {
        FileAccess::Unchecked => Vec::new(),
        FileAccess::RootsOnly => host.context.roots.uris(&found.subject.server, asker.caller.client()),
    };
    let input = PolicyInput {
        caller: asker.caller,
        surface: asker.surface,
        subject: &found.subject,
        trust: wanted.trust,
        lists: &wanted.trust_lists,
        annotations: found.annotations,
        arguments: arguments.as_ref(),
        reach: found.reach(asker.seen, &roots),
    };
    let policy = host.policy().with_mode(asker.mode).with_assistant(asker.assistant.cloned());
    let decision = policy.decide(&input, request, &wanted.filter);
    if let Decision::Deny(refusal) = decision {
        let details = json!({ "decision": "deny", "code": refusal.code(), "reason": refusal.to_string() });
        recording.into_iter().for_each(|recording| recording.note(kind::DECISION, details.clone()));
        return Err(refusal.into());
    }
    if let Some(why) = &found.sign_in_required {
        return Err(not_connected(&found.connection, why.clone()));
    }
    let drift = drift::find(host, found, asker.caller, asker.surface).await;
    let shown_drift = drift.as_ref().filter(|drift| drift.effect == DriftEffect::Ask).map(drift::Drift::reason);
    let (decision, accepted) = match drift {
        None => (decision, None),
        Some(drift) => match drift.effect {
            DriftEffect::Ask => (decision.asking_about_drift(&input, &drift.reason()), Some(drift)),
            DriftEffect::Hide => {
                // What lists were made of is older.
                host.catalog_publisher.compare_again();
                let subject = found.subject.clone();
                let name = subject.raw_name.clone();
                let refusal = Refusal::Hidden { subject, name, why: drift.reason() };
                let details = json!({ "decision": "deny", "code": refusal.code(), "reason": refusal.to_string() });
                recording.into_iter().for_each(|recording| recording.note(kind::DECISION, details.clone()));
                return Err(refusal.into());
            }
            DriftEffect::Allow => {
                drift.accept(host, found, asker.caller).await;
                (decision, None)
            }
        },
    };
    let request = match decision {
        Decision::Allow(grant) => {
            let subject = &found.subject;
            if host.context.ports.approvals.may_refuse(&subject.server, &subject.raw_name) {
                Box::pin(check_refusals(host, found, asker, &grant, recording)).await?;
            }
            // A person has just approved the changed definition.
            let approved = previous.filter(|previous| *previous.rule() == RuleId::Drift);
            return Ok(Obtained::Now(match approved {
                Some(approved) => approved.with_request(grant.into_request()),
                None => grant,
            }));
        }
        Decision::Ask(request) => request,
        Decision::Deny(refusal) => return Err(refusal.into()),
    };
    let method = request.method().map(str::to_owned);
    let definition = Definition {
        entry: wanted.entry_digest(&host.context.dialer.environment),
        fingerprint: found.fingerprint,
        annotations: found.annotations,
        trust: wanted.trust,
        new_hosts: request.reached().new_hosts().map(|found| found.host.clone()).collect(),
        drift: shown_drift,
    };
    let key = definition.key(asker.caller, &found.subject, method.as_deref());
    let request = request.defined_as(definition);
    let findings = findings(host, found, accepted.as_ref());
    let request = if findings.is_empty() { request } else { request.because_for_operator(&findings.join("; ")) };
    let title = found.tool.as_ref().and_then(|tool| tool.item.title.as_deref());
    // Boxed: few calls are asked about, and every call would carry the future otherwise.
    let obtained = Box::pin(Approval { host, key, asker, recording, title }.obtain(request, previous)).await?;
    if let Some(drift) = accepted {
        Box::pin(drift.accept(host, found, asker.caller)).await;
    }
    Ok(obtained)
}

/// What is unusual in the definition that a person is asked about, and in instructions that an approval accepts with it.
fn findings(host: &Inner, found: &Found, drift: Option<&drift::Drift>) -> Vec<String> {
    let server = &found.subject.server;
    let catalog = host.catalog_publisher.catalog();
    let scanner = Scanner::new(&catalog);
    let of_definition = found.raw_definition().map(|raw| scanner.definition(raw, server)).unwrap_or_default();
    let instructions = drift.and_then(drift::Drift::instructions).unwrap_or_default();
    let of_instructions = scanner.text(&instructions, server);
    let of_server = (!of_instructions.is_empty())
        .then(|| format!("the instructions of its server contain {}", scan::contents(&of_instructions)));
    of_definition.iter().map(ToString::to_string).chain(of_server).collect()
}

/// Refuses what policy allows if a user has refused it for good. Needed only where a refusal may be saved.
async fn check_refusals(
    host: &Inner,
    found: &Found,
    asker: Asker<'_>,
    grant: &Grant,
    recording: Option<&Recording>,
) -> Result<(), CallOutcome> {
    let approvals = &host.context.ports.approvals;
    let subject = &found.subject;
    let entry = found.connection.wanted().entry_digest(&host.context.dialer.environment);
    let method = grant.request().map(Request::method);
    let key = ApprovalKey::new(asker.caller, subject, entry, method, found.fingerprint);
    let saved = approvals.of_item(&subject.server, &subject.raw_name).await;
    let saved = saved.map_err(|error| Refusal::NotRecorded(format!("saved answers cannot be read: {error}")))?;
    match saved::refusal(&saved, &key) {
        Some(refusal) => Err(refused_by(refusal, recording)),
        None => Ok(()),
    }
}

fn refused_by(refusal: &SavedApproval, recording: Option<&Recording>) -> CallOutcome {
    let details = json!({ "decision": "deny", "code": "denied", "saved": refusal.id });
    recording.into_iter().for_each(|recording| recording.note(kind::DECISION, details.clone()));
    Refusal::Denied { rule: RuleId::Saved(refusal.id.clone()), reason: None }.into()
}

impl ComposedRequest {
    pub(super) fn new(request: Request) -> Self {
        let arguments = arguments_of(&request);
        Self { request, arguments }
    }

    pub(super) fn method(&self) -> &str {
        self.request.method()
    }

    /// What policy and a user see of the params.
    pub(super) fn arguments(&self) -> Option<&Raw> {
        self.arguments.as_ref()
    }
}

/// What policy and a user see of the params: the arguments of a tool or prompt, all params of another method. `_meta` and
/// what names the item are left out.
fn arguments_of(request: &Request) -> Option<Raw> {
    let mut edits = vec![Edit::Remove("_meta")];
    match request.method() {
        "tools/call" | "prompts/get" => return request.param("arguments"),
        "resources/read" | "resources/subscribe" => {
            edits.push(Edit::Remove("uri"));
            edits.extend(Request::CONTINUATION.map(Edit::Remove));
        }
        _ => {}
    }
    let params = splice::edited(request.params()?, &edits);
    (params.kind() != JsonKind::Object || !params.members().is_empty()).then_some(params)
}

/// One call that requires approval.
struct Approval<'a> {
    host: &'a Inner,
    key: ApprovalKey,
    asker: Asker<'a>,
    recording: Option<&'a Recording>,
    /// Title of a tool.
    title: Option<&'a str>,
}

/// What answers that were given before say about a call.
enum Given {
    Refused(CallOutcome),
    Allowed(String),
    Ask {
        /// A saved approval that covers the call where a person is present.
        attended_only: Option<String>,
        /// A saved approval of another program or definition.
        outdated: Option<String>,
    },
}

impl Approval<'_> {
    /// Looks for an answer that was given before, else asks.
    async fn obtain(&self, mut request: ApprovalRequest, previous: Option<Grant>) -> Result<Obtained, CallOutcome> {
        let given = self.given(&request).await;
        if let Given::Refused(outcome) = given {
            return Err(outcome);
        }
        if let Some(previous) = previous {
            match request.changes_since(&previous) {
                None => return Ok(Obtained::Now(previous.with_request(request.into_request()))),
                Some(why) => request = request.because(why),
            }
        }
        match given {
            Given::Allowed(saved) => Ok(Obtained::Now(request.into_saved_grant(saved))),
            Given::Ask { attended_only, outdated } => {
                if let Some(id) = attended_only {
                    request = request.saved_for_attended_use(id);
                }
                // Said until a person has answered, and not again.
                let outdated = outdated.filter(|id| !self.host.outdated_notices.contains(id));
                if outdated.is_some() {
                    let why = "a saved approval no longer applies: the server or the tool has changed since";
                    request = request.because(why);
                }
                let asked = match self.asker.approval {
                    ApprovalHandling::Ask => self.ask(request).await,
                    ApprovalHandling::Refuse => Err(request.unavailable().into()),
                };
                let is_read = !matches!(asked, Err(CallOutcome::Refused(Refusal::ApproverUnavailable { .. })));
                outdated.filter(|_| is_read).into_iter().for_each(|id| self.host.outdated_notices.add(id));
                asked
            }
            Given::Refused(outcome) => Err(outcome),
        }
    }

    /// What saved answers and those of the conversation say.
    async fn given(&self, request: &ApprovalRequest) -> Given {
        let call = request.asked_call();
        let saved = self.host.context.ports.approvals.of_item(&self.key.server, &self.key.tool).await;
        let saved = match saved {
            Ok(saved) => saved,
            Err(error) => {
                tracing::error!(%error, server = %self.key.server, "saved approvals cannot be read; the call is asked about");
                // A refusal may be among them, which an answer of the conversation would not lift.
                return Given::Ask { attended_only: None, outdated: None };
            }
        };
        let finding = saved::deciding(&saved, &self.key, call, self.asker.attendance());
        if let SavedFinding::Refused(refusal) = finding {
            return Given::Refused(refused_by(refusal, self.recording));
        }
        if request.lift() == Lift::Never {
            return Given::Ask { attended_only: None, outdated: None };
        }
        let is_covered = |conversation| self.host.conversation_answers.covers(conversation, &self.key, call);
        match finding {
            SavedFinding::Allowed(approval) => Given::Allowed(approval.id.clone()),
            _ if self.asker.held_in().is_some_and(is_covered) => Given::Allowed("of this conversation".to_owned()),
            SavedFinding::AttendedOnly(approval) => {
                Given::Ask { attended_only: Some(approval.id.clone()), outdated: None }
            }
            SavedFinding::Outdated(approval) => Given::Ask { attended_only: None, outdated: Some(approval.id.clone()) },
            SavedFinding::Refused(_) | SavedFinding::Nothing => Given::Ask { attended_only: None, outdated: None },
        }
    }

    /// Asks, unless an answer to another call covers this one meanwhile.
    async fn ask(&self, request: ApprovalRequest) -> Result<Obtained, CallOutcome> {
        let Self { host, recording, .. } = self;
        let waiting = recording.map(Recording::mark_approval_requested);
        let earlier = self.asker.held_in().and_then(|of| host.conversation_answers.earlier(of, &self.key));
        let (arguments, believed) = (request.arguments(), request.believed_annotations());
        let proposal = Proposal::new(arguments, request.reached(), believed, earlier.as_ref());
        let answer = tokio::select! {
            biased;
            given = self.given_meanwhile(&request) => {
                return match given {
                    Given::Refused(outcome) => Err(outcome),
                    Given::Allowed(saved) => Ok(Obtained::AfterWaiting(request.into_saved_grant(saved))),
                    Given::Ask { .. } => Err(request.unavailable().into()),
                };
            }
            answer = self.put_into_inbox(&request, proposal.clone()) => answer,
        };
        drop(waiting);
        let (rule, arguments) = (request.rule().to_string(), request.arguments().cloned());
        let applied = approval::apply_answer(request, answer);
        let scope = applied.scope.unwrap_or_else(|| proposal.scope(applied.term).clone());
        let refusal = applied.result.as_ref().err().map(ToString::to_string);
        let is_approved = applied.result.is_ok();
        self.host.context.tallies.count_approval(is_approved);
        let effect = if is_approved { SavedEffect::Allow } else { SavedEffect::Deny };
        let saved = self.remember(applied.term, effect, scope, arguments.as_ref()).await;
        // Without what it covers: arguments are not part of the audit log.
        let details = json!({
            "answer": if is_approved { "approved" } else { "refused" },
            "term": applied.term.as_str(),
            "saved": saved,
            "rule": rule,
            "approvedBy": applied.by.as_deref(),
            "refusal": refusal,
        });
        recording.iter().for_each(|recording| recording.note(kind::APPROVAL, details.clone()));
        Ok(Obtained::AfterWaiting(applied.result?))
    }

    /// Keeps an answer as long as it lasts. Returns the id of a saved one.
    async fn remember(
        &self,
        term: ApprovalTerm,
        effect: SavedEffect,
        scope: Scope,
        arguments: Option<&Raw>,
    ) -> Option<String> {
        if let (Some(conversation), SavedEffect::Allow) = (self.asker.held_in(), effect) {
            let covers = (term == ApprovalTerm::Conversation).then(|| scope.clone());
            self.host.conversation_answers.add(conversation, &self.key, Approved { arguments, covers });
        }
        let mut saved = None;
        if term == ApprovalTerm::Always {
            let scope = if effect == SavedEffect::Allow { scope } else { Scope::Any };
            let approval = SavedApproval::new(self.key.clone(), scope, effect);
            let id = approval.id.clone();
            match self.host.context.ports.approvals.save(approval).await {
                Ok(()) => saved = Some(id),
                Err(error) => {
                    tracing::error!(%error, tool = self.key.tool, "the answer could not be saved; it holds for this call");
                }
            }
        }
        if term != ApprovalTerm::Once {
            self.host.answers_given.send_modify(|number| *number = number.wrapping_add(1));
        }
        saved
    }

    /// Waits until an answer to another call covers this one.
    async fn given_meanwhile(&self, request: &ApprovalRequest) -> Given {
        let mut answers = self.host.answers_given.subscribe();
        while answers.changed().await.is_ok() {
            match self.given(request).await {
                Given::Ask { .. } => {}
                given => return given,
            }
        }
        std::future::pending().await
    }

    /// Puts an approval request into the inbox, and asks the client of the call where it can answer.
    async fn put_into_inbox(&self, request: &ApprovalRequest, proposal: Proposal) -> InboxAnswer {
        let Self { host, asker, recording, .. } = self;
        let title = self.title.map(str::to_owned);
        let origin = ItemOrigin {
            call: recording.and_then(Recording::id),
            caller: asker.caller.clone(),
            surface: asker.surface,
            conversation: asker.conversation.cloned(),
            has_session: asker.session.is_some(),
        };
        let rows = approval_rows::compute(request.arguments()).await;
        let approver = host.policy().approver_of(asker.caller);
        let client = asker.open_call.and_then(|call| call.ask_client(request, &rows, approver));
        let item = InboxItem::approval(request, rows, title, proposal, origin);
        let answerer = Arc::clone(&host.context.ports.answerer);
        let answers = |item: Arc<InboxItem>| -> BoxFuture<'_, InboxAnswer> {
            Box::pin(async move {
                match client {
                    Some(client) => client_approval::first_answer(client, answerer.answer(&item)).await,
                    None => answerer.answer(&item).await,
                }
            })
        };
        host.context.inbox.wait(item, answers).await
    }
}

impl Asker<'_> {
    /// `run` is unattended, whatever else is said.
    fn attendance(&self) -> Attendance {
        if self.surface == Surface::Run { Attendance::Unattended } else { self.attendance }
    }
}
