//! `/api/v1/runs`: calls that a person makes on a page, and their results as files.

use serde::Deserialize;
use serde_json::json;
use toolway_host::{call::CallKind, catalog::Origin};
use toolway_wire::json::{JsonKind, Raw};
use uuid::Uuid;

use super::{Answered, blocking, servers};
use crate::{
    console::Console,
    error::ApiError,
    reply,
    runs::{Run, RunEnd},
    view::{content, run},
};

/// What is called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    kind: WantedKind,
    server: String,
    /// Name of a tool or prompt, or URI of a resource, at its server.
    name: String,
    /// The arguments as JSON text, which keeps the digits of numbers.
    arguments: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WantedKind {
    Tool,
    Resource,
    Prompt,
}

/// Starts a run. Events tell how far it is.
pub(super) fn start(console: &Console, wanted: Wanted) -> Answered {
    let server = servers::find(console, &wanted.server)?;
    let kind = match wanted.kind {
        WantedKind::Tool => CallKind::Tool,
        WantedKind::Resource => CallKind::Resource,
        WantedKind::Prompt => CallKind::Prompt,
    };
    let arguments = wanted.arguments.map(arguments).transpose()?;
    let id = console.runs.start(kind, Origin { server, raw_name: wanted.name }, arguments)?;
    reply::json(&json!({ "id": id.to_string() }))
}

fn arguments(text: String) -> Result<Raw, ApiError> {
    let parsed =
        Raw::parse(text).map_err(|error| ApiError::bad_request(format!("`arguments` is not JSON: {error}")))?;
    if parsed.kind() != JsonKind::Object {
        return Err(ApiError::bad_request("`arguments` must be a JSON object"));
    }
    Ok(parsed)
}

/// One run. Its result can be long: it is written off the runtime.
pub(super) async fn show(console: &Console, id: &str) -> Answered {
    let run = find(console, id)?;
    blocking(move || reply::json(&run::view(&run))).await?
}

/// One part of a result as a file, or with `all` the whole result.
pub(super) async fn part(console: &Console, id: &str, part: &str) -> Answered {
    let run = find(console, id)?;
    let result = run.end.as_deref().and_then(|end: &RunEnd| end.result.clone());
    let result = result.ok_or_else(|| ApiError::not_found("the run has no result"))?;
    if part == "all" {
        return Ok(reply::attachment(&format!("{id}.json"), result.bytes().clone()));
    }
    let at: usize = part.parse().map_err(|_| ApiError::not_found("unknown part"))?;
    let kind = run.kind;
    let file = blocking(move || content::file(kind, &result, at)).await?;
    let file = file.ok_or_else(|| ApiError::not_found("unknown part"))?;
    Ok(reply::attachment(&format!("{id}-{at}.{}", file.ending), file.bytes.into()))
}

fn find(console: &Console, id: &str) -> Result<Run, ApiError> {
    let unknown = || ApiError::not_found("unknown run").hint("results are kept for a while; its record is in Calls");
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    console.runs.find(id).ok_or_else(unknown)
}
