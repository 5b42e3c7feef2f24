//! Model vendors on their real wire: an HTTP server on loopback that streams answers as the vendor does, records the
//! requests, refuses those that break the vendor's documented rules, and has faults on demand.
//!
//! | part | file |
//! |---|---|
//! | what to answer, and the faults | `vendor/reply.rs` |
//! | an answer as the events of each wire | `vendor/{anthropic,openai,openai_chat,gemini}.rs` |
//! | events as bytes of HTTP | `vendor/stream.rs` |
//! | the rules for requests | `vendor/check.rs` |
//! | the list of models | `vendor/models.rs` |
//! | what reasoning models of Chat Completions expect back | `vendor/memory.rs` |
//!
//! ```no_run
//! # use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};
//! # async fn story() -> std::io::Result<()> {
//! let replies = vec![
//!     Reply::new().call("c1", "demo__echo", serde_json::json!({ "text": "hi" })),
//!     Reply::text("It says hi."),
//! ];
//! let vendor = MockVendor::start(VendorKind::Anthropic, replies).await?;
//! // Configure a model with `vendor.base_url()` and any key, run it, then look at:
//! assert_eq!(vendor.requests().len(), 2);
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod check;
mod gemini;
mod memory;
mod models;
mod openai;
mod openai_chat;
mod reply;
mod stream;

use std::{collections::VecDeque, io};

use parking_lot::Mutex;
use serde_json::{Value, json};

pub use reply::{Fault, Stop, Tokens, VendorReply as Reply, VendorReply};

use memory::Memory;

use crate::odd::http::{OddHttp, RecordedRequest, Reply as HttpReply};

/// The wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorKind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions; also answers `GET /api/tags` as Ollama does, with [`OLLAMA_MODEL`] as the newest.
    OpenaiChat,
    /// Gemini `streamGenerateContent`.
    Gemini,
}

/// A vendor on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct MockVendor {
    kind: VendorKind,
    http: OddHttp,
}

/// Model that the mock of Ollama lists.
pub const OLLAMA_MODEL: &str = "llama3.2:latest";

impl MockVendor {
    /// Starts a vendor that answers the n-th valid request with the n-th reply, and further ones with 400.
    pub async fn start(kind: VendorKind, replies: Vec<Reply>) -> io::Result<Self> {
        let state = Mutex::new(State { replies: VecDeque::from(replies), memory: Memory::default() });
        let http = OddHttp::start(move |request| answer(kind, request, &mut state.lock())).await?;
        Ok(Self { kind, http })
    }

    /// The wire it speaks.
    pub fn kind(&self) -> VendorKind {
        self.kind
    }

    /// Base URL as the vendor's own SDK takes it.
    pub fn base_url(&self) -> String {
        match self.kind {
            VendorKind::Openai | VendorKind::OpenaiChat => format!("http://{}/v1", self.authority()),
            VendorKind::Anthropic | VendorKind::Gemini => format!("http://{}", self.authority()),
        }
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.http.authority()
    }

    /// All requests so far, refused ones included.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.http.seen()
    }

    /// Number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.http.connections()
    }

    /// Waits until this many requests have arrived.
    pub async fn until_requests(&self, count: usize) {
        self.http.until(|seen| count <= seen.len()).await;
    }

    /// Waits until the clients have closed their connections.
    pub async fn until_closed(&self) {
        self.http.until_open(0).await;
    }
}

struct State {
    replies: VecDeque<Reply>,
    memory: Memory,
}

fn answer(kind: VendorKind, request: &RecordedRequest, state: &mut State) -> HttpReply {
    if kind == VendorKind::OpenaiChat && request.verb == "GET" && request.path == "/api/tags" {
        return HttpReply::json(200, &models::tags());
    }
    if request.verb == "GET" && models::is_list(kind, request) {
        return match check::key(kind, request) {
            Ok(()) => HttpReply::json(200, &models::list(kind)),
            Err((status, message)) => HttpReply::json(status, &kind.error(status, &message)),
        };
    }
    let checked = check::request(kind, request).and_then(|()| state.memory.check(request.message()));
    if let Err((status, message)) = checked {
        return HttpReply::json(status, &kind.error(status, &message));
    }
    match state.replies.pop_front() {
        Some(reply) => {
            if kind == VendorKind::OpenaiChat {
                state.memory.keep(&reply);
            }
            stream::http_reply(kind, reply)
        }
        None => HttpReply::json(400, &kind.error(400, "the mock vendor has no reply left")),
    }
}

impl VendorKind {
    /// All wires.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::OpenaiChat, Self::Gemini];

    /// The word in the configuration (`models.<name>.vendor`).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::OpenaiChat => "openai-chat",
            Self::Gemini => "gemini",
        }
    }

    /// The newest model for general use in the list of the mock.
    pub fn newest_model(self) -> &'static str {
        models::newest(self)
    }

    /// The body of an error, as the vendor writes it.
    pub fn error(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => {
                let word = match status {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    500.. => "api_error",
                    _ => "invalid_request_error",
                };
                let error = json!({ "type": word, "message": message });
                json!({ "type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy" })
            }
            Self::Openai | Self::OpenaiChat => {
                let (kind, code) = match status {
                    401 => ("invalid_request_error", json!("invalid_api_key")),
                    429 => ("requests", json!("rate_limit_exceeded")),
                    500.. => ("server_error", Value::Null),
                    _ => ("invalid_request_error", Value::Null),
                };
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
            Self::Gemini => {
                let word = match status {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    503 => "UNAVAILABLE",
                    500.. => "INTERNAL",
                    _ => "INVALID_ARGUMENT",
                };
                json!({ "error": { "code": status, "message": message, "status": word } })
            }
        }
    }
}
