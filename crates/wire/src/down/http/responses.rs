//! Responses of the HTTP downstream: a JSON message, plain text, an empty body, or a stream.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::ResponseBody;
use crate::{
    down::accent::{self, OutgoingMessage},
    message::{BadMessage, Problem, compose},
};

pub(super) fn bad(problem: Problem) -> BadMessage {
    BadMessage { problem, id: None, is_request: true }
}

pub(super) fn refusal(problem: &BadMessage, status: StatusCode) -> Response<ResponseBody> {
    let (id, error) = accent::bad_message(problem);
    json(status, compose::error(id.as_ref(), &error))
}

pub(super) fn json(status: StatusCode, message: Bytes) -> Response<ResponseBody> {
    respond(status, "application/json", ResponseBody::whole(message))
}

/// The only message of a response.
pub(super) fn message(message: OutgoingMessage) -> Response<ResponseBody> {
    let retry_after = message.retry_after;
    let mut response = json(message.status, message.framed(|bytes| bytes));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    respond(status, "text/plain; charset=utf-8", ResponseBody::whole(Bytes::from_static(text.as_bytes())))
}

/// Refuses a method that is not allowed here.
pub(super) fn not_allowed(allowed: &'static str) -> Response<ResponseBody> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, allowed);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

pub(super) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(super) fn stream(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = respond(StatusCode::OK, "text/event-stream", body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn respond(status: StatusCode, kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
