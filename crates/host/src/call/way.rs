//! The stretches of the way, one after the other: find, decide, admit, send.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_wire::{exchange::Request, json::Raw, message::splice};
use tracing::Instrument;

use super::{CallError, CallKind, CallOutcome, CallRequest, Target};
use crate::{
    catalog::{Catalog, Fingerprint, NoOwner, Origin, PublicName, uri},
    connection::{
        Connection, Sent,
        lines::{Asker, Need, NoSeat},
    },
    host::Inner,
    policy::{Decision, Grant, Permit, Refusal, Subject, approval, limit::Entry},
    record::Recording,
};

/// Where a request goes.
pub(super) struct Found {
    pub(super) connection: Connection,
    pub(super) subject: Subject,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// What was decided when the same call was tried before.
pub(super) struct Earlier {
    pub(super) grant: Grant,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// Names that are compared with one that was not found.
const COMPARED: usize = 5_000;
/// How alike two names are that are worth a hint.
const ALIKE: f64 = 0.7;

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
    let found = find(host, &request.target, request.content()).await?;
    recording.found(&found.subject);
    if found.fingerprint.zip(request.chosen).is_some_and(|(now, chosen)| now != chosen) {
        return Err(Refusal::Changed(request.target.name().to_owned()).into());
    }
    let wire_request = compose(&found.subject, request)?;
    let Found { connection, fingerprint, .. } = &found;
    let grant = granted(host, &found, earlier, request, recording).await?;
    let not_connected = |why| CallOutcome::Failed(CallError::NotConnected { server: connection.name().clone(), why });
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
        NoSeat::NotConnected(why) => {
            CallOutcome::Failed(CallError::NotConnected { server: connection.name().clone(), why })
        }
        NoSeat::Refused(refusal) => refusal.into(),
    }
}

