//! Composes new messages around raw values.
//!
//! Each takes one allocation of the right size; bodies are copied once and not parsed.

use bytes::Bytes;

use super::{
    Id, RpcError,
    splice::{self, Edit},
};
use crate::json::Raw;

/// Composes a request; `edits` are applied to the params.
pub fn request(id: &Id, method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(ID.len() + id.as_bytes().len() + call_size(method, params, edits));
    out.extend_from_slice(ID);
    out.extend_from_slice(id.as_bytes());
    call(&mut out, method, params, edits);
    finish(out)
}

/// Composes a notification; `edits` are applied to the params.
pub fn notification(method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(call_size(method, params, edits));
    call(&mut out, method, params, edits);
    finish(out)
}

/// Composes a response with a result; `edits` are applied to the result.
pub fn result(id: &Id, result: &Raw, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(ID.len() + id.as_bytes().len() + RESULT.len() + body_size(result, edits));
    out.extend_from_slice(ID);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(RESULT);
    splice::write(&mut out, result, edits);
    finish(out)
}

/// Composes an error response; `id` is `None` if it could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let id_size = id.map_or(0, |id| ID.len() + id.as_bytes().len());
    let mut out = start(id_size + ERROR.len() + error.raw().as_bytes().len());
    if let Some(id) = id {
        out.extend_from_slice(ID);
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(ERROR);
    out.extend_from_slice(error.raw().as_bytes());
    finish(out)
}

const OPENING: &[u8] = b"{\"jsonrpc\":\"2.0\"";
const ID: &[u8] = b",\"id\":";
const METHOD: &[u8] = b",\"method\":";
const PARAMS: &[u8] = b",\"params\":";
const RESULT: &[u8] = b",\"result\":";
const ERROR: &[u8] = b",\"error\":";

fn call(out: &mut Vec<u8>, method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) {
    out.extend_from_slice(METHOD);
    splice::write_string(out, method);
    let empty = Raw::empty_object();
    let params = match params {
        None if edits.is_empty() => return,
        None => &empty,
        Some(params) => params,
    };
    out.extend_from_slice(PARAMS);
    splice::write(out, params, edits);
}

/// Number of bytes that [`call`] writes if the method needs no escapes.
fn call_size(method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) -> usize {
    let quoted = METHOD.len() + method.len() + 2;
    match params {
        None if edits.is_empty() => quoted,
        None => quoted + PARAMS.len() + body_size(&Raw::empty_object(), edits),
        Some(params) => quoted + PARAMS.len() + body_size(params, edits),
    }
}

/// Upper bound of the body size with these edits; exact if they only add members.
fn body_size(body: &Raw, edits: &[Edit<'_>]) -> usize {
    body.as_bytes().len() + edits.iter().map(Edit::growth).sum::<usize>()
}

/// Starts a message with capacity for `size` bytes and the closing brace, so that the buffer is shared without a copy.
fn start(size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(OPENING.len() + size + 1);
    out.extend_from_slice(OPENING);
    out
}

fn finish(mut out: Vec<u8>) -> Bytes {
    out.push(b'}');
    out.into()
}
