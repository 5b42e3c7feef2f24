//! One server as the operator's commands are told of it: everything that is known, standard error included.

use serde_json::{Value, json};
use toolway_host::connection::{
    ServerStatus,
    view::{self, Judged},
};

/// What is known of a server, and how often it was lost since the gateway runs.
pub(super) fn server(status: &ServerStatus) -> Value {
    let mut object = view::object(status, &Judged::of(status));
    object.insert("losses".to_owned(), json!(status.losses));
    Value::Object(object)
}