/// Decides, and asks a person where that is decided; not again about the same thing in the same call.
async fn granted(
    host: &Inner,
    found: &Found,
    earlier: Option<Earlier>,
    request: &CallRequest,
    recording: &Recording,
) -> Result<Grant, Refusal> {
    let same =
        |earlier: &Earlier| *earlier.grant.subject() == found.subject && earlier.fingerprint == found.fingerprint;
    let earlier = earlier.filter(same);
    match host.policy.decide(found.subject.clone(), &request.caller, &found.connection.wanted().filter) {
        Decision::Allow(grant) => Ok(grant),
        Decision::Ask(question) => match earlier {
            Some(earlier) => Ok(earlier.grant),
            None => {
                recording.put_to_a_person();
                approval::put(question, &*host.room.ports.approver).await
            }
        },
        Decision::Deny(refusal) => Err(refusal),
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

/// Finds the server and its own name for what is asked for. A server that is not listed yet is waited for where the
/// name is one of its own.
pub(super) async fn find(host: &Inner, target: &Target, params: Option<&Raw>) -> Result<Found, Refusal> {
    if host.is_stopping() {
        return Err(Refusal::ShuttingDown);
    }
    match target {
        Target::Tool(name) => named(host, CallKind::Tool, name, find_tool).await,
        Target::Prompt(name) => named(host, CallKind::Prompt, name, find_prompt).await,
        Target::Resource(uri) => located(host, uri).await,
        Target::ToolOf(origin) => {
            let fingerprint =
                host.cataloguer.catalog().tool_at(&origin.server, &origin.raw_name).map(|tool| tool.fingerprint);
            at(host, CallKind::Tool, origin.clone(), fingerprint)
        }
        Target::PromptOf(origin) => at(host, CallKind::Prompt, origin.clone(), None),
        Target::ResourceOf(origin) => at(host, CallKind::Resource, origin.clone(), None),
        Target::Method { server, method } => {
            let (kind, raw_name) = meant(method, params);
            at(host, kind, Origin { server: server.clone(), raw_name }, None)
        }
    }
}

type Find = fn(&Catalog, &PublicName) -> Option<(Origin, Fingerprint)>;

fn find_tool(catalog: &Catalog, name: &PublicName) -> Option<(Origin, Fingerprint)> {
    catalog.find_tool(name).map(|entry| (entry.origin.clone(), entry.fingerprint))
}

fn find_prompt(catalog: &Catalog, name: &PublicName) -> Option<(Origin, Fingerprint)> {
    catalog.find_prompt(name).map(|entry| (entry.origin.clone(), entry.fingerprint))
}

async fn named(host: &Inner, kind: CallKind, name: &PublicName, find: Find) -> Result<Found, Refusal> {
    if let Some((origin, fingerprint)) = find(&host.cataloguer.catalog(), name) {
        return at(host, kind, origin, Some(fingerprint));
    }
    let owner = host.owner_by_prefix(name.as_str());
    if let Some(connection) = &owner {
        refuse_disabled(connection)?;
        Box::pin(host.listed(connection)).await;
    }
    let catalog = host.cataloguer.catalog();
    match (find(&catalog, name), owner.as_ref().and_then(|owner| locked(owner, name))) {
        (Some((origin, fingerprint)), _) => at(host, kind, origin, Some(fingerprint)),
        (None, Some(origin)) => at(host, kind, origin, None),
        (None, None) => {
            Err(Refusal::Unknown { kind, name: name.to_string(), near: nearest(&catalog, kind, name.as_str()) })
        }
    }
}

/// What is meant where a server lists nothing before somebody has signed in: the call then says who has to.
fn locked(owner: &Connection, name: &PublicName) -> Option<Origin> {
    let (_, raw_name) = name.as_str().split_once("__")?;
    let waits = matches!(owner.live().status.phase, crate::connection::Phase::SignInNeeded { .. });
    waits.then(|| Origin { server: ServerName::clone(owner.name()), raw_name: raw_name.to_owned() })
}

async fn located(host: &Inner, uri: &str) -> Result<Found, Refusal> {
    let owner = match host.cataloguer.catalog().owner(uri) {
        Err(NoOwner::Unknown(_)) => {
            if let Some(connection) = uri::split_owned(uri).and_then(|(server, _)| host.connection(&server)) {
                refuse_disabled(&connection)?;
                Box::pin(host.listed(&connection)).await;
            }
            host.cataloguer.catalog().owner(uri)
        }
        found => found,
    };
    match owner {
        Ok(origin) => at(host, CallKind::Resource, origin, None),
        Err(NoOwner::Unknown(name)) => Err(Refusal::Unknown { kind: CallKind::Resource, name, near: None }),
        Err(several @ NoOwner::Several { .. }) => Err(Refusal::Malformed(several.to_string())),
    }
}

fn at(host: &Inner, kind: CallKind, origin: Origin, fingerprint: Option<Fingerprint>) -> Result<Found, Refusal> {
    let Origin { server, raw_name } = origin;
    let connection = host.connection(&server).ok_or_else(|| Refusal::UnknownServer(server.to_string()))?;
    refuse_disabled(&connection)?;
    Ok(Found { connection, subject: Subject { server, kind, raw_name }, fingerprint })
}

fn refuse_disabled(connection: &Connection) -> Result<(), Refusal> {
    match connection.live().status.phase {
        crate::connection::Phase::Disabled => Err(Refusal::Disabled(ServerName::clone(connection.name()))),
        _ => Ok(()),
    }
}

/// What a method with these params really asks for: a rule about a tool holds however the tool is asked for.
fn meant(method: &str, params: Option<&Raw>) -> (CallKind, String) {
    let member = |key| params.and_then(|params| params.get(key));
    let text = |value: Option<Raw>| value.and_then(|value| value.as_str().map(Cow::into_owned));
    let (kind, name) = match method {
        "tools/call" => (CallKind::Tool, text(member("name"))),
        "prompts/get" => (CallKind::Prompt, text(member("name"))),
        "resources/read" | "resources/subscribe" => (CallKind::Resource, text(member("uri"))),
        "completion/complete" => match member("ref").map(|about| about.fields(["name", "uri"])) {
            Some([_, Some(uri)]) => (CallKind::Resource, text(Some(uri))),
            Some([name, None]) => (CallKind::Prompt, text(name)),
            None => (CallKind::Method, None),
        },
        "subscriptions/listen" => {
            let wanted = member("notifications").and_then(|filter| filter.get("resourceSubscriptions"));
            match wanted.and_then(|uris| uris.elements().into_iter().next()) {
                Some(first) => (CallKind::Resource, text(Some(first))),
                None => (CallKind::Method, None),
            }
        }
        _ => (CallKind::Method, None),
    };
    (kind, name.unwrap_or_else(|| method.to_owned()))
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

/// The name that was probably meant.
fn nearest(catalog: &Catalog, kind: CallKind, name: &str) -> Option<String> {
    let tools = catalog.tools().iter().map(|entry| entry.public.as_str());
    let prompts = catalog.prompts().iter().map(|entry| entry.public.as_str());
    let names: Vec<&str> =
        if kind == CallKind::Tool { tools.take(COMPARED).collect() } else { prompts.take(COMPARED).collect() };
    let scored = names.into_iter().map(|known| (strsim::jaro_winkler(known, name), known));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (ALIKE < best.0).then(|| best.1.to_owned())
}
