//! What the gateway says about itself and its servers, for people and programs.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolway_host::{
    Host,
    connection::{Phase, ServerStatus},
};
use toolway_wire::down::http::FaceBody;

use crate::{access::Client, reply};

/// Whether every server that is required is there.
pub(crate) fn ready(host: &Host) -> Response<FaceBody> {
    let missing: Vec<String> = host.missing().iter().map(|status| status.server.to_string()).collect();
    let status = if missing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::json(status, &json!({ "ready": missing.is_empty(), "missing": missing }))
}

/// The state of each server that a client sees.
pub(crate) fn servers(host: &Host, client: &Client) -> Response<FaceBody> {
    let seen = host.servers().into_iter().filter(|status| client.sees(&status.server));
    let servers: Vec<Value> = seen.map(|status| server(&status)).collect();
    reply::json(StatusCode::OK, &json!({ "servers": servers }))
}

/// One server; its address and what it wrote to standard error are the operator's business.
fn server(status: &ServerStatus) -> Value {
    let counts = status.counts.map(|counts| {
        json!({
            "tools": counts.tools,
            "resources": counts.resources,
            "templates": counts.templates,
            "prompts": counts.prompts,
        })
    });
    json!({
        "name": status.server.as_str(),
        "label": status.label,
        "description": status.description,
        "state": word(&status.phase),
        "because": because(&status.phase),
        "revision": status.profile.as_ref().map(|profile| profile.revision.as_str()),
        "counts": counts,
        "path": format!("/servers/{}/mcp", status.server),
    })
}

fn word(phase: &Phase) -> &'static str {
    phase.word()
}

/// Why it is not there; none where it is.
fn because(phase: &Phase) -> Option<String> {
    match phase {
        Phase::Ready => None,
        other => Some(other.to_string()),
    }
}
