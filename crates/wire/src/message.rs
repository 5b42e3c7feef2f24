//! One JSON-RPC message: its kind, id and method, and the rest as raw JSON.
//!
//! [`Envelope::read`] is the only parser of messages from remote parties: it checks the text once and remembers the
//! positions of the members. [`compose`] creates new messages, [`splice`] edits existing ones, and the other modules are
//! views of the few fields that are needed.

pub mod capability;
pub mod compose;
pub mod content;
mod error;
mod id;
pub mod item;
pub mod meta;
mod params;
pub mod result;
pub mod splice;
mod strict;

use std::{borrow::Cow, ops::Range, str};

use bytes::{Buf, Bytes};

pub use capability::{ClientCapabilities, ServerCapabilities};
pub use error::RpcError;
pub use id::Id;
use params::{META, ParamsScan, ParamsScanner};
use result::ResultType;
pub use strict::{ParamsSummary, RequestProblem, refuse_ambiguity};

use crate::{
    json::{
        JsonError, Raw,
        scan::{FoundMember, MemberLevel, NestedKey, Scanner, key_is},
        skim::{Skimmed, Skimmer},
    },
    limit::Limits,
};

/// A parsed message over its raw JSON text.
#[derive(Clone, Debug)]
pub struct Envelope {
    text: Bytes,
    kind: MessageKind,
    id: Option<Id>,
    method: Option<Range<usize>>,
    /// The method, if it is a common one; then its text need not be decoded.
    common_method: Option<&'static str>,
    /// Position of `params`, `result` or `error`, depending on the kind.
    body: Option<Range<usize>>,
    /// What was found in `params`, if they are an object.
    params_scan: Option<Box<ParamsScan>>,
    /// Position of `resultType` in `result`.
    result_type: Option<Range<usize>>,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Request, expects a response.
    Request,
    /// Notification, expects no response.
    Notification,
    /// Response with a result.
    Result,
    /// Response with an error.
    Error,
}

/// An invalid message, with its id if one could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct BadMessage {
    /// Reason why it is invalid.
    pub problem: Problem,
    /// Id of the request or response.
    pub id: Option<Id>,
    /// Whether it had a method, so that its sender waits for a response.
    pub is_request: bool,
}

/// Reason why a message is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Longer than the limit.
    #[error("message is longer than {limit} bytes")]
    TooLarge {
        /// The limit in force.
        limit: usize,
    },
    /// Not JSON, not UTF-8, or nested too deep.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// An array where the revision has no batches.
    #[error("this protocol revision does not support batches of messages")]
    Batch,
    /// More messages in one batch than the limit.
    #[error("a batch has more than {limit} messages")]
    Crowded {
        /// The limit in force.
        limit: usize,
    },
    /// A scalar value.
    #[error("a message must be a JSON object")]
    NotAnObject,
    /// Neither `method` nor `result` nor `error`, or more than one of them.
    #[error("message is neither a request, a notification nor a response")]
    NoKind,
    /// An id that is neither string nor number.
    #[error("`id` must be a string or a number")]
    BadId,
    /// A method that is not a plain string.
    #[error("`method` must be a string without escapes")]
    BadMethod,
    /// A duplicate envelope key, or a request that two parsers could read differently.
    #[error(transparent)]
    Ambiguous(#[from] RequestProblem),
}

impl BadMessage {
    /// Extracts the id of a message that is not parsed.
    fn skimmed(text: &[u8], problem: Problem) -> Self {
        let Skimmed { id, is_request } = Skimmer::whole(text);
        Self { problem, id, is_request }
    }
}

// === impl Envelope ===

impl Envelope {
    /// Reads one message, within `limits`.
    pub fn read(text: Bytes, limits: &Limits) -> Result<Self, BadMessage> {
        if limits.message_bytes < text.len() {
            return Err(BadMessage::skimmed(&text, Problem::TooLarge { limit: limits.message_bytes }));
        }
        if let Err(error) = str::from_utf8(&text) {
            return Err(BadMessage::skimmed(&text, JsonError::NotUtf8 { at: error.valid_up_to() }.into()));
        }
        let mut parts = Parts::default();
        match parts.collect(&text, limits.depth) {
            Ok(()) => parts.into_envelope(text),
            Err(problem @ Problem::Json(JsonError::TooDeep { .. })) => Err(BadMessage::skimmed(&text, problem)),
            Err(problem) => Err(parts.into_bad(&text, problem)),
        }
    }

    /// Whether the text is an array.
    pub(crate) fn is_batch(text: &[u8]) -> bool {
        text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
    }

