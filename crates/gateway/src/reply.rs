//! Answers of the gateway itself, beside what its faces say.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use toolway_wire::down::http::FaceBody;

/// A line of text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<FaceBody> {
    respond(status, "text/plain; charset=utf-8", text.into())
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<FaceBody> {
    match serde_json::to_vec_pretty(value) {
        Ok(document) => respond(status, "application/json", document.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Figures, as Prometheus reads them.
pub(crate) fn figures(text: String) -> Response<FaceBody> {
    respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

/// A method that means nothing here.
pub(crate) fn not_allowed(allowed: &'static str) -> Response<FaceBody> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, allowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Somebody who may not come in.
pub(crate) fn stranger(message: String) -> Response<FaceBody> {
    let mut response = text(StatusCode::UNAUTHORIZED, message);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"toolway\""));
    response
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<FaceBody> {
    let mut response = Response::new(FaceBody::whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
