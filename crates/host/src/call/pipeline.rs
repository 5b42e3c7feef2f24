//! The stages of a call: find, validate, decide (`approving.rs`), admit, send.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use toolway_wire::{
    exchange::Request,
    json::Raw,
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
};
use tracing::Instrument;

use super::{
    CallError, CallKind, CallOutcome, CallRequest, Target,
    approving::{self, Asked, Asker, ComposedRequest, Moment, Obtained},
    client_approval::OpenCall,
    deadline::CallClock,
    drift,
    find::{self, Found},
    keyed,
    tasks::followed,
};
use crate::{
    catalog::ToolEntry,
    connection::{
        Connection, InFlightCall, NotConnected,
        pool::{Interactivity, NoLease, RequestOrigin, RootsOffer},
        withheld,
    },
    host::Inner,
    inbox::waiting,
    policy::{
        Grant, Permit, Refusal, Subject,
        limit::{
            ClientSlot,
            book::{Attempt, ConcerningLimits, LimitedCall, TakenLimits},
            taken::HeldPlaces,
        },
    },
    record::Recording,
    validation::ToolCheck,
};

/// A call before it is sent. The results are boxed because they are large.
pub(super) type Preparing = BoxFuture<'static, (Box<Recording>, Result<Box<InFlightCall>, CallOutcome>)>;

/// Runs all stages up to sending. `previous` is the grant of the first attempt of a call that is sent again.
pub(super) fn prepare(
    host: Arc<Inner>,
    request: Arc<OpenCall>,
    previous: Option<Grant>,
    mut recording: Box<Recording>,
) -> Preparing {
    let span = tracing::debug_span!("call", caller = %request.caller, name = request.target.name());
    // Boxed where it is made: it is large, and each move would copy it.
    let work: Preparing = Box::pin(async move {
        let clock = CallClock::of(&recording);
        let sent = clock.bound(&request, run_stages(&host, &request, previous, &mut recording)).await;
        (recording, sent)
    });
    // A disabled span need not be entered on each poll.
    if span.is_disabled() { work } else { Box::pin(work.instrument(span)) }
}

