//! HTTP responses of the gateway itself; MCP responses come from the downstreams.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use toolway_wire::down::http::ResponseBody;

/// A plain-text response.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    respond(status, "text/plain; charset=utf-8", text.into())
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<ResponseBody> {
    match serde_json::to_vec_pretty(value) {
        Ok(document) => respond(status, "application/json", document.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A JSON-RPC message.
pub(crate) fn message(status: StatusCode, message: Bytes) -> Response<ResponseBody> {
    respond(status, "application/json", message)
}

/// Metrics in the OpenMetrics text format, which Prometheus and OpenTelemetry collectors read.
pub(crate) fn metrics(text: String) -> Response<ResponseBody> {
    respond(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", text.into())
}

/// `405` with the allowed methods.
pub(crate) fn not_allowed(allowed: &'static str) -> Response<ResponseBody> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, allowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// `404` for an OAuth path, in the error format of OAuth, so that a client without a key shows the user what to do.
pub(crate) fn no_oauth() -> Response<ResponseBody> {
    let description = "this gateway has no sign-in: create a key with `toolway clients add <name>` and configure the \
                       client to send it as `Authorization: Bearer <key>`";
    json(StatusCode::NOT_FOUND, &serde_json::json!({ "error": "invalid_request", "error_description": description }))
}

/// `401` with a bearer challenge.
pub(crate) fn unauthorized(message: String) -> Response<ResponseBody> {
    let mut response = text(StatusCode::UNAUTHORIZED, message);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"toolway\""));
    response
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