    /// Splits a batch into its messages' texts; `None` when the text is not an array.
    pub fn split_batch(text: &Bytes, limits: &Limits) -> Option<Result<Vec<Bytes>, Problem>> {
        if !Self::is_batch(text) {
            return None;
        }
        let mut scanner = Scanner::new(text, limits.depth.saturating_add(1));
        let most = limits.batch_messages;
        Some(match scanner.elements(most) {
            Ok(spans) if most < spans.len() => Err(Problem::Crowded { limit: most }),
            Ok(spans) => match scanner.end() {
                Ok(()) => Ok(spans.into_iter().map(|span| text.slice(span)).collect()),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        })
    }

    /// The whole text as received.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Kind of this message.
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// The id, with the type and spelling its sender gave it.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The method; empty for responses.
    pub fn method(&self) -> &str {
        if let Some(common) = self.common_method {
            return common;
        }
        // The span is that of a checked string literal without escapes.
        self.method.clone().and_then(|span| str::from_utf8(&self.text[span]).ok()).unwrap_or_default()
    }

    /// The method as an owned value; common methods need no copy.
    pub(crate) fn owned_method(&self) -> Cow<'static, str> {
        self.common_method.map_or_else(|| Cow::Owned(self.method().to_owned()), Cow::Borrowed)
    }

    /// `params`, of a request or notification.
    pub fn params(&self) -> Option<Raw> {
        matches!(self.kind, MessageKind::Request | MessageKind::Notification).then(|| self.body()).flatten()
    }

    /// `_meta` of the params, found when the message was parsed.
    pub fn meta(&self) -> Option<Raw> {
        let meta = self.params_scan.as_ref()?.meta.as_ref()?;
        Some(Raw::checked(self.text.slice(meta.whole.clone())))
    }

    /// Value of this key in `_meta` of the params, found when the message was parsed; only keys that this program reads.
    pub(crate) fn meta_value(&self, key: &str) -> Option<Raw> {
        let value = self.params_scan.as_ref()?.meta.as_ref()?.value(key)?;
        Some(Raw::checked(self.text.slice(value)))
    }

    /// Kinds of keys in `_meta` of the params.
    pub(crate) fn meta_kinds(&self) -> meta::MetaKeyKinds {
        let meta = self.params_scan.as_ref().and_then(|params_scan| params_scan.meta.as_ref());
        meta.map(|meta| meta.kinds).unwrap_or_default()
    }

    /// Summary of the params; an error if two parsers could read them differently.
    pub(crate) fn params_summary(&self) -> Result<ParamsSummary, RequestProblem> {
        match (&self.params_scan, &self.body) {
            (Some(params_scan), _) => params_scan.seen.clone(),
            (None, None) => Ok(ParamsSummary::default()),
            (None, Some(_)) => Err(RequestProblem::ParamsNotAnObject),
        }
    }

    /// `result` of a response.
    pub fn result(&self) -> Option<Raw> {
        (self.kind == MessageKind::Result).then(|| self.body()).flatten()
    }

    /// `resultType` of the result, found when the message was parsed.
    pub(crate) fn result_type(&self) -> ResultType {
        self.result_type.clone().map_or(ResultType::Complete, |span| ResultType::read(&self.text[span]))
    }

    /// As [`Envelope::result`], but consumes the message.
    pub(crate) fn into_result(mut self) -> Option<Raw> {
        let span = self.body.filter(|_| self.kind == MessageKind::Result)?;
        self.text.truncate(span.end);
        self.text.advance(span.start);
        Some(Raw::checked(self.text))
    }

    /// `error` of a response.
    pub fn error(&self) -> Option<RpcError> {
        (self.kind == MessageKind::Error).then(|| self.body()).flatten().map(RpcError::from_raw)
    }

    fn body(&self) -> Option<Raw> {
        self.body.clone().map(|span| Raw::checked(self.text.slice(span)))
    }
}

/// The static text of a common method, which then needs neither a copy nor encoding; `None` for other methods.
pub(crate) fn common_method(method: &[u8]) -> Option<&'static str> {
    const COMMON: [&str; 4] = ["tools/call", "resources/read", "prompts/get", "tools/list"];
    COMMON.into_iter().find(|common| common.as_bytes() == method)
}

