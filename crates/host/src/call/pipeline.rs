//! The stages of a call after lookup: decide, admit, send.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_config::PolicyMode;
use toolway_wire::{
    exchange::Request,
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};
use tracing::Instrument;

use super::{
    CallError, CallKind, CallOutcome, CallRequest, Caller, Target,
    client_approval::{self, OpenCall},
    find::{self, Found},
    tasks::followed,
};
use crate::{
    catalog::Fingerprint,
    connection::{
        Connection, InFlightCall, NotConnected,
        pool::{Interactivity, NoLease, RequestOrigin},
        withheld,
    },
    host::Inner,
    inbox::{InboxAnswer, InboxItem, ItemOrigin},
    policy::{
        ApprovalKey, ApprovalRequest, ApprovalScope, ArgumentPattern, Decision, Grant, Permit, PolicyInput, Refusal,
        RuleId, SavedEffect, Subject, Surface, approval, limit::ClientSlot,
    },
    record::{Recording, kind},
};

/// Decision of the first attempt of a call that is sent again.
pub(super) struct PreviousAttempt {
    pub(super) grant: Grant,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// A call before it is sent. The results are boxed because they are large.
pub(super) type Preparing = BoxFuture<'static, (Box<Recording>, Result<Box<InFlightCall>, CallOutcome>)>;

/// Runs all stages up to sending.
pub(super) fn prepare(
    host: Arc<Inner>,
    request: Arc<OpenCall>,
    previous: Option<PreviousAttempt>,
    mut recording: Box<Recording>,
) -> Preparing {
    let span = tracing::debug_span!("call", caller = %request.caller, name = request.target.name());
    let work = async move {
        let sent = run_stages(&host, &request, previous, &mut recording).await;
        (recording, sent)
    };
    // A disabled span need not be entered on each poll.
    if span.is_disabled() { Box::pin(work) } else { Box::pin(work.instrument(span)) }
}

async fn run_stages(
    host: &Inner,
    request: &Arc<OpenCall>,
    previous: Option<PreviousAttempt>,
    recording: &mut Recording,
) -> Result<Box<InFlightCall>, CallOutcome> {
    let client_slot = host.slots.take_client_slot(&request.caller)?;
    let found =
        find::find(host, (&request.visible, &|| request.caller_context()), &request.target, request.content()).await?;
    recording.set_subject(&found.subject, found.public.clone());
    if found.fingerprint.zip(request.chosen).is_some_and(|(now, chosen)| now != chosen) {
        return Err(Refusal::Changed(request.target.name().to_owned()).into());
    }
    let mut wire_request = compose(&found.subject, request)?;
    if followed::is_awaited(request) {
        wire_request.handover = followed::handover(host, &found.subject, request);
    }
    let Found { connection, fingerprint, .. } = &found;
    let withheld = connection.wanted().withheld;
    wire_request.capabilities = wire_request.capabilities.map(|declared| withheld::remaining(&declared, withheld));
    let asker = Asker { open_call: Some(request), surface: request.surface, ..Asker::of(&request.caller) };
    let (conversation, session) = (request.conversation.as_ref(), request.session.as_ref());
    let asker = Asker { conversation, session, mode: request.mode, ..asker };
    let grant = obtain_grant(host, &found, asker, Some(wire_request), previous, Some(recording)).await?;
    let not_connected = |why| not_connected(connection, why);
    // No slot is held while the server is being connected.
    let ready = connection.ready().await.map_err(not_connected)?;
    let task = grant.request().filter(|request| request.method().starts_with("tasks/"));
    let task = task.and_then(|request| request.param("taskId"));
    let task = task.as_ref().and_then(Raw::as_str);
    let origin = RequestOrigin {
        caller: &request.caller,
        capabilities: grant.request().and_then(|request| request.capabilities.as_ref()),
        session: request.session.as_ref(),
        task: task.as_deref(),
    };
    let is_interactive = grant.request().is_some_and(Request::is_interactive);
    let interactivity = if is_interactive { Interactivity::Interactive } else { Interactivity::NonInteractive };
    let lease = connection.lease(&ready, origin, interactivity, host.slots.patience()).await;
    let lease = lease.map_err(|no_lease| no_lease_outcome(connection, no_lease))?;
    let permit = admit(host, connection, grant, client_slot).await?;
    recording.mark_running(&permit, ready.redactor.clone()).await?;
    let terms = request.terms.unwrap_or_else(|| connection.wanted().terms());
    let sent = connection.send_over(lease, permit, terms).await.map_err(not_connected)?;
    let mut sent = Box::new(sent);
    drop(ready);
    sent.fingerprint = *fingerprint;
    recording.mark_sent(connection.name(), sent.permit(), sent.redactor.clone());
    Ok(sent)
}

/// Outcome of a call that got no lease of a connection.
pub(super) fn no_lease_outcome(connection: &Connection, no_lease: NoLease) -> CallOutcome {
    match no_lease {
        NoLease::NotConnected(why) => not_connected(connection, why),
        NoLease::Refused(refusal) => refusal.into(),
    }
}

pub(super) fn not_connected(connection: &Connection, why: NotConnected) -> CallOutcome {
    CallOutcome::Failed(CallError::NotConnected { server: connection.name().clone(), why })
}

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
    /// The call, if its client can be asked for an approval.
    pub(super) open_call: Option<&'a Arc<OpenCall>>,
}

