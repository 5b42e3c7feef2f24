//! The JSON object of one server in the output of commands, the same with and without a running gateway. Unknown values
//! are left out.

use serde_json::{Map, Value, json};
use toolway_config::Secret;
use toolway_wire::time;

use super::{CallerConnectionStatus, CapabilityProfile, Phase, RootsOffer, ServerStatus, state::Counts};
use crate::{keeper::ProcessExit, sampling::SamplingOffer};

/// The state, reason and counts shown for a server.
#[derive(Clone, Debug)]
pub struct ServerAssessment {
    /// State name.
    pub state: &'static str,
    /// Why it is unhealthy; `None` if it is healthy.
    pub reason: Option<String>,
    /// Number of offered items.
    pub counts: Option<Counts>,
}

/// Lines of stderr output in the object.
const STDERR: usize = 50;

// === impl ServerAssessment ===

impl ServerAssessment {
    /// Derives the assessment from the status.
    pub fn of(status: &ServerStatus) -> Self {
        Self { state: status.phase.word(), reason: reason(status), counts: status.counts }
    }
}

/// Builds the JSON object of a server.
pub fn object(status: &ServerStatus, judged: &ServerAssessment) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            object.insert(key.to_owned(), value);
        }
    };
    put("name", json!(status.server.as_str()));
    put("description", json!(status.description));
    put("source", json!(status.source));
    put("transport", json!(status.transport.word()));
    put("target", json!(status.target));
    put("state", json!(judged.state));
    put("reason", json!(judged.reason));
    if let Some(error) = status.last_error.as_ref().filter(|_| judged.reason.is_some()) {
        put("code", json!(error.code));
        put("whoseMove", json!(error.whose_move.as_str()));
    }
    put("lastConnectedAt", json!(status.last_connected.map(time::rfc3339_of)));
    if let Some(profile) = &status.profile {
        put("era", json!(profile.era.to_string()));
        put("protocolVersion", json!(profile.revision.as_str()));
        put("serverInfo", profile.info.read().unwrap_or_default());
        put("capabilities", profile.capabilities.0.read().unwrap_or_default());
        put("instructions", json!(profile.instructions));
        put("session", json!(profile.session));
        put("sessionId", json!(profile.session_id.as_ref().map(Secret::expose)));
    }
    if let Some(counts) = judged.counts {
        put("tools", json!(counts.tools));
        put("resources", json!(counts.resources));
        put("resourceTemplates", json!(counts.templates));
        put("prompts", json!(counts.prompts));
        put("ignored", json!(counts.set_aside));
    }
    match status.ended {
        Some(ProcessExit::Exited(status)) => put("exitStatus", json!(status)),
        Some(ProcessExit::Signalled(signal)) => put("exitSignal", json!(signal)),
        Some(ProcessExit::Unknown) | None => {}
    }
    put("process", json!(status.process));
    let connections: Vec<Value> = status.caller_connections.iter().map(caller_connection).collect();
    put("connections", if connections.is_empty() { Value::Null } else { connections.into() });
    put("strayOutput", json!(status.stray_output));
    put("stderr", json!(status.stderr[status.stderr.len().saturating_sub(STDERR)..]));
    object
}

/// Removes the session ids from the object of a server. Only `servers show` shows them.
pub fn remove_session_ids(object: &mut Map<String, Value>) {
    object.remove("sessionId");
    let connections = object.get_mut("connections").and_then(Value::as_array_mut).into_iter().flatten();
    connections.filter_map(Value::as_object_mut).for_each(|connection| drop(connection.remove("sessionId")));
}

/// A connection reserved for one caller.
fn caller_connection(connection: &CallerConnectionStatus) -> Value {
    let mut shown = json!({
        "caller": connection.caller.label(),
        "asked": capabilities(connection.profile),
        "calls": connection.calls,
        "waiting": connection.parked,
    });
    if let Some(process) = connection.process {
        shown["process"] = process.into();
    }
    if let Some(id) = &connection.session_id {
        shown["sessionId"] = id.expose().into();
    }
    shown
}

/// The capabilities declared on a caller connection.
fn capabilities(profile: CapabilityProfile) -> Vec<&'static str> {
    let capabilities = [
        ("roots", profile.roots != RootsOffer::Nothing),
        ("sampling", profile.sampling != SamplingOffer::Nothing),
        ("elicitation", profile.forms || profile.addresses),
    ];
    capabilities.into_iter().filter(|(_, can)| *can).map(|(name, _)| name).collect()
}

fn reason(status: &ServerStatus) -> Option<String> {
    let last_error = || status.last_error.as_ref().map(|error| error.message.as_str().to_owned());
    match &status.phase {
        Phase::Ready if status.counts.is_some() => None,
        Phase::Ready => Some(last_error().unwrap_or_else(|| "it has not listed its items yet".to_owned())),
        phase @ (Phase::Stopped(_) | Phase::Connecting { .. }) => Some(phase.for_operator().into_string()),
        Phase::Disabled => None,
        phase => Some(last_error().unwrap_or_else(|| phase.for_operator().into_string())),
    }
}