async fn run_stages(
    host: &Arc<Inner>,
    request: &Arc<OpenCall>,
    mut previous: Option<Grant>,
    recording: &mut Recording,
) -> Result<Box<InFlightCall>, CallOutcome> {
    let mut is_repeated = false;
    for _ in 0..approving::MAX_DECISIONS {
        let client_slot = host.slots.take_client_slot(&request.caller)?;
        let decided = decide(host, request, previous.take(), recording).await?;
        let Decided { found, check, moment, .. } = decided;
        let grant = match decided.grant {
            Obtained::Now(grant) => grant,
            // Decided again, with the definition and the configuration of now.
            Obtained::AfterWaiting(grant) => {
                previous = Some(grant);
                continue;
            }
        };
        if let Some(Ok(key)) = request.idempotency_key.as_ref().filter(|_| !recording.is_key_claimed()) {
            Box::pin(keyed::claim(host, key, &found, grant.request(), recording)).await?;
        }
        let limits = host.limits.concerning(&request.caller, &found.subject).filter(|_| is_limited(&grant));
        let places = match limits {
            Some(limits) => Some(Box::pin(take(limits, request, recording)).await?),
            None => None,
        };
        let connection = &found.connection;
        if let Some(result) =
            host.resource_cache.find(request, &grant, connection).filter(|_| moment.is_now(host, &found))
        {
            recording.mark_from_cache(&grant, connection.live().redactor.clone());
            return Err(CallOutcome::Answered(result));
        }
        let not_connected = |why| not_connected(connection, why);
        // No slot is held while the server is being connected.
        let ready = recording.while_pending(connection.ready()).await.map_err(not_connected)?;
        let task = grant.request().filter(|request| request.method().starts_with("tasks/"));
        let task = task.and_then(|request| request.param("taskId"));
        let task = task.as_ref().and_then(Raw::as_str);
        let declared = grant.request().and_then(|request| request.capabilities.as_ref());
        let own = declared.map(|declared| own_capabilities(declared, request.capabilities.as_ref()));
        let origin = RequestOrigin {
            caller: &request.caller,
            capabilities: own.as_ref(),
            session: request.session.as_ref(),
            task: task.as_deref(),
            tool: (found.subject.kind == CallKind::Tool).then_some(found.subject.raw_name.as_str()),
            configured_roots: RootsOffer::Nothing,
            sampling: None,
            waits_in_inbox: false,
        };
        let is_interactive = grant.request().is_some_and(Request::is_interactive);
        let interactivity = if is_interactive { Interactivity::Interactive } else { Interactivity::NonInteractive };
        let lease = connection.lease(&ready, origin, interactivity, host.slots.patience());
        let lease = recording.while_pending(lease).await;
        let lease = match lease {
            Ok(lease) => lease,
            // The server is being connected again, with another configuration. Nothing was sent.
            Err(NoLease::NotConnected(_)) if !is_repeated && connection.was_replaced(&ready).await => {
                is_repeated = true;
                previous = Some(grant);
                continue;
            }
            Err(no_lease) => return Err(no_lease_outcome(connection, no_lease)),
        };
        if found.subject.kind == CallKind::Tool
            && let Some(reading) = lease.peer(&ready).first_roots()
        {
            recording.while_pending(reading).await;
        }
        let permit = recording.while_pending(admit(host, connection, grant, client_slot)).await?.holding(places);
        if !moment.is_now(host, &found) || drift::is_outdated(host, &found) {
            previous = Some(permit.into_grant());
            continue;
        }
        recording.mark_running(&permit, ready.redactor.clone()).await?;
        let writes_before = host.resource_cache.writes_of(connection.name());
        let terms = request.terms.unwrap_or_else(|| connection.wanted().terms());
        let sent = connection.send_over(ready, lease, permit, terms).await.map_err(not_connected)?;
        let mut sent = Box::new(sent);
        sent.check = check;
        sent.writes_before = writes_before;
        sent.may_write = found.subject.kind == CallKind::Tool && !found.annotations.read_only;
        if sent.may_write {
            host.resource_cache.forget_server(connection.name());
        }
        sent.poll_interval = request.poll_interval;
        let mark = sent.exchange.write_mark();
        recording.mark_sent(connection.name(), sent.permit(), sent.redactor.clone(), mark);
        return Ok(sent);
    }
    Err(Refusal::KeepsChanging(request.target.name().to_owned()).into())
}

/// A call that was found and decided on.
struct Decided {
    found: Found,
    grant: Obtained,
    check: Option<ToolCheck>,
    moment: Moment,
}

/// Finds the item, composes the request, validates its arguments, and decides.
async fn decide(
    host: &Inner,
    request: &Arc<OpenCall>,
    previous: Option<Grant>,
    recording: &mut Recording,
) -> Result<Decided, CallOutcome> {
    let moment = Moment::of(host);
    let caller_context = || request.caller_context();
    let found = find::find(host, (&request.visible, &caller_context), &request.target, request.content());
    let found = recording.while_pending(found).await?;
    recording.set_subject(&found.subject, found.public_name());
    recording.set_idempotent(found.annotations.idempotent);
    if found.fingerprint.zip(request.chosen).is_some_and(|(now, chosen)| now != chosen) {
        return Err(Refusal::Changed(request.target.name().to_owned()).into());
    }
    let mut wire_request = compose(&found.subject, request)?;
    if let Some(handover) = followed::handover(request, &found) {
        wire_request.handover = handover;
    }
    let withheld = found.connection.wanted().withheld;
    wire_request.capabilities = wire_request.capabilities.map(|declared| {
        let waits = host.context.waits_in_inbox(&request.caller) && !waiting::answers_forms(&declared);
        let declared = if waits { waiting::with_forms(&declared) } else { declared };
        let remaining = withheld::remaining(&declared, withheld);
        let declared = host.context.roots.declared(remaining, found.connection.name(), &request.caller);
        host.context.with_sampling(declared, &found.connection.wanted(), &request.caller)
    });
    let composed = ComposedRequest::new(wire_request);
    if matches!(request.target.kind(), CallKind::Tool | CallKind::Prompt) {
        recording.set_arguments(composed.arguments());
    }
    let check = validate(host, &found, &composed, request).await?;
    if let Some(Err(invalid)) = &request.idempotency_key {
        return Err(Refusal::Malformed(invalid.to_string()).into());
    }
    let asker = Asker { open_call: Some(request), surface: request.surface, ..Asker::of(&request.caller) };
    let asker = Asker {
        conversation: request.conversation.as_ref(),
        session: request.session.as_ref(),
        mode: request.mode,
        assistant: request.assistant.as_ref(),
        seen: request.seen.as_deref(),
        attendance: request.attendance,
        approval: request.approval,
        ..asker
    };
    let asked = Asked { request: Some(composed), previous, recording: Some(recording) };
    let grant = approving::obtain_grant(host, &found, asker, asked).await?;
    Ok(Decided { found, grant, check, moment })
}

