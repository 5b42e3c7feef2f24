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
