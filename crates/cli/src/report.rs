//! The failure of a command: text for a terminal, one JSON object for programs.
//!
//! Messages start in lower case and have no final full stop, so that they can be chained.

use std::{fmt::Write as _, time::Duration};

use serde_json::json;
use toolway_config::ConfigError;
use toolway_host::{
    call::{CallError, CallOutcome},
    policy::Refusal,
    record::Delivery,
};
use toolway_wire::{error::WireError, json::Raw, message::RpcError};

use crate::exit_code::ExitCode;

/// Failure of a command.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) exit: ExitCode,
    /// Stable error code for programs.
    pub(crate) code: &'static str,
    /// What failed and why.
    pub(crate) message: String,
    /// What is printed below the message.
    pub(crate) notes: Vec<Note>,
    /// The server's JSON-RPC error, unchanged.
    pub(crate) error: Option<Raw>,
    /// Whether the call was sent and answered; `None` if it is not about a call.
    pub(crate) outcome: Option<Delivery>,
}

/// Text below the message of a report.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// Further text that belongs to the message.
    Detail(String),
    /// What to do next.
    Hint(String),
}

impl Report {
    pub(crate) fn new(exit: ExitCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), notes: Vec::new(), error: None, outcome: None }
    }

    /// The command line or the configuration is invalid.
    pub(crate) fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, code, message)
    }

    /// Interrupted with Ctrl-C.
    pub(crate) fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "interrupted", "interrupted")
    }

    /// The `--timeout` of the command expired.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        let message = format!("no response within {limit:?} (--timeout)");
        Self::new(ExitCode::Unreachable, "timed_out", message)
    }

    /// The tool returned an error result, which is already printed.
    pub(crate) fn tool_error(tool: &str) -> Self {
        Self::new(ExitCode::ToolError, "tool_error", format!("tool `{tool}` returned an error"))
    }

    /// During `request` of ours, the server sent a request to its client that this command does not answer. `method` is
    /// that server request, or `request` if it is not known.
    pub(crate) fn input_required(request: &str, method: &str) -> Self {
        let subject = match request {
            "tools/call" => "this tool",
            "prompts/get" => "this prompt",
            "resources/read" => "this resource",
            _ => "the server",
        };
        let needs = match method {
            "elicitation/create" => "user input (elicitation)".to_owned(),
            "sampling/createMessage" => "a model response (sampling)".to_owned(),
            "roots/list" => "the client's roots (`roots/list`)".to_owned(),
            other => format!("user input to answer `{other}`"),
        };
        let remedy = match (request, method) {
            ("tools/call", "elicitation/create") => {
                "; answer it with `--answer field=value`, `--decline` or `--wait`, or run this at a terminal"
            }
            (_, "elicitation/create") => "; run this at a terminal to answer it",
            _ => ", which this command cannot provide",
        };
        Self::new(ExitCode::InputRequired, "input_required", format!("{subject} needs {needs}{remedy}"))
    }

    /// Adds text that is printed below the message, before the hints.
    #[must_use]
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        let first_hint = self.notes.iter().position(|note| matches!(note, Note::Hint(_)));
        self.notes.insert(first_hint.unwrap_or(self.notes.len()), Note::Detail(detail.into()));
        self
    }

    /// Says that the server may have acted on the call, if that is so. Programs read the outcome of every call.
    #[must_use]
    pub(crate) fn of_call(self, delivery: Option<Delivery>) -> Self {
        let unknown = delivery.filter(|delivery| *delivery == Delivery::Unknown);
        let message = unknown.map_or_else(|| self.message.clone(), |unknown| unknown.said_after(&self.message));
        Self { message, outcome: delivery, ..self }
    }

    /// Adds a hint on what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.notes.push(Note::Hint(hint.into()));
        self
    }

    /// A failure to reach a server, by its stable error code.
    pub(crate) fn from_code(code: &'static str, message: &str) -> Self {
        let (exit, code) = match code {
            "config" => (ExitCode::Usage, code),
            "unauthorized" => (ExitCode::Authorization, code),
            "limit_exceeded" => (ExitCode::Denied, code),
            "vault" => (ExitCode::Internal, code),
            "unreachable" | "no_token" | "timed_out" | "ended" | "http_status" | "redirect" | "overloaded" => {
                (ExitCode::Unreachable, code)
            }
            "handshake" => (ExitCode::Protocol, "rpc_error"),
            _ => (ExitCode::Protocol, code),
        };
        Self::new(exit, code, message)
    }

    /// The message with what to do, on one line.
    pub(crate) fn with_advice(&self) -> String {
        let hint = self.notes.iter().find_map(|note| match note {
            Note::Hint(hint) => Some(hint.as_str()),
            Note::Detail(_) => None,
        });
        hint.map_or_else(|| self.message.clone(), |hint| format!("{}; {hint}", self.message))
    }

    /// The credential vault cannot be read or written.
    pub(crate) fn vault(problem: &impl ToString) -> Self {
        Self::from_code("vault", &problem.to_string())
    }

    /// A call that was not sent.
    pub(crate) fn from_refusal(refusal: &Refusal) -> Self {
        let exit = match refusal {
            Refusal::FilteredOut { .. }
            | Refusal::Hidden { .. }
            | Refusal::Denied { .. }
            | Refusal::Declined { .. }
            | Refusal::KeepsChanging(_)
            | Refusal::ApproverUnavailable { .. }
            | Refusal::Repeated(_)
            | Refusal::Limit(_)
            | Refusal::LimitUnknown(_)
            | Refusal::NotRecorded(_) => ExitCode::Denied,
            Refusal::Busy { .. } | Refusal::TooMany { .. } | Refusal::Changed(_) => ExitCode::Unreachable,
            Refusal::ShuttingDown => ExitCode::Internal,
            Refusal::Unknown { .. }
            | Refusal::UnknownServer(_)
            | Refusal::Disabled(_)
            | Refusal::InvalidArguments { .. }
            | Refusal::Malformed(_) => ExitCode::Usage,
        };
        Self::new(exit, refusal.code(), refusal.to_string())
    }

    /// A JSON-RPC error.
    pub(crate) fn from_rpc(error: &RpcError, method: &str) -> Self {
        let report = match error.code() {
            RpcError::MISSING_CAPABILITY | RpcError::URL_ELICITATION_REQUIRED => {
                let server_request = required_request(error).unwrap_or(method);
                Self::input_required(method, server_request).detail(format!("server error: {error}"))
            }
            _ => {
                let message = format!("the server answered `{method}` with an error: {error}");
                Self::new(ExitCode::Protocol, "rpc_error", message)
            }
        };
        Self { error: Some(error.raw().clone()), ..report }
    }

    /// The outcome of a call without a result.
    pub(crate) fn from_outcome(outcome: &CallOutcome, method: &str) -> Self {
        match outcome {
            CallOutcome::Refused(refusal) => Self::from_refusal(refusal),
            CallOutcome::Failed(CallError::Server(error)) => Self::from_rpc(error, method),
            CallOutcome::Failed(error) => Self::from_code(error.code(), error.for_operator().as_str()),
            CallOutcome::TimedOut { kind, limit } => {
                let error = WireError::TimedOut { kind: *kind, limit: *limit };
                Self::from_code(error.code(), &error.to_string())
            }
            CallOutcome::Cancelled => {
                Self::new(ExitCode::Unreachable, "cancelled", format!("the server cancelled `{method}`"))
            }
            CallOutcome::HandedOff(task) => {
                let message = format!("the server returned the task `{}`, which this command does not follow", task.id);
                Self { error: Some(task.raw.clone()), ..Self::new(ExitCode::Protocol, "task", message) }
            }
            CallOutcome::Answered(_) => {
                Self::new(ExitCode::Internal, "internal", "internal error: a result was reported as a failure")
            }
        }
    }

    /// The text for a terminal: message, whether the call was not sent, details, hints.
    pub(crate) fn to_human(&self) -> String {
        let mut text = format!("toolway: {}", self.message);
        if self.outcome == Some(Delivery::NotSent) && !self.message.starts_with("not sent") {
            text.push_str("\nthe call was not sent");
        }
        for note in &self.notes {
            // Writing to a string cannot fail.
            let _written = match note {
                Note::Detail(detail) => write!(text, "\n{detail}"),
                Note::Hint(hint) => write!(text, "\nhint: {hint}"),
            };
        }
        text
    }

    /// The JSON object for programs, on one line.
    pub(crate) fn to_json(&self) -> String {
        let mut error = json!({ "code": self.code, "exit": self.exit.number(), "message": self.message });
        let text = |note: &Note| match note {
            Note::Detail(text) | Note::Hint(text) => text.clone(),
        };
        let hints: Vec<String> = self.notes.iter().map(text).collect();
        if !hints.is_empty() {
            error["hint"] = json!(hints.join("\n"));
        }
        if let Some(outcome) = self.outcome {
            error["outcome"] = json!(outcome.as_str());
        }
        if let Some(raw) = self.error.as_ref().and_then(|raw| raw.read::<serde_json::Value>().ok()) {
            error["error"] = raw;
        }
        json!({ "error": error }).to_string()
    }
}

impl From<ConfigError> for Report {
    fn from(error: ConfigError) -> Self {
        Self::usage("config", error.to_string())
    }
}

/// The server request that a client must answer, according to an error about a missing capability.
fn required_request(error: &RpcError) -> Option<&'static str> {
    if error.code() == RpcError::URL_ELICITATION_REQUIRED {
        return Some("elicitation/create");
    }
    let required = error.raw().get("data")?.get("requiredCapabilities")?;
    let requests =
        [("elicitation", "elicitation/create"), ("sampling", "sampling/createMessage"), ("roots", "roots/list")];
    requests.into_iter().find_map(|(capability, method)| required.get(capability).map(|_| method))
}
