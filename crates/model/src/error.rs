//! Why a model gave no answer, in terms that a caller can act on.

use std::time::Duration;

/// An error of a model or of the way to it. Messages contain no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model `{model}`: {kind}{}", vendor_message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
pub struct ModelError {
    /// Name of the model in the configuration.
    pub model: String,
    /// What kind of error it is.
    pub kind: ModelErrorKind,
    /// The vendor's own message, bounded and without control characters.
    pub vendor_message: Option<String>,
    /// How long the vendor asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
}

/// Kinds of errors, by what a caller can do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelErrorKind {
    /// The vendor cannot be reached: DNS, connection, TLS, timeout.
    #[error("cannot reach `{url}`")]
    Unreachable {
        /// URL without query.
        url: String,
    },
    /// The key is missing, invalid or lacks a permission.
    #[error("the vendor refused the key{}", http(status))]
    Unauthorized {
        /// 401, 403 or 400; 0 if the key cannot be sent or the error came inside a stream.
        status: u16,
    },
    /// Too many requests or tokens.
    #[error("rate limit reached")]
    RateLimited,
    /// The vendor is overloaded or failed.
    #[error("the vendor is unavailable{}", http(status))]
    Unavailable {
        /// 5xx, or 0 if the error came inside a stream.
        status: u16,
    },
    /// The vendor refused the request itself.
    #[error("the vendor refused the request{}", http(status))]
    InvalidRequest {
        /// 4xx, or 0 if the error came inside a stream.
        status: u16,
    },
    /// The conversation does not fit into the context window.
    #[error("the conversation exceeds the context window")]
    ContextExceeded,
    /// The stream ended before the answer was complete.
    #[error("the stream ended before the answer was complete")]
    Cut,
    /// The answer cannot be understood.
    #[error("invalid answer: {0}")]
    InvalidAnswer(String),
    /// A script does not continue as the conversation does.
    #[error("script: {0}")]
    Script(String),
}

impl ModelError {
    /// An error without a message of the vendor.
    pub fn new(model: impl Into<String>, kind: ModelErrorKind) -> Self {
        Self { model: model.into(), kind, vendor_message: None, retry_after: None }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ModelErrorKind::Unreachable { .. }
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Unavailable { .. }
            | ModelErrorKind::Cut => true,
            ModelErrorKind::Unauthorized { .. }
            | ModelErrorKind::InvalidRequest { .. }
            | ModelErrorKind::ContextExceeded
            | ModelErrorKind::InvalidAnswer(_)
            | ModelErrorKind::Script(_) => false,
        }
    }
}

/// The status, unless the error has none.
fn http(status: &u16) -> String {
    if *status == 0 { String::new() } else { format!(" (HTTP {status})") }
}
