//! Responses, with the headers that every one of them has.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use toolway_wire::down::http::ResponseBody;

use crate::{error::ApiError, marked};

/// Nothing inline, nothing from elsewhere, no markup made from strings.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; media-src data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // A host name in a link of a model is not looked up.
    (HeaderName::from_static("x-dns-prefetch-control"), "off"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Time between two keep-alive comments of an event stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A whole response of this type.
pub(crate) fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    respond(status, kind, ResponseBody::whole(body.into()))
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    whole(status, "text/plain; charset=utf-8", text)
}

/// A JSON response, with hidden characters marked.
pub(crate) fn json(value: &impl Serialize) -> Result<Response<ResponseBody>, ApiError> {
    let body = serde_json::to_string(value).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(whole(StatusCode::OK, "application/json", marked::outgoing(body)))
}

/// A file to be saved, never shown: the text of others stays as it is.
pub(crate) fn attachment(name: &str, bytes: Bytes) -> Response<ResponseBody> {
    let mut response = whole(StatusCode::OK, "application/octet-stream", bytes);
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

pub(crate) fn error(error: &ApiError) -> Response<ResponseBody> {
    whole(error.status, "application/json", marked::outgoing(error.json().to_string()))
}

/// An event stream.
pub(crate) fn events(events: BoxStream<'static, Bytes>) -> Response<ResponseBody> {
    respond(StatusCode::OK, "text/event-stream", ResponseBody::pieces(events, KEEP_ALIVE))
}

/// Redirects with `GET`.
pub(crate) fn see_other(place: &str) -> Response<ResponseBody> {
    let mut response = whole(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

fn respond(status: StatusCode, kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