impl<'a> Asker<'a> {
    /// A caller on its usual surface.
    pub(super) fn of(caller: &'a Caller) -> Self {
        Self { caller, surface: Surface::of(caller), conversation: None, session: None, mode: None, open_call: None }
    }
}

/// Decides, and requests an approval if one is required. A retry of the same call needs no second approval. A call that
/// cannot be sent without a sign-in fails before approval is requested: its definition is not known yet.
pub(super) async fn obtain_grant(
    host: &Inner,
    found: &Found,
    asker: Asker<'_>,
    request: Option<Request>,
    previous: Option<PreviousAttempt>,
    recording: Option<&Recording>,
) -> Result<Grant, CallOutcome> {
    let same = |previous: &PreviousAttempt| {
        *previous.grant.subject() == found.subject && previous.fingerprint == found.fingerprint
    };
    // Policy looks at the arguments that are sent, not at those that were given.
    let arguments = request.as_ref().and_then(arguments_of);
    let input = PolicyInput {
        caller: asker.caller,
        surface: asker.surface,
        subject: &found.subject,
        trust: found.connection.wanted().trust,
        annotations: found.annotations,
        arguments: arguments.as_ref(),
    };
    let policy = host.policy().with_mode(asker.mode);
    let decision = policy.decide(&input, request, &found.connection.wanted().filter);
    match (decision, &found.sign_in_required, previous.filter(same)) {
        (Decision::Deny(refusal), ..) => {
            let details = json!({ "decision": "deny", "code": refusal.code(), "reason": refusal.to_string() });
            recording.into_iter().for_each(|recording| recording.note(kind::DECISION, details.clone()));
            Err(refusal.into())
        }
        (_, Some(why), _) => Err(not_connected(&found.connection, why.clone())),
        (Decision::Allow(grant), ..) => Ok(grant),
        (Decision::Ask(request), None, Some(previous)) => Ok(previous.grant.with_request(request.into_request())),
        (Decision::Ask(request), None, None) => {
            let pattern = ArgumentPattern::of(request.arguments());
            let key = ApprovalKey::new(asker.caller, &found.subject, request.method(), pattern, found.fingerprint);
            approve(host, request, &key, asker, recording).await
        }
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

/// Looks for a saved approval, else asks.
async fn approve(
    host: &Inner,
    request: ApprovalRequest,
    key: &ApprovalKey,
    asker: Asker<'_>,
    recording: Option<&Recording>,
) -> Result<Grant, CallOutcome> {
    let ports = &host.context.ports;
    if let Some(saved) = ports.approvals.find(key).await {
        return match saved.effect {
            SavedEffect::Allow => Ok(request.into_saved_grant(saved.id)),
            SavedEffect::Deny => {
                let details = json!({ "decision": "deny", "code": "denied", "saved": saved.id });
                recording.into_iter().for_each(|recording| recording.note(kind::DECISION, details.clone()));
                Err(Refusal::Denied { rule: RuleId::Saved(saved.id), reason: None }.into())
            }
        };
    }
    let conversation = asker.conversation.or(asker.session);
    let conversation = conversation.map(|conversation| (Arc::clone(conversation), key.with_any_arguments()));
    if conversation.as_ref().is_some_and(|entry| host.conversation_approvals.lock().contains(entry)) {
        return Ok(request.into_saved_grant("of this conversation".to_owned()));
    }
    recording.into_iter().for_each(Recording::mark_approval_requested);
    let rule = request.rule().to_string();
    let pattern = key.arguments.clone().unwrap_or_default();
    let answer = ask(host, &request, pattern, asker, recording).await;
    let (scope, answer) = approval::apply_answer(request, answer);
    let (approved_by, refusal) = match &answer {
        Ok(grant) => (grant.approved_by().map(ToString::to_string), None),
        Err(refusal) => (None, Some(refusal.to_string())),
    };
    let answered = if answer.is_ok() { "approved" } else { "refused" };
    let details = json!({
        "answer": answered, "scope": scope.as_str(), "rule": rule, "approvedBy": approved_by, "refusal": refusal,
    });
    recording.into_iter().for_each(|recording| recording.note(kind::APPROVAL, details.clone()));
    match (scope, conversation) {
        (ApprovalScope::Once, _) | (ApprovalScope::Conversation, None) => {}
        (ApprovalScope::Conversation, Some(entry)) if answer.is_ok() => {
            host.conversation_approvals.lock().insert(entry);
        }
        (ApprovalScope::Conversation, Some(_)) => {}
        (ApprovalScope::Always, _) => {
            let (key, effect) = match &answer {
                Ok(_) => (key.clone(), SavedEffect::Allow),
                Err(_) => (key.with_any_arguments(), SavedEffect::Deny),
            };
            if let Err(error) = ports.approvals.save(&key, effect).await {
                tracing::warn!(%error, tool = key.tool, "the approval could not be saved; it holds for this call");
            }
        }
    }
    Ok(answer?)
}

/// Puts an approval request into the inbox, and asks the client of the call where it can answer.
async fn ask(
    host: &Inner,
    request: &ApprovalRequest,
    pattern: ArgumentPattern,
    asker: Asker<'_>,
    recording: Option<&Recording>,
) -> InboxAnswer {
    let subject = request.subject();
    let catalog = host.catalog_publisher.catalog();
    let title = catalog.tool_at(&subject.server, &subject.raw_name).and_then(|tool| tool.item.title.clone());
    let origin = ItemOrigin {
        call: recording.and_then(Recording::id),
        caller: asker.caller.clone(),
        surface: asker.surface,
        conversation: asker.conversation.cloned(),
        has_session: asker.session.is_some(),
    };
    let item = InboxItem::approval(request, title, pattern, origin);
    let client = asker.open_call.and_then(|call| call.ask_client(request));
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

/// Waits for a call slot.
pub(super) async fn admit(
    host: &Inner,
    connection: &Connection,
    grant: Grant,
    client_slot: ClientSlot,
) -> Result<Permit, Refusal> {
    host.slots.admit(grant, connection.slots(), client_slot).await
}

/// Builds the request for the server.
fn compose(subject: &Subject, request: &CallRequest) -> Result<Request, Refusal> {
    if let Some(whole) = &request.whole {
        return Ok(readdress(whole.clone(), subject, &request.target));
    }
    let (method, params): (Cow<'static, str>, _) = match &request.target {
        Target::Method { method, .. } => (method.clone().into(), request.arguments.clone()),
        Target::Resource(_) | Target::ResourceOf(_) => {
            ("resources/read".into(), Some(splice::object([("uri", &Raw::of(&subject.raw_name))])))
        }
        Target::Tool(_) | Target::ToolOf(_) => ("tools/call".into(), Some(named_params(subject, request))),
        Target::Prompt(_) | Target::PromptOf(_) => ("prompts/get".into(), Some(named_params(subject, request))),
    };
    let malformed = |problem| Refusal::Malformed(format!("invalid request: {problem}"));
    let mut composed = Request::new(method, params).map_err(malformed)?;
    composed.progress = request.progress;
    composed.log_level = request.log_level;
    composed.capabilities = request.capabilities.clone();
    Ok(composed)
}

/// Replaces the public name in a relayed request by the raw name.
fn readdress(whole: Request, subject: &Subject, target: &Target) -> Request {
    match target.kind() {
        CallKind::Tool | CallKind::Prompt => whole.with_param("name", Raw::of(&subject.raw_name)),
        CallKind::Resource => whole.with_param("uri", Raw::of(&subject.raw_name)),
        CallKind::Method => whole,
    }
}

/// Params with `name` and the unchanged `arguments`.
fn named_params(subject: &Subject, request: &CallRequest) -> Raw {
    let name = Raw::of(&subject.raw_name);
    let arguments = request.arguments.iter().map(|arguments| ("arguments", arguments));
    splice::object([("name", &name)].into_iter().chain(arguments))
}
