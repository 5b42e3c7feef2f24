//! What a mock vendor answers to one request: an answer of the model in neutral terms, or an error; with at most one fault.

use std::time::Duration;

use serde_json::Value;

/// One reply.
#[derive(Clone, Debug)]
pub struct VendorReply {
    pub(super) body: Body,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// An answer of the model.
    Answer(Answer),
    /// An error in the vendor's JSON.
    Refusal { status: u16, message: String, headers: Vec<(String, String)>, retry_info: Option<Duration> },
    /// Any status and body.
    Whole { status: u16, kind: String, body: Vec<u8> },
    /// An event stream of this text, byte for byte.
    Stream(String),
    /// The connection is closed without an answer.
    Closed,
}

/// An answer of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) tokens: Tokens,
    pub(super) stop: Stop,
    /// Signature of the first call on the wire Chat Completions.
    pub(super) signature: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Reasoning(String),
    Text(String),
    Call { id: String, name: String, arguments: Value },
}

/// Tokens that the vendor reports, in its own wording per wire.
#[derive(Clone, Copy, Debug)]
pub struct Tokens {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Tokens of the request that came from the cache.
    pub cached: u64,
    /// Tokens of the request that were written to the cache; only Anthropic reports them.
    pub cache_write: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Tokens of the answer that were reasoning; Anthropic does not report them.
    pub reasoning: u64,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// It is done, or wants results of its calls.
    #[default]
    Done,
    /// The limit of output tokens.
    Length,
    /// The safety filter.
    Refusal,
}

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Lines end with CR LF, and every byte is an HTTP chunk of its own.
    SplitCrlf,
    /// An error event after the first half.
    ErrorInTheMiddle,
    /// The body ends properly after the first half.
    CutBody,
    /// The connection is closed after the first half.
    CutConnection,
    /// All events but the last one, which marks the end.
    NoLastEvent,
    /// Nothing more comes after the first half; the connection stays open.
    Hang,
    /// Blocks and events that no documentation names.
    Unknown,
    /// Text without end.
    EndlessText,
    /// One event without end.
    EndlessEvent,
    /// An event whose data is not JSON, after the first half.
    NotJson,
    /// Chat Completions: deltas of tool calls without `index`.
    MissingIndex,
    /// Chat Completions: index 0 in all deltas of tool calls.
    ConstantIndex,
    /// Chat Completions: indices 1, 3, 5 …
    GappedIndex,
    /// Chat Completions: the id in every delta of a call, without `index`.
    RepeatedId,
    /// Chat Completions: no ids; each call in one delta with index 0.
    MissingId,
    /// Chat Completions: no ids and no indices, arguments as objects.
    ObjectArguments,
    /// Chat Completions: another id in every delta, with a correct index.
    ChangingId,
    /// Chat Completions: the name comes after the id, in a delta of its own.
    LateName,
    /// Chat Completions: deltas of parallel calls alternate.
    Interleaved,
    /// Chat Completions: `finish_reason` is `stop` in spite of calls.
    WrongReason,
    /// Chat Completions: no `finish_reason`; `[DONE]` alone ends the answer.
    NoReason,
}

impl Default for VendorReply {
    fn default() -> Self {
        Self { body: Body::Answer(Answer::default()), fault: None }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self { input: 120, cached: 100, cache_write: 0, output: 30, reasoning: 12 }
    }
}

impl VendorReply {
    /// An answer without contents.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer of text.
    pub fn text(text: &str) -> Self {
        Self::new().say(text)
    }

    /// Adds text.
    #[must_use]
    pub fn say(self, text: &str) -> Self {
        self.with(|answer| answer.pieces.push(Piece::Text(text.to_owned())))
    }

    /// Adds reasoning, with a signature where the vendor has one.
    #[must_use]
    pub fn reason(self, text: &str) -> Self {
        self.with(|answer| answer.pieces.push(Piece::Reasoning(text.to_owned())))
    }

    /// Adds a tool call. Gemini sends no id.
    #[must_use]
    pub fn call(self, id: &str, name: &str, arguments: Value) -> Self {
        let (id, name) = (id.to_owned(), name.to_owned());
        self.with(|answer| answer.pieces.push(Piece::Call { id, name, arguments }))
    }

    /// Chat Completions: adds `extra_content` with this signature to the first call, as Gemini's compatible endpoint
    /// does.
    #[must_use]
    pub fn sign(self, signature: &str) -> Self {
        self.with(|answer| answer.signature = Some(signature.to_owned()))
    }

    /// Sets the reported tokens.
    #[must_use]
    pub fn tokens(self, tokens: Tokens) -> Self {
        self.with(|answer| answer.tokens = tokens)
    }

    /// Sets the reason to stop.
    #[must_use]
    pub fn stop(self, stop: Stop) -> Self {
        self.with(|answer| answer.stop = stop)
    }

    /// Sets the fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// An error in the vendor's JSON.
    pub fn refusal(status: u16, message: &str) -> Self {
        let (message, headers) = (message.to_owned(), Vec::new());
        Self { body: Body::Refusal { status, message, headers, retry_info: None }, fault: None }
    }

    /// 429 with `retry-after` in seconds; Gemini says it in the body (`RetryInfo`).
    pub fn rate_limited(seconds: u64) -> Self {
        let mut reply = Self::refusal(429, "Rate limit reached for requests");
        if let Body::Refusal { retry_info, .. } = &mut reply.body {
            *retry_info = Some(Duration::from_secs(seconds));
        }
        reply
    }

    /// Adds a header to an error.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Body::Refusal { headers, .. } = &mut self.body {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Any status and body.
    pub fn whole(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Whole { status, kind: kind.to_owned(), body: body.into() }, fault: None }
    }

    /// An error body of this many bytes.
    pub fn huge_error(status: u16, bytes: usize) -> Self {
        Self::whole(status, "text/html", vec![b'x'; bytes])
    }

    /// An event stream of this text, byte for byte.
    pub fn stream(text: &str) -> Self {
        Self { body: Body::Stream(text.to_owned()), fault: None }
    }

    /// The connection is closed without an answer.
    pub fn closed() -> Self {
        Self { body: Body::Closed, fault: None }
    }

    fn with(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Body::Answer(answer) = &mut self.body {
            change(answer);
        }
        self
    }
}

impl Answer {
    pub(super) fn has_calls(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }))
    }
}
