//! One server as the operator's commands show it to programs: one object, whether a command looks for itself or asks a
//! gateway that runs. What is not known is not there.

use serde_json::{Map, Value, json};

use super::{CapabilityProfile, LineStatus, Phase, ServerStatus, client_face::SamplingOffer, state::Counts};
use crate::keeper::HowEnded;

/// What whoever shows a server makes of its status.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Its state as a word.
    pub state: &'static str,
    /// Why it is not well; none where it is.
    pub reason: Option<String>,
    /// What it offers.
    pub counts: Option<Counts>,
}

/// Lines of standard error that programs are given.
const STDERR: usize = 50;

// === impl Judged ===

impl Judged {
    /// What the status alone says.
    pub fn of(status: &ServerStatus) -> Self {
        Self { state: status.phase.word(), reason: reason(status), counts: status.counts }
    }
}

/// The object.
pub fn object(status: &ServerStatus, judged: &Judged) -> Map<String, Value> {
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
        put("whoseMove", json!(error.whose_move.word()));
    }
    if let Some(profile) = &status.profile {
        put("era", json!(profile.era.to_string()));
        put("protocolVersion", json!(profile.revision.as_str()));
        put("serverInfo", profile.info.read().unwrap_or_default());
        put("capabilities", profile.capabilities.0.read().unwrap_or_default());
        put("instructions", json!(profile.instructions));
        put("session", json!(profile.session));
    }
    if let Some(counts) = judged.counts {
        put("tools", json!(counts.tools));
        put("resources", json!(counts.resources));
        put("resourceTemplates", json!(counts.templates));
        put("prompts", json!(counts.prompts));
        put("setAside", json!(counts.set_aside));
    }
    match status.ended {
        Some(HowEnded::Exited(status)) => put("exitStatus", json!(status)),
        Some(HowEnded::Signalled(signal)) => put("exitSignal", json!(signal)),
        Some(HowEnded::Unknown) | None => {}
    }
    put("process", json!(status.process));
    let lines: Vec<Value> = status.lines.iter().map(line).collect();
    put("connections", if lines.is_empty() { Value::Null } else { lines.into() });
    put("stderr", json!(status.stderr[status.stderr.len().saturating_sub(STDERR)..]));
    object
}

/// A further connection, for a caller that must not share the first.
fn line(line: &LineStatus) -> Value {
    let mut shown = json!({
        "caller": line.caller.to_string(),
        "asked": asked(line.profile),
        "calls": line.calls,
        "waiting": line.parked,
    });
    if let Some(process) = line.process {
        shown["process"] = process.into();
    }
    shown
}

/// What its caller can be asked there.
fn asked(profile: CapabilityProfile) -> Vec<&'static str> {
    let words = [
        ("roots", profile.roots),
        ("sampling", profile.sampling != SamplingOffer::Nothing),
        ("elicitation", profile.forms || profile.addresses),
    ];
    words.into_iter().filter(|(_, can)| *can).map(|(word, _)| word).collect()
}

fn reason(status: &ServerStatus) -> Option<String> {
    let last_error = || status.last_error.as_ref().map(|error| error.message.clone());
    match &status.phase {
        Phase::Ready if status.counts.is_some() => None,
        Phase::Ready => Some(last_error().unwrap_or_else(|| "it has not said yet what it has".to_owned())),
        phase @ (Phase::Stopped(_) | Phase::Connecting { .. }) => Some(phase.to_string()),
        Phase::Disabled => None,
        phase => Some(last_error().unwrap_or_else(|| phase.to_string())),
    }
}
