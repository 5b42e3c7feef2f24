//! New messages, put together around values that are carried as they came.
//!
//! Each takes one allocation of the right size; bodies are copied once and never read.

use bytes::Bytes;

use super::{
    Id, RpcError,
    splice::{self, Edit},
};
use crate::json::Raw;

/// A request; `edits` are made to the params on the way.
pub fn request(id: &Id, method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(id.as_bytes().len() + method.len() + body_size(params, edits));
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id.as_bytes());
    call(&mut out, method, params, edits);
    finish(out)
}

/// A notification.
pub fn notification(method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(method.len() + body_size(params, edits));
    call(&mut out, method, params, edits);
    finish(out)
}

/// A good answer; `edits` are made to the result on the way.
pub fn result(id: &Id, result: &Raw, edits: &[Edit<'_>]) -> Bytes {
    let mut out = start(id.as_bytes().len() + body_size(Some(result), edits));
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    splice::write(&mut out, result, edits);
    finish(out)
}

/// A bad answer; without an id where none could be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let mut out = start(error.raw().as_bytes().len() + 64);
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(error.raw().as_bytes());
    finish(out)
}

fn call(out: &mut Vec<u8>, method: &str, params: Option<&Raw>, edits: &[Edit<'_>]) {
    out.extend_from_slice(b",\"method\":");
    splice::write_string(out, method);
    let empty = Raw::empty_object();
    let params = match params {
        None if edits.is_empty() => return,
        None => &empty,
        Some(params) => params,
    };
    out.extend_from_slice(b",\"params\":");
    splice::write(out, params, edits);
}

fn body_size(body: Option<&Raw>, edits: &[Edit<'_>]) -> usize {
    body.map_or(2, |body| body.as_bytes().len()) + edits.iter().map(Edit::growth).sum::<usize>()
}

fn start(size: usize) -> Vec<u8> {
    const AROUND: usize = 80;
    let mut out = Vec::with_capacity(size + AROUND);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    out
}

fn finish(mut out: Vec<u8>) -> Bytes {
    out.push(b'}');
    out.into()
}
