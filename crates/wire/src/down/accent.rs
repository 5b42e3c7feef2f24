//! Shared by both accents: detects the era of a request from its metadata, never from its method.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use serde_json::json;

use super::Downstream;
use crate::{
    budget::{Charge, MemoryBudget, OverBudget},
    exchange::Request,
    json::Raw,
    message::{BadMessage, Envelope, Id, Problem, RpcError, compose, meta},
    revision::Era,
};

/// One message to the client.
#[derive(Clone, Debug)]
pub(super) struct OutgoingMessage {
    pub(super) bytes: Bytes,
    /// Whether it is the response, which ends the request.
    pub(super) is_response: bool,
    /// HTTP status, if this is the only message of the HTTP response.
    pub(super) status: StatusCode,
    /// Seconds after which a refused request may be sent again.
    pub(super) retry_after: Option<u64>,
    delivery: Delivery,
    /// Charge for its bytes, released when the last copy of the message is dropped.
    charge: Option<Arc<Charge>>,
}

/// Bytes that a connection takes over without waiting for its client to read; their charge need not be held.
const WRITTEN_AT_ONCE: usize = 16 * 1024;

/// Whether an unread message may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// Later messages may replace it (notifications).
    BestEffort,
    /// Never dropped (requests and responses).
    Required,
}

/// Era that a request declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Stateless: the metadata names a protocol version.
    Modern,
    /// `initialize`, which begins a session.
    Handshake,
    /// Neither; the session or a header decides.
    Undeclared,
}

impl OutgoingMessage {
    /// A notification to the client.
    pub(super) fn notification(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_response: false,
            status: StatusCode::OK,
            retry_after: None,
            delivery: Delivery::BestEffort,
            charge: None,
        }
    }

    /// A server request to the client.
    pub(super) fn request(bytes: Bytes) -> Self {
        Self { delivery: Delivery::Required, ..Self::notification(bytes) }
    }

    pub(super) fn response(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_response: true,
            status: StatusCode::OK,
            retry_after: None,
            delivery: Delivery::Required,
            charge: None,
        }
    }

    /// Whether it may be dropped while there is no reader.
    pub(super) fn is_notification(&self) -> bool {
        self.delivery == Delivery::BestEffort
    }

    /// The message charged to this budget. If that is exhausted and `make_room` releases nothing: an error instead of a
    /// response, `None` instead of a notification. A server request is charged where it is kept until its answer.
    pub(super) fn charged(
        mut self,
        memory: &MemoryBudget,
        id: Option<&Id>,
        mut make_room: impl FnMut() -> bool,
    ) -> Option<Self> {
        if self.charge.is_some() {
            return Some(self);
        }
        loop {
            match memory.charge(self.bytes.len()) {
                Ok(charge) => self.charge = Some(Arc::new(charge)),
                Err(_) if make_room() => continue,
                Err(_) if self.is_notification() => return None,
                Err(error) if self.is_response => return Some(Self::error(id, &over_budget(&error), StatusCode::OK)),
                Err(_) => {}
            }
            return Some(self);
        }
    }

    /// Its bytes in a frame, for writing. They hold the charge until they are written.
    pub(super) fn framed(self, frame: impl FnOnce(Bytes) -> Bytes) -> Bytes {
        let bytes = frame(self.bytes);
        match self.charge {
            Some(charge) if WRITTEN_AT_ONCE < bytes.len() => charge.attach(bytes),
            _ => bytes,
        }
    }

    pub(super) fn error(id: Option<&Id>, error: &RpcError, status: StatusCode) -> Self {
        Self { status, retry_after: error.retry_after(), ..Self::response(compose::error(id, error)) }
    }
}

/// Era that the request declares. Without stateless revisions, a stateless declaration is ignored.
pub(super) fn request_kind(downstream: &Downstream, envelope: &Envelope) -> RequestKind {
    if downstream.speaks(Era::Modern) && envelope.meta_value(meta::PROTOCOL_VERSION).is_some() {
        RequestKind::Modern
    } else if envelope.method() == "initialize" {
        RequestKind::Handshake
    } else {
        RequestKind::Undeclared
    }
}

/// Error response to an invalid message.
pub(super) fn bad_message(bad: &BadMessage) -> (Option<Id>, RpcError) {
    let code = match bad.problem {
        Problem::Json(_) => RpcError::PARSE,
        _ => RpcError::INVALID_REQUEST,
    };
    (bad.id.clone(), RpcError::new(code, &bad.to_string()))
}

/// The era-neutral request: validated, without the metadata of this hop.
pub(super) fn neutral(envelope: &Envelope) -> Result<Request, RpcError> {
    let invalid = |problem: &dyn std::fmt::Display| RpcError::new(RpcError::INVALID_PARAMS, &problem.to_string());
    let seen = envelope.params_summary().map_err(|problem| invalid(&problem))?;
    let request = Request::with_summary(envelope.owned_method(), envelope.params(), seen);
    let Some(meta) = envelope.meta() else { return Ok(request) };
    let kinds = envelope.meta_kinds();
    let request = request.without_hop_keys(kinds, &meta);
    Ok(if kinds.progress_token { request.with_progress() } else { request })
}

/// Runs code of the service; a panic becomes an error response to this request only.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, RpcError> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| panicked())
}

/// As [`catch_panic`], for a future.
pub(super) async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, RpcError> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| panicked())
}

fn panicked() -> RpcError {
    tracing::error!("a request handler panicked; only this request failed");
    RpcError::new(RpcError::INTERNAL, "internal error: the request handler panicked")
}

/// A tool result with `isError`, so that the model can read the text.
pub(super) fn tool_error(text: &str) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }], "isError": true }))
}

/// Progress token of the request, byte for byte.
pub(super) fn progress_token(envelope: &Envelope) -> Option<Raw> {
    envelope.meta_value(meta::PROGRESS_TOKEN)
}

/// Refuses what does not fit into the byte budget.
pub(super) fn over_budget(error: &OverBudget) -> RpcError {
    RpcError::new(RpcError::INTERNAL, &error.to_string())
}

/// Refuses a request whose id is in use.
pub(super) fn id_taken() -> RpcError {
    RpcError::new(RpcError::INVALID_REQUEST, "another request with this id is in progress")
}

/// Refuses a request over the concurrency limit.
pub(super) fn too_many(limit: usize) -> RpcError {
    RpcError::new(RpcError::INTERNAL, &format!("too many concurrent requests or subscriptions; the limit is {limit}"))
}
