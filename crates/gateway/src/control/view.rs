//! JSON view of one server for the operator's commands, including its stderr output.

use serde_json::{Value, json};
use toolway_host::connection::{
    ServerStatus,
    view::{self, ServerAssessment},
};

/// Status of a server, with the number of lost connections since the gateway started.
pub(super) fn server(status: &ServerStatus) -> Value {
    let mut object = view::object(status, &ServerAssessment::of(status));
    object.insert("losses".to_owned(), json!(status.losses));
    Value::Object(object)
}

/// A status without what servers wrote to stderr, for peers that must not read it.
pub(super) fn without_stderr(mut status: Value) -> Value {
    for server in status["servers"].as_array_mut().into_iter().flatten() {
        if let Some(server) = server.as_object_mut() {
            server.remove("stderr");
        }
    }
    status
}
