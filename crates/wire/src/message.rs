//! One JSON-RPC message: its kind, its id, its method, and the rest as it came.
//!
//! [`Envelope::read`] is the only reader of strangers' messages: it checks the text once and remembers where the
//! members stand. New messages are put together in [`compose`], changes are made in [`splice`], and the views
//! beside them read the few fields someone needs.

pub mod capability;
pub mod compose;
pub mod content;
mod error;
mod id;
mod inside;
pub mod item;
pub mod meta;
pub mod result;
pub mod splice;
mod strict;

use std::{borrow::Cow, ops::Range, str};

use bytes::{Buf, Bytes};

pub use capability::{ClientCapabilities, ServerCapabilities};
pub use error::RpcError;
pub use id::Id;
use inside::{Inside, Looking, META};
use result::ResultType;
pub use strict::{RequestProblem, Seen, refuse_ambiguity};

use crate::{
    json::{
        JsonError, Raw,
        scan::{Found, Level, Opened, Scanner, key_is},
        skim::{Skimmed, Skimmer},
    },
    limit::Limits,
};

/// A message over raw JSON.
#[derive(Clone, Debug)]
pub struct Envelope {
    text: Bytes,
    kind: Kind,
    id: Option<Id>,
    method: Option<Range<usize>>,
    /// The method, where it is one of most requests: then nobody has to make a text of its span.
    usual: Option<&'static str>,
    /// `params`, `result` or `error`, whichever the kind calls for.
    body: Option<Range<usize>>,
    /// What was seen inside `params`, where they are an object.
    inside: Option<Box<Inside>>,
    /// `resultType`, where it stands in `result`.
    result_type: Option<Range<usize>>,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
    /// A good answer.
    Result,
    /// A bad one.
    Error,
}

/// A text that is no message, with the id it carried where one could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct BadMessage {
    /// What is wrong with it.
    pub problem: Problem,
    /// Which request it was about.
    pub id: Option<Id>,
    /// Whether it had a method, so that its sender waits for an answer.
    pub is_request: bool,
}

/// Why a text is not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Longer than the bound.
    #[error("message is longer than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// Not JSON, not UTF-8, or nested too deep.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// An array where the revision has no batches.
    #[error("a batch of messages, which this revision does not have")]
    Batch,
    /// More messages in one batch than the bound.
    #[error("a batch of more than {limit} messages")]
    Crowded {
        /// The bound.
        limit: usize,
    },
    /// A scalar.
    #[error("a message must be a JSON object")]
    NotAnObject,
    /// Neither `method` nor `result` nor `error`, or more than one of them.
    #[error("neither a request, a notification nor a response")]
    NoKind,
    /// An id that is neither string nor number.
    #[error("an id must be a string or a number")]
    BadId,
    /// A method that is not a string.
    #[error("a method must be a string")]
    BadMethod,
    /// An envelope key twice, or a request that two readers could understand differently.
    #[error(transparent)]
    Ambiguous(#[from] RequestProblem),
}

impl BadMessage {
    /// A text that is not read, but looks like a message: its id may still be told.
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

    /// Whether a text looks like a batch.
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

    /// The whole text, as it came.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// What this message is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The id, with the type and spelling its sender gave it.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The method; empty for responses.
    pub fn method(&self) -> &str {
        if let Some(usual) = self.usual {
            return usual;
        }
        // The span is that of a checked string literal without escapes.
        self.method.clone().and_then(|span| str::from_utf8(&self.text[span]).ok()).unwrap_or_default()
    }

    /// The method, to keep; those of most requests need no copy.
    pub(crate) fn kept_method(&self) -> Cow<'static, str> {
        self.usual.map_or_else(|| Cow::Owned(self.method().to_owned()), Cow::Borrowed)
    }

    /// `params`, of a request or notification.
    pub fn params(&self) -> Option<Raw> {
        matches!(self.kind, Kind::Request | Kind::Notification).then(|| self.body()).flatten()
    }

    /// `_meta` of the params: seen when the message was read, and not looked for again.
    pub fn meta(&self) -> Option<Raw> {
        let meta = self.inside.as_ref()?.meta.as_ref()?;
        Some(Raw::checked(self.text.slice(meta.whole.clone())))
    }

    /// What `_meta` of the params says under this key, which is one that somebody reads; seen when the message was read.
    pub(crate) fn meta_value(&self, key: &str) -> Option<Raw> {
        let value = self.inside.as_ref()?.meta.as_ref()?.value(key)?;
        Some(Raw::checked(self.text.slice(value)))
    }

    /// What kinds of keys `_meta` of the params has.
    pub(crate) fn meta_kinds(&self) -> meta::Kinds {
        let meta = self.inside.as_ref().and_then(|inside| inside.meta.as_ref());
        meta.map(|meta| meta.kinds).unwrap_or_default()
    }

    /// What was seen of the params, unless two readers could understand them differently.
    pub(crate) fn seen(&self) -> Result<Seen, RequestProblem> {
        match (&self.inside, &self.body) {
            (Some(inside), _) => inside.seen.clone(),
            (None, None) => Ok(Seen::default()),
            (None, Some(_)) => Err(RequestProblem::ParamsNotAnObject),
        }
    }

    /// `result`, of a good answer.
    pub fn result(&self) -> Option<Raw> {
        (self.kind == Kind::Result).then(|| self.body()).flatten()
    }

    /// What the result says it is: seen when the message was read, and not looked for again.
    pub(crate) fn result_type(&self) -> ResultType {
        self.result_type.clone().map_or(ResultType::Complete, |span| ResultType::read(&self.text[span]))
    }

    /// As [`Envelope::result`], for whoever needs nothing else of the message.
    pub(crate) fn into_result(mut self) -> Option<Raw> {
        let span = self.body.filter(|_| self.kind == Kind::Result)?;
        self.text.truncate(span.end);
        self.text.advance(span.start);
        Some(Raw::checked(self.text))
    }

    /// `error`, of a bad one.
    pub fn error(&self) -> Option<RpcError> {
        (self.kind == Kind::Error).then(|| self.body()).flatten().map(RpcError::from_raw)
    }

    fn body(&self) -> Option<Raw> {
        self.body.clone().map(|span| Raw::checked(self.text.slice(span)))
    }
}

