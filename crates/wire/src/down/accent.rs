//! Which era is this request? Decided by its metadata, never by its method; and what both accents share.

use std::panic::{self, AssertUnwindSafe};

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use serde_json::json;

use super::Downstream;
use crate::{
    exchange::Request,
    json::Raw,
    message::{BadMessage, Envelope, Id, Problem, RpcError, compose, meta},
    revision::Era,
};

/// One message on its way to the caller.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) message: Bytes,
    /// Whether the request is answered with it.
    pub(super) last: bool,
    /// The HTTP status, where it is the only message.
    pub(super) status: StatusCode,
    weight: Weight,
}

/// What becomes of a message that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It may give way to later ones.
    Light,
    /// Somebody waits for it.
    Heavy,
}

/// What a request declares itself to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// It says all itself.
    Modern,
    /// It begins a session.
    Handshake,
    /// Neither; a session or a header must tell.
    Nothing,
}

impl Said {
    /// A notification.
    pub(super) fn more(message: Bytes) -> Self {
        Self { message, last: false, status: StatusCode::OK, weight: Weight::Light }
    }

    /// A request to the caller.
    pub(super) fn question(message: Bytes) -> Self {
        Self { weight: Weight::Heavy, ..Self::more(message) }
    }

    pub(super) fn last(message: Bytes) -> Self {
        Self { message, last: true, status: StatusCode::OK, weight: Weight::Heavy }
    }

    /// Whether it may be dropped where nobody reads.
    pub(super) fn is_notification(&self) -> bool {
        self.weight == Weight::Light
    }

    pub(super) fn error(id: Option<&Id>, error: &RpcError, status: StatusCode) -> Self {
        Self { status, ..Self::last(compose::error(id, error)) }
    }
}

/// What the request itself says about its era. A downstream without stateless revisions has never heard of them.
pub(super) fn declared(downstream: &Downstream, envelope: &Envelope) -> Declared {
    if downstream.speaks(Era::Modern) && envelope.meta_value(meta::PROTOCOL_VERSION).is_some() {
        Declared::Modern
    } else if envelope.method() == "initialize" {
        Declared::Handshake
    } else {
        Declared::Nothing
    }
}

/// The answer to a text that is no message.
pub(super) fn bad_message(bad: &BadMessage) -> (Option<Id>, RpcError) {
    let code = match bad.problem {
        Problem::Json(_) => RpcError::PARSE,
        _ => RpcError::INVALID_REQUEST,
    };
    (bad.id.clone(), RpcError::new(code, &bad.to_string()))
}

/// The era-neutral request: checked, and rid of what belongs to this hop.
pub(super) fn neutral(envelope: &Envelope) -> Result<Request, RpcError> {
    let invalid = |problem: &dyn std::fmt::Display| RpcError::new(RpcError::INVALID_PARAMS, &problem.to_string());
    let seen = envelope.seen().map_err(|problem| invalid(&problem))?;
    let request = Request::seen(envelope.kept_method(), envelope.params(), seen);
    let Some(meta) = envelope.meta() else { return Ok(request) };
    let kinds = envelope.meta_kinds();
    let request = request.without_hop_keys(kinds, &meta);
    Ok(if kinds.progress_token { request.with_progress() } else { request })
}

/// Does what is somebody else's; where that panics, its caller gets an answer and nobody else notices.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, RpcError> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| broken())
}

/// As [`guarded`], for what takes its time.
pub(super) async fn guarded_future<T>(work: impl Future<Output = T>) -> Result<T, RpcError> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| broken())
}

fn broken() -> RpcError {
    tracing::error!("whoever answers a request panicked; only that request is lost");
    RpcError::new(RpcError::INTERNAL, "whoever was to answer this broke")
}

/// The result of a tool that could not be used, for whoever called it to read.
pub(super) fn tool_error(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

/// The token its progress is reported under, as it was spelled.
pub(super) fn progress_token(envelope: &Envelope) -> Option<Raw> {
    envelope.meta_value(meta::PROGRESS_TOKEN)
}

/// The refusal of an id that is in use.
pub(super) fn id_taken() -> RpcError {
    RpcError::new(RpcError::INVALID_REQUEST, "another request with this id is under way")
}

/// The refusal of a caller that wants too much at once.
pub(super) fn too_many(limit: usize) -> RpcError {
    RpcError::new(RpcError::INTERNAL, &format!("more than {limit} requests or subscriptions at once"))
}
