//! The stretches of the way after something was found, one after the other: decide, admit, send.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use toolway_wire::{exchange::Request, json::Raw, message::splice};
use tracing::Instrument;

use super::{
    CallError, CallKind, CallOutcome, CallRequest, Caller, Target,
    find::{self, Found},
};
use crate::{
    catalog::Fingerprint,
    connection::{
        Connection, NotConnected, Sent,
        lines::{Asker, Need, NoSeat},
    },
    host::Inner,
    policy::{Decision, Grant, Permit, Refusal, Subject, approval, limit::Entry},
    record::Recording,
};

/// What was decided when the same call was tried before.
pub(super) struct Earlier {
    pub(super) grant: Grant,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// A call on its way to the server. What comes of it is large, and is handed on in boxes.
pub(super) type Preparing = BoxFuture<'static, (Box<Recording>, Result<Box<Sent>, CallOutcome>)>;

/// Goes the way as far as the server.
pub(super) fn prepare(
    host: Arc<Inner>,
    request: Arc<CallRequest>,
    earlier: Option<Earlier>,
    mut recording: Box<Recording>,
) -> Preparing {
    let span = tracing::debug_span!("call", caller = %request.caller, name = request.target.name());
    let work = async move {
        let sent = go(&host, &request, earlier, &mut recording).await;
        (recording, sent)
    };
    // Mostly nobody looks, and then it need not be carried about.
    if span.is_disabled() { Box::pin(work) } else { Box::pin(work.instrument(span)) }
}

async fn go(
    host: &Inner,
    request: &CallRequest,
    earlier: Option<Earlier>,
    recording: &mut Recording,
) -> Result<Box<Sent>, CallOutcome> {
    let entry = host.slots.enter(&request.caller)?;
    let found = find::find(host, &request.visible, &request.target, request.content()).await?;
    recording.found(&found.subject);
    if found.fingerprint.zip(request.chosen).is_some_and(|(now, chosen)| now != chosen) {
        return Err(Refusal::Changed(request.target.name().to_owned()).into());
    }
    let wire_request = compose(&found.subject, request)?;
    let Found { connection, fingerprint, .. } = &found;
    let grant = granted(host, &found, &request.caller, earlier, Some(recording)).await?;
    let not_connected = |why| not_connected(connection, why);
    // Whoever waits for a server that is still being connected keeps no slot from the others meanwhile.
    let ready = connection.ready().await.map_err(not_connected)?;
    let task = Some(&wire_request).filter(|request| request.method().starts_with("tasks/"));
    let task = task.and_then(|request| request.param("taskId"));
    let task = task.as_ref().and_then(Raw::as_str);
    let asker = Asker {
        caller: &request.caller,
        capabilities: wire_request.capabilities.as_ref(),
        session: request.session.as_ref(),
        task: task.as_deref(),
    };
    let need = if wire_request.is_interactive() { Need::Askable } else { Need::Carried };
    let seat = connection.seat(&ready, asker, need, host.slots.patience()).await;
    let seat = seat.map_err(|no_seat| unseated(connection, no_seat))?;
    let permit = admit(host, connection, grant, entry).await?;
    let terms = request.terms.unwrap_or_else(|| connection.wanted().terms());
    let sent = connection.send_over(seat, permit, wire_request, terms).await.map_err(not_connected)?;
    let mut sent = Box::new(sent);
    drop(ready);
    sent.fingerprint = *fingerprint;
    recording.sent(connection.name(), sent.permit(), sent.redactor.clone());
    Ok(sent)
}

/// Why a call found no seat on a connection.
pub(super) fn unseated(connection: &Connection, no_seat: NoSeat) -> CallOutcome {
    match no_seat {
        NoSeat::NotConnected(why) => not_connected(connection, why),
        NoSeat::Refused(refusal) => refusal.into(),
    }
}

pub(super) fn not_connected(connection: &Connection, why: NotConnected) -> CallOutcome {
    CallOutcome::Failed(CallError::NotConnected { server: connection.name().clone(), why })
}

/// Decides, and asks a person where that is decided; not again about the same thing in the same call, and not about what
/// cannot be sent before somebody has signed in: who would be asked about it has not been shown what it is.
pub(super) async fn granted(
    host: &Inner,
    found: &Found,
    caller: &Caller,
    earlier: Option<Earlier>,
    recording: Option<&Recording>,
) -> Result<Grant, CallOutcome> {
    let same =
        |earlier: &Earlier| *earlier.grant.subject() == found.subject && earlier.fingerprint == found.fingerprint;
    let decision = host.policy.decide(found.subject.clone(), caller, &found.connection.wanted().filter);
    match (decision, &found.locked, earlier.filter(same)) {
        (Decision::Deny(refusal), ..) => Err(refusal.into()),
        (_, Some(why), _) => Err(not_connected(&found.connection, why.clone())),
        (Decision::Allow(grant), ..) => Ok(grant),
        (Decision::Ask(_), None, Some(earlier)) => Ok(earlier.grant),
        (Decision::Ask(question), None, None) => {
            recording.into_iter().for_each(Recording::put_to_a_person);
            Ok(approval::put(question, &*host.room.ports.approver).await?)
        }
    }
}

/// Waits for a slot.
pub(super) async fn admit(
    host: &Inner,
    connection: &Connection,
    grant: Grant,
    entry: Entry,
) -> Result<Permit, Refusal> {
    host.slots.admit(grant, connection.slots(), entry).await
}

/// The request as it goes to the server.
fn compose(subject: &Subject, request: &CallRequest) -> Result<Request, Refusal> {
    if let Some(whole) = &request.whole {
        return Ok(readdressed(whole.clone(), subject, &request.target));
    }
    let (method, params): (Cow<'static, str>, _) = match &request.target {
        Target::Method { method, .. } => (method.clone().into(), request.arguments.clone()),
        Target::Resource(_) | Target::ResourceOf(_) => {
            ("resources/read".into(), Some(splice::object([("uri", &Raw::of(&subject.raw_name))])))
        }
        Target::Tool(_) | Target::ToolOf(_) => ("tools/call".into(), Some(named_params(subject, request))),
        Target::Prompt(_) | Target::PromptOf(_) => ("prompts/get".into(), Some(named_params(subject, request))),
    };
    let malformed = |problem| Refusal::Malformed(format!("the request cannot be sent: {problem}"));
    let mut composed = Request::new(method, params).map_err(malformed)?;
    composed.progress = request.progress;
    composed.log_level = request.log_level;
    composed.capabilities = request.capabilities.clone();
    Ok(composed)
}

/// A caller's own request, with the server's own name in it.
fn readdressed(whole: Request, subject: &Subject, target: &Target) -> Request {
    match target.kind() {
        CallKind::Tool | CallKind::Prompt => whole.with_param("name", Raw::of(&subject.raw_name)),
        CallKind::Resource => whole.with_param("uri", Raw::of(&subject.raw_name)),
        CallKind::Method => whole,
    }
}

/// `name` and, as they are, `arguments`.
fn named_params(subject: &Subject, request: &CallRequest) -> Raw {
    let name = Raw::of(&subject.raw_name);
    let arguments = request.arguments.iter().map(|arguments| ("arguments", arguments));
    splice::object([("name", &name)].into_iter().chain(arguments))
}
