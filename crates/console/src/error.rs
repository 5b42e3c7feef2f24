//! Errors of the API: a status, a stable code, a message and a hint.

use http::StatusCode;
use serde_json::{Map, Value, json};
use toolway_host::{HostError, call::CallOutcome, record::RecordsError};
use toolway_wire::budget::OverBudget;

use crate::turns::NotStarted;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
    /// Problems of a form by field.
    fields: Option<Map<String, Value>>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, fields: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub(crate) fn signed_out() -> Self {
        let error = Self::new(StatusCode::UNAUTHORIZED, "signed_out", "you are not signed in to the console");
        error.hint("run `toolway console` and open the link that it prints")
    }

    pub(crate) fn unknown_conversation() -> Self {
        Self::not_found("unknown conversation")
    }

    pub(crate) fn no_store() -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_store", "nothing is recorded in this run");
        error.hint("the store could not be opened; see the log of `toolway serve`")
    }

    /// Why something that was asked of a server did not succeed.
    pub(crate) fn of_outcome(outcome: &CallOutcome) -> Self {
        let message =
            outcome.message().map_or_else(|| "it did not succeed".to_owned(), |text| text.as_str().to_owned());
        match outcome {
            CallOutcome::Refused(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", message),
            _ => Self::new(StatusCode::BAD_GATEWAY, "failed", message),
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub(crate) fn fields(mut self, fields: Map<String, Value>) -> Self {
        self.fields = Some(fields);
        self
    }

    pub(crate) fn json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        match &self.fields {
            Some(fields) => json!({ "error": error, "fields": fields }),
            None => json!({ "error": error }),
        }
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        match &error {
            HostError::UnknownServer(_) => Self::not_found(error.to_string()),
            HostError::Disabled(_) | HostError::NameTaken { .. } | HostError::DefinedTwice(_) => {
                Self::conflict(error.to_string())
            }
            HostError::ShutDown => Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", error.to_string()),
        }
    }
}

impl From<OverBudget> for ApiError {
    fn from(error: OverBudget) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "over_budget", error.to_string())
    }
}

impl From<NotStarted> for ApiError {
    fn from(why: NotStarted) -> Self {
        match why {
            NotStarted::Busy => Self::conflict("the model is still answering in this conversation")
                .hint("wait for the answer, or cancel it"),
            NotStarted::TooMany => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_turns", "too many conversations are running")
            }
            NotStarted::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the console is shutting down")
            }
            NotStarted::OverBudget(error) => error.into(),
        }
    }
}

impl From<RecordsError> for ApiError {
    fn from(error: RecordsError) -> Self {
        tracing::error!(%error, "the console cannot read the store");
        let message = format!("the store cannot be read: {error}");
        match error {
            RecordsError::Busy(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_busy", message),
            RecordsError::Closed => Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message),
            RecordsError::Newer(_)
            | RecordsError::Full(_)
            | RecordsError::Invalid(_)
            | RecordsError::NotOwned(_)
            | RecordsError::Unavailable(_) => Self::internal(message),
            RecordsError::Continued => Self::conflict(message),
        }
    }
}
