//! `/roots`: the roots of a client that cannot list them over its MCP connection, or that wants them kept.
//!
//! A client reads and replaces its own roots only. They are bounded like those that it declares over MCP.

use http::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolway_host::{
    Host,
    roots::{Root, SupplyError},
};
use toolway_wire::{
    budget::MemoryBudget,
    down::http::{Incoming, ResponseBody},
};

use crate::{
    access::Client,
    reply,
    small_body::{self, Expected},
};

/// A list: its bytes are enough for the longest one.
const EXPECTED: Expected =
    Expected { what: "roots", most: 256 * 1024, form: r#"{"roots": [{"uri": "file:///…", "name": "…"}]}"# };

/// A list of a client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    roots: Vec<ListedRoot>,
}

/// A root as clients write and read it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ListedRoot {
    uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl From<Root> for ListedRoot {
    fn from(Root { uri, name }: Root) -> Self {
        Self { uri, name }
    }
}

/// Answers a request of a client for its roots, or replaces them. The body is charged to `memory`.
pub(crate) async fn answer(
    host: &Host,
    client: &Client,
    request: Request<Incoming>,
    memory: &MemoryBudget,
) -> Response<ResponseBody> {
    match *request.method() {
        Method::PUT => replace(host, client, request, memory).await,
        _ => {
            let roots = host.client_roots(&client.name).await;
            reply::json(StatusCode::OK, &json!({ "roots": listed(roots) }))
        }
    }
}

async fn replace(
    host: &Host,
    client: &Client,
    request: Request<Incoming>,
    memory: &MemoryBudget,
) -> Response<ResponseBody> {
    let list: List = match small_body::read(request, client, memory, &EXPECTED).await {
        Ok(list) => list,
        Err(refusal) => return *refusal,
    };
    let roots = list.roots.into_iter().map(|ListedRoot { uri, name }| Root { uri, name }).collect();
    match host.set_client_roots(&client.name, roots).await {
        Ok(set) => reply::json(StatusCode::OK, &json!({ "roots": listed(set.kept), "dropped": set.dropped })),
        Err(error @ (SupplyError::TooMany | SupplyError::Invalid { .. })) => {
            reply::text(StatusCode::BAD_REQUEST, error.to_string())
        }
        Err(error @ SupplyError::OverBudget) => reply::text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        Err(error @ SupplyError::Store(_)) => {
            tracing::error!(client = &*client.name, error = &error as &dyn std::error::Error, "cannot store roots");
            reply::text(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
    }
}

fn listed(roots: Vec<Root>) -> Vec<ListedRoot> {
    roots.into_iter().map(ListedRoot::from).collect()
}