/// The method, where it is one of most requests; then it needs neither a copy nor an encoding.
pub(crate) fn usual_method(method: &[u8]) -> Option<&'static str> {
    const USUAL: [&str; 4] = ["tools/call", "resources/read", "prompts/get", "tools/list"];
    USUAL.into_iter().find(|usual| usual.as_bytes() == method)
}

const PARAMS: &[u8] = b"\"params\"";
/// What is looked into while a message is read.
const OPENED: [Opened<'_>; 2] = [Opened(PARAMS, &[META, strict::ARGUMENTS]), Opened(b"\"result\"", &[])];

/// Where the members of one message stand, while they are being found.
#[derive(Default)]
struct Parts {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    /// What was seen inside `params`.
    inside: Option<Box<Inside>>,
    /// `resultType`, where it stands in `result`.
    result_type: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    twice: Option<&'static str>,
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
        let (mut scanner, mut looking) = (Scanner::new(text, depth), None);
        scanner.members_with(&OPENED, |found| match found.level {
            Level::Outer => {
                let Found { key, value, .. } = found;
                if &text[key.clone()] == PARAMS && text[value.start] == b'{' {
                    looking.get_or_insert_with(|| Looking::new(text));
                }
                self.take(&text[key], value);
            }
            Level::Inner(1) => self.take_of_result(text, found),
            Level::Inner(_) | Level::Innermost(_) => looking.get_or_insert_with(|| Looking::new(text)).take(found),
        })?;
        scanner.end()?;
        self.inside = looking.map(|looking| Box::new(looking.seen()));
        Ok(())
    }

    fn take_of_result(&mut self, text: &[u8], Found { key, plain, value, .. }: Found) {
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
            self.twice = Some(name);
        }
    }

    fn into_envelope(self, text: Bytes) -> Result<Envelope, BadMessage> {
        let id = self.id_in(&text);
        let kind = match self.judge(&text, id.as_ref()) {
            Ok(kind) => kind,
            Err(problem) => return Err(self.into_bad(&text, problem)),
        };
        let body = match kind {
            Kind::Request | Kind::Notification => self.params,
            Kind::Result => self.result,
            Kind::Error => self.error,
        };
        let method = self.method.map(|span| span.start + 1..span.end - 1);
        let usual = method.clone().and_then(|span| usual_method(&text[span]));
        let inside = self.inside.filter(|_| matches!(kind, Kind::Request | Kind::Notification));
        let result_type = self.result_type.filter(|_| kind == Kind::Result);
        Ok(Envelope { text, kind, id, method, usual, body, inside, result_type })
    }

    /// Which kind the members add up to; `id` is the one they hold, where it is one.
    fn judge(&self, text: &Bytes, id: Option<&Id>) -> Result<Kind, Problem> {
        if let Some(key) = self.twice {
            return Err(RequestProblem::Twice { key: key.to_owned(), place: "the message" }.into());
        }
        let kind = match (&self.method, &self.result, &self.error, &self.id) {
            (Some(_), None, None, Some(_)) => Kind::Request,
            (Some(_), None, None, None) => Kind::Notification,
            (None, Some(_), None, _) => Kind::Result,
            (None, None, Some(_), _) => Kind::Error,
            // Some servers send `"error": null` beside a result, or the reverse; one of the two is meant.
            (None, Some(result), Some(error), _)
                if &text[error.clone()] == b"null" && &text[result.clone()] != b"null" =>
            {
                Kind::Result
            }
            (None, Some(result), Some(_), _) if &text[result.clone()] == b"null" => Kind::Error,
            _ => return Err(Problem::NoKind),
        };
        if let Some(span) = &self.method {
            let literal = &text[span.clone()];
            if literal.first() != Some(&b'"') || literal.contains(&b'\\') {
                return Err(Problem::BadMethod);
            }
        }
        let id_is_null = self.id.as_ref().is_some_and(|span| &text[span.clone()] == b"null");
        if self.id.is_some() && id.is_none() && (kind == Kind::Request || !id_is_null) {
            return Err(Problem::BadId);
        }
        if kind == Kind::Request
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
