//! Reads the caller of a stateless request from its metadata and checks its headers against the body.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::json;

use crate::{
    down::{Caller, Downstream},
    exchange::LogLevel,
    header::{self, HeaderMismatch},
    json::{JsonKind, Raw},
    message::{ClientCapabilities, Envelope, RpcError, meta},
    revision::{Era, Revision},
};

/// Reads the caller and its log level; refuses missing metadata and unsupported revisions.
pub(super) fn read(
    downstream: &Downstream,
    envelope: &Envelope,
    principal: &Arc<str>,
    headers: Option<&HeaderMap>,
) -> Result<(Caller, Option<LogLevel>), RpcError> {
    let [version, capabilities, level, info] =
        [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL, meta::CLIENT_INFO]
            .map(|key| envelope.meta_value(key));
    let header = headers.map(|headers| header::single_value(headers, &header::PROTOCOL_VERSION)).transpose();
    let header = header.map_err(|problem| mismatched(&format!("{} {problem}", header::PROTOCOL_VERSION)))?;
    let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
    let version = version
        .as_ref()
        .and_then(Raw::as_str)
        .ok_or_else(|| invalid("`_meta` has no `io.modelcontextprotocol/protocolVersion`"))?;
    let capabilities = capabilities
        .filter(|capabilities| capabilities.kind() == JsonKind::Object)
        .ok_or_else(|| invalid("`_meta` has no `io.modelcontextprotocol/clientCapabilities` object"))?;
    if header.is_some_and(|header| header.as_bytes() != version.as_bytes()) {
        return Err(mismatched(&format!("header `{}` does not match the body", header::PROTOCOL_VERSION)));
    }
    let meant = |revision: &Revision| revision.era() == Era::Modern && revision.as_str() == version;
    let Some(revision) = downstream.options.revisions.iter().copied().find(meant) else {
        let listed: Vec<&str> = downstream.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
        let data = json!({ "supported": listed, "requested": version });
        return Err(RpcError::with_data(RpcError::UNSUPPORTED_VERSION, "unsupported protocol version", data));
    };
    let level = match level {
        None => None,
        Some(level) => {
            let level = level.as_str().and_then(|level| level.parse().ok());
            Some(level.ok_or_else(|| invalid("unknown log level"))?)
        }
    };
    let capabilities = ClientCapabilities(capabilities);
    Ok((Caller { revision, capabilities, info, principal: Arc::clone(principal), session: None }, level))
}

pub(super) fn check_headers(
    downstream: &Downstream,
    envelope: &Envelope,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<(), HeaderMismatch> {
    let params = envelope.params();
    let annotated = |tool: &str| downstream.service.param_headers(tool, caller);
    header::check(headers, envelope.method(), params.as_ref(), annotated)
}

pub(super) fn mismatched(problem: &dyn std::fmt::Display) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, &problem.to_string())
}