const PARAMS: &[u8] = b"\"params\"";
/// Members whose own members are reported while a message is parsed.
const OPENED: [NestedKey<'_>; 2] = [NestedKey(PARAMS, &[META, strict::ARGUMENTS]), NestedKey(b"\"result\"", &[])];

/// Positions of the members of one message while it is parsed.
#[derive(Default)]
struct Parts {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    /// What was found in `params`, if they are an object.
    params_scan: Option<Box<ParamsScan>>,
    /// Position of `resultType` in `result`.
    result_type: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    duplicate: Option<&'static str>,
    odd: Option<RequestProblem>,
}

impl Parts {
    fn collect(&mut self, text: &Bytes, depth: usize) -> Result<(), Problem> {
        match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => {}
            Some(b'[') => return Err(Problem::Batch),
            Some(_) => {
                crate::json::scan::whole_value(text, depth)?;
                return Err(Problem::NotAnObject);
            }
            None => return Err(JsonError::Truncated.into()),
        }
        let (mut scanner, mut scanning) = (Scanner::new(text, depth), None);
        scanner.members_with(&OPENED, |found| match found.level {
            MemberLevel::Outer => {
                let FoundMember { key, value, .. } = found;
                if &text[key.clone()] == PARAMS && text[value.start] == b'{' {
                    scanning.get_or_insert_with(|| ParamsScanner::new(text));
                }
                self.take(&text[key], value);
            }
            MemberLevel::Inner(1) => self.take_of_result(text, found),
            MemberLevel::Inner(_) | MemberLevel::Innermost(_) => {
                scanning.get_or_insert_with(|| ParamsScanner::new(text)).take(found)
            }
        })?;
        scanner.end()?;
        self.params_scan = scanning.map(|scanning| Box::new(scanning.finish()));
        Ok(())
    }

    fn take_of_result(&mut self, text: &[u8], FoundMember { key, plain, value, .. }: FoundMember) {
        const NAME: &str = "resultType";
        if self.result_type.is_none() && (!plain || key.len() == NAME.len() + 2) && key_is(&text[key], NAME) {
            self.result_type = Some(value);
        }
    }

    fn take(&mut self, key: &[u8], value: Range<usize>) {
        let (slot, name) = match key {
            b"\"jsonrpc\"" => return,
            b"\"id\"" => (&mut self.id, "id"),
            b"\"method\"" => (&mut self.method, "method"),
            b"\"params\"" => (&mut self.params, "params"),
            b"\"result\"" => (&mut self.result, "result"),
            b"\"error\"" => (&mut self.error, "error"),
            other => {
                self.odd = self.odd.take().or_else(|| strict::odd_envelope_key(other));
                return;
            }
        };
        if slot.replace(value).is_some() {
            self.duplicate = Some(name);
        }
    }

    fn into_envelope(self, text: Bytes) -> Result<Envelope, BadMessage> {
        let id = self.id_in(&text);
        let kind = match self.kind(&text, id.as_ref()) {
            Ok(kind) => kind,
            Err(problem) => return Err(self.into_bad(&text, problem)),
        };
        let body = match kind {
            MessageKind::Request | MessageKind::Notification => self.params,
            MessageKind::Result => self.result,
            MessageKind::Error => self.error,
        };
        let method = self.method.map(|span| span.start + 1..span.end - 1);
        let common_method = method.clone().and_then(|span| common_method(&text[span]));
        let params_scan = self.params_scan.filter(|_| matches!(kind, MessageKind::Request | MessageKind::Notification));
        let result_type = self.result_type.filter(|_| kind == MessageKind::Result);
        Ok(Envelope { text, kind, id, method, common_method, body, params_scan, result_type })
    }

    /// Kind that follows from the members; `id` is the parsed id, if valid.
    fn kind(&self, text: &Bytes, id: Option<&Id>) -> Result<MessageKind, Problem> {
        if let Some(key) = self.duplicate {
            return Err(RequestProblem::Duplicate { key: key.to_owned(), place: "the message" }.into());
        }
        let kind = match (&self.method, &self.result, &self.error, &self.id) {
            (Some(_), None, None, Some(_)) => MessageKind::Request,
            (Some(_), None, None, None) => MessageKind::Notification,
            (None, Some(_), None, _) => MessageKind::Result,
            (None, None, Some(_), _) => MessageKind::Error,
            // Some servers send `"error": null` beside a result, or the reverse; one of the two is meant.
            (None, Some(result), Some(error), _)
                if &text[error.clone()] == b"null" && &text[result.clone()] != b"null" =>
            {
                MessageKind::Result
            }
            (None, Some(result), Some(_), _) if &text[result.clone()] == b"null" => MessageKind::Error,
            _ => return Err(Problem::NoKind),
        };
        if let Some(span) = &self.method {
            let literal = &text[span.clone()];
            if literal.first() != Some(&b'"') || literal.contains(&b'\\') {
                return Err(Problem::BadMethod);
            }
        }
        let id_is_null = self.id.as_ref().is_some_and(|span| &text[span.clone()] == b"null");
        if self.id.is_some() && id.is_none() && (kind == MessageKind::Request || !id_is_null) {
            return Err(Problem::BadId);
        }
        if kind == MessageKind::Request
            && let Some(odd) = &self.odd
        {
            return Err(odd.clone().into());
        }
        Ok(kind)
    }

    fn id_in(&self, text: &Bytes) -> Option<Id> {
        self.id.clone().and_then(|span| Id::from_checked(text, span))
    }

    fn into_bad(self, text: &Bytes, problem: Problem) -> BadMessage {
        BadMessage { problem, id: self.id_in(text), is_request: self.method.is_some() }
    }
}

#[cfg(test)]
mod tests;