/// Checks the arguments of a tool against its schema. Returns what is left to be checked when the call has ended.
async fn validate(
    host: &Inner,
    found: &Found,
    composed: &ComposedRequest,
    request: &CallRequest,
) -> Result<Option<ToolCheck>, Refusal> {
    let Subject { raw_name, kind, .. } = &found.subject;
    // A raw request is sent as it was typed.
    let is_raw = matches!(request.target, Target::Method { .. });
    if *kind != CallKind::Tool || composed.method() != "tools/call" || is_raw {
        return Ok(None);
    }
    // A definition that only this caller sees is not in the shared catalog.
    let is_same = |entry: &&ToolEntry| found.fingerprint.is_none_or(|known| known == entry.fingerprint);
    let Some(entry) = found.tool.as_ref().filter(is_same) else { return Ok(None) };
    let invalid = |problems| Refusal::InvalidArguments { name: raw_name.clone(), problems };
    host.validation.before(entry, composed.arguments(), request.surface).await.map_err(invalid)
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

/// Methods of the protocol that limits do not count: lists, and what is part of another call, such as polling its task.
const UNCOUNTED: [&str; 11] = [
    "ping",
    "completion/complete",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "tasks/list",
    "tasks/get",
    "tasks/result",
    "tasks/update",
    "tasks/cancel",
];

/// Whether limits count a request. A method of the server's own always counts, whatever its name.
fn is_limited(grant: &Grant) -> bool {
    let method = grant.request().filter(|_| grant.subject().kind == CallKind::Method).map(Request::method);
    method.is_none_or(|method| !UNCOUNTED.contains(&method))
}

/// Takes one call of the limits that concern it. What it uses up stays with its recording: it is given back if the call is
/// not sent.
async fn take(limits: ConcerningLimits, request: &OpenCall, recording: &mut Recording) -> Result<HeldPlaces, Refusal> {
    request.set_bounds(limits.bounds());
    let call = LimitedCall {
        id: recording.id().map(|id| id.uuid()),
        argument_bytes: recording.record().map_or(0, |record| record.argument_bytes),
        attempt: if recording.is_counted() { Attempt::Repeated } else { Attempt::First },
    };
    let TakenLimits { places, used } = recording.while_pending(limits.take(call)).await?;
    if let Some(used) = used {
        recording.count(used);
    }
    Ok(places)
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

/// The capabilities of a request without roots and forms that the caller did not declare itself.
fn own_capabilities(declared: &ClientCapabilities, own: Option<&ClientCapabilities>) -> ClientCapabilities {
    let is_added = |key: &&str| declared.0.get(key).is_some() && own.is_none_or(|own| own.0.get(key).is_none());
    let added: Vec<Edit<'_>> = ["roots", "elicitation"].into_iter().filter(is_added).map(Edit::Remove).collect();
    if added.is_empty() { declared.clone() } else { ClientCapabilities(splice::edited(&declared.0, &added)) }
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
