//! JSON views for the operator's commands: of one server, including its stderr output, and of limits.

use serde_json::{Value, json};
use toolway_host::{
    connection::{
        ServerStatus,
        view::{self, ServerAssessment},
    },
    policy::{LimitOwner, LimitUse},
};

/// Status of a server, with the number of lost connections since the gateway started.
pub(super) fn server(status: &ServerStatus) -> Value {
    let mut object = view::object(status, &ServerAssessment::of(status));
    object.insert("losses".to_owned(), json!(status.losses));
    Value::Object(object)
}

/// The use of a limit.
pub(super) fn limit(used: &LimitUse) -> Value {
    let (server, client) = match &used.scope.owner {
        LimitOwner::Server(server) => (Some(server.as_str()), None),
        LimitOwner::Client(client) => (None, Some(&**client)),
    };
    json!({
        "server": server,
        "client": client,
        "tools": used.scope.tools.as_deref(),
        "limit": used.key.as_str(),
        "max": used.most,
        "used": used.used,
    })
}

/// A status without what servers wrote to stderr and without the addresses of other gateways, for peers that must not read them.
pub(super) fn without_stderr(mut status: Value) -> Value {
    if let Some(status) = status.as_object_mut() {
        status.remove("cluster");
    }
    for server in status["servers"].as_array_mut().into_iter().flatten() {
        if let Some(server) = server.as_object_mut() {
            server.remove("stderr");
        }
    }
    status
}
