//! One server as the operator's commands are told of it: everything that is known, standard error included.

use serde_json::{Map, Value, json};
use toolway_host::connection::{Phase, ServerStatus};

/// Lines of standard error.
const STDERR: usize = 50;

/// What is known of a server; what is not is not there.
pub(super) fn server(status: &ServerStatus) -> Value {
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
    put("state", json!(status.phase.word()));
    put("reason", json!(reason(status)));
    if let Some(error) = status.last_error.as_ref().filter(|_| reason(status).is_some()) {
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
    if let Some(counts) = status.counts {
        put("tools", json!(counts.tools));
        put("resources", json!(counts.resources));
        put("resourceTemplates", json!(counts.templates));
        put("prompts", json!(counts.prompts));
        put("setAside", json!(counts.set_aside));
    }
    put("process", json!(status.process));
    put("losses", json!(status.losses));
    put("stderr", json!(status.stderr[status.stderr.len().saturating_sub(STDERR)..]));
    Value::Object(object)
}

/// Why it is not well; none where it is.
fn reason(status: &ServerStatus) -> Option<String> {
    match &status.phase {
        Phase::Ready if status.counts.is_some() => None,
        Phase::Ready => Some(last_error(status).unwrap_or_else(|| "it has not said yet what it has".to_owned())),
        phase @ (Phase::Stopped(_) | Phase::Connecting { .. }) => Some(phase.to_string()),
        Phase::Disabled => None,
        phase => Some(last_error(status).unwrap_or_else(|| phase.to_string())),
    }
}

fn last_error(status: &ServerStatus) -> Option<String> {
    status.last_error.as_ref().map(|error| error.message.clone())
}
