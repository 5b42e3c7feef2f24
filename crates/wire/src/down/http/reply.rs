//! The responses of the HTTP face: one message, a plain sentence, nothing at all, or a stream.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::FaceBody;
use crate::{
    down::accent,
    message::{BadMessage, Problem, compose},
};

pub(super) fn bad(problem: Problem) -> BadMessage {
    BadMessage { problem, id: None, is_request: true }
}

pub(super) fn refusal(problem: &BadMessage, status: StatusCode) -> Response<FaceBody> {
    let (id, error) = accent::bad_message(problem);
    json(status, compose::error(id.as_ref(), &error))
}

pub(super) fn json(status: StatusCode, message: Bytes) -> Response<FaceBody> {
    respond(status, "application/json", FaceBody::whole(message))
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<FaceBody> {
    respond(status, "text/plain; charset=utf-8", FaceBody::whole(Bytes::from_static(text.as_bytes())))
}

/// The method is none of these.
pub(super) fn not_allowed(allowed: &'static str) -> Response<FaceBody> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, allowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

pub(super) fn empty(status: StatusCode) -> Response<FaceBody> {
    let mut response = Response::new(FaceBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(super) fn stream(body: FaceBody) -> Response<FaceBody> {
    let mut response = respond(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn respond(status: StatusCode, kind: &'static str, body: FaceBody) -> Response<FaceBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
