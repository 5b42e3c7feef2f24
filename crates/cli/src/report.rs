//! Why a command failed, in words for people and in one object for programs.

use std::{fmt::Write as _, time::Duration};

use serde_json::json;
use toolway_config::ConfigError;
use toolway_host::{
    call::{CallError, CallOutcome},
    policy::Refusal,
};
use toolway_wire::{error::WireError, json::Raw, message::RpcError};

use crate::exit_code::ExitCode;

/// A failure: its exit code, a stable word, a sentence, and what to do next.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) exit: ExitCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
    /// The server's own error, as it came.
    pub(crate) error: Option<Raw>,
}

impl Report {
    pub(crate) fn new(exit: ExitCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), hints: Vec::new(), error: None }
    }

    /// The command line is wrong.
    pub(crate) fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, code, message)
    }

    /// The person at the keyboard stopped it.
    pub(crate) fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "interrupted", "Interrupted.")
    }

    /// `--timeout` ran out.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        let message = format!("There was no answer within {limit:?} (--timeout).");
        Self::new(ExitCode::Unreachable, "timed_out", message)
    }

    /// The tool says it failed; its result has been shown.
    pub(crate) fn tool_error(tool: &str) -> Self {
        Self::new(ExitCode::ToolError, "tool_error", format!("The tool `{tool}` says that it failed."))
    }

    /// The server wants something of a person first.
    pub(crate) fn input_required(method: &str) -> Self {
        let message = format!("The server asks something first (`{method}`), and nobody is there to answer.");
        Self::new(ExitCode::InputRequired, "input_required", message)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// A failure on the way to a server, by its stable word.
    pub(crate) fn of_code(code: &'static str, message: &str) -> Self {
        let (exit, code) = match code {
            "config" => (ExitCode::Usage, code),
            "unauthorized" => (ExitCode::Authorization, code),
            "vault" => (ExitCode::Internal, code),
            "unreachable" | "no_token" | "timed_out" | "ended" | "http_status" | "redirect" | "overloaded" => {
                (ExitCode::Unreachable, code)
            }
            "handshake" => (ExitCode::Protocol, "rpc_error"),
            _ => (ExitCode::Protocol, code),
        };
        Self::new(exit, code, sentence(message))
    }

    /// What is kept cannot be read, or nothing can be kept.
    pub(crate) fn vault(problem: &impl ToString) -> Self {
        Self::of_code("vault", &problem.to_string())
    }

    /// A call that was not sent.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        let exit = match refusal {
            Refusal::FilteredOut { .. }
            | Refusal::Denied { .. }
            | Refusal::Declined { .. }
            | Refusal::NobodyToAsk(_) => ExitCode::Denied,
            Refusal::Busy { .. } | Refusal::TooMany { .. } | Refusal::Changed(_) => ExitCode::Unreachable,
            Refusal::ShuttingDown => ExitCode::Internal,
            Refusal::Unknown { .. } | Refusal::UnknownServer(_) | Refusal::Disabled(_) | Refusal::Malformed(_) => {
                ExitCode::Usage
            }
        };
        Self::new(exit, refusal.code(), sentence(&refusal.to_string()))
    }

    /// A JSON-RPC error.
    pub(crate) fn of_rpc(error: &RpcError, method: &str) -> Self {
        let report = match error.code() {
            RpcError::MISSING_CAPABILITY | RpcError::URL_ELICITATION_REQUIRED => {
                Self::input_required(method).hint(format!("It said: {error}"))
            }
            _ => {
                let message = format!("The server answered `{method}` with an error: {error}");
                Self::new(ExitCode::Protocol, "rpc_error", message)
            }
        };
        Self { error: Some(error.raw().clone()), ..report }
    }

    /// The end of a call that gave no result.
    pub(crate) fn of_outcome(outcome: &CallOutcome, method: &str) -> Self {
        match outcome {
            CallOutcome::Refused(refusal) => Self::of_refusal(refusal),
            CallOutcome::Failed(CallError::Server(error)) => Self::of_rpc(error, method),
            CallOutcome::Failed(error) => Self::of_code(error.code(), &error.to_string()),
            CallOutcome::TimedOut { clock, limit } => {
                let error = WireError::TimedOut { clock: *clock, limit: *limit };
                Self::of_code(error.code(), &error.to_string())
            }
            CallOutcome::Cancelled => {
                Self::new(ExitCode::Unreachable, "cancelled", format!("The server gave `{method}` up."))
            }
            CallOutcome::HandedOff(task) => {
                let message =
                    format!("The server goes on with a task (`{}`), which this version cannot follow.", task.id);
                Self { error: Some(task.raw.clone()), ..Self::new(ExitCode::Protocol, "task", message) }
            }
            CallOutcome::Answered(_) => Self::new(ExitCode::Internal, "internal", "An answer was taken for a failure."),
        }
    }

    /// For people: a sentence, then what to do.
    pub(crate) fn for_people(&self) -> String {
        let mut text = format!("toolway: {}", self.message);
        for hint in &self.hints {
            // Writing to a string cannot fail.
            let _written = write!(text, "\n{hint}");
        }
        text
    }

    /// For programs: one object on one line.
    pub(crate) fn for_programs(&self) -> String {
        let mut error = json!({ "code": self.code, "exit": self.exit.number(), "message": self.message });
        if !self.hints.is_empty() {
            error["hint"] = json!(self.hints.join("\n"));
        }
        if let Some(raw) = self.error.as_ref().and_then(|raw| raw.read::<serde_json::Value>().ok()) {
            error["error"] = raw;
        }
        json!({ "error": error }).to_string()
    }
}

impl From<ConfigError> for Report {
    fn from(error: ConfigError) -> Self {
        Self::usage("config", sentence(&error.to_string()))
    }
}

/// A fragment as a sentence: capital letter, full stop. A path keeps its letter.
pub(crate) fn sentence(fragment: &str) -> String {
    let mut letters = fragment.chars();
    let Some(first) = letters.next() else { return String::new() };
    let rest = letters.as_str();
    let stop = if fragment.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    format!("{}{rest}{stop}", first.to_uppercase())
}
