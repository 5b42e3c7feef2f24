//! Why a server could not be connected, with its messages for the operator and its stable code. [`super::dial`] connects.

use std::time::Duration;

use toolway_wire::error::WireError;

use super::response_text;
use crate::whose_move::WhoseMove;

/// Why a server could not be connected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DialError {
    /// The entry is invalid: an unset variable, an invalid URL.
    #[error("{0}")]
    Configuration(String),
    /// Start and handshake took longer than the connect timeout.
    #[error("no answer to the handshake within {0:?} (connect timeout)")]
    Timeout(Duration),
    /// Connect timeout, and the program printed non-MCP text on stdout.
    #[error(
        "no answer to the handshake within {limit:?} (connect timeout); the server printed non-MCP text on stdout: \
         \"{stray}\" (logs belong on stderr)"
    )]
    NonMcpOutput {
        /// The connect timeout.
        limit: Duration,
        /// Beginning of the text, escaped.
        stray: String,
    },
    /// The URL is reachable, but is not an MCP endpoint.
    #[error("not an MCP endpoint ({answer}); check the path of the URL (often `/mcp`)")]
    NotAnEndpoint {
        /// What it answers: an HTTP status or a page.
        answer: String,
    },
    /// The server refused the configured credential.
    #[error("the server refused the configured `{header}` header (HTTP {status})")]
    CredentialRefused {
        /// Name of the header with the credential.
        header: String,
        /// HTTP status: 401 or 403.
        status: u16,
        /// Start of the response body, for the operator.
        said: String,
    },
    /// The server requires sign-in.
    #[error("sign-in required{}", how.as_ref().map(|how| format!(": {how}")).unwrap_or_default())]
    SignInRequired {
        /// The `WWW-Authenticate` challenges of the server.
        challenges: Vec<String>,
        /// What to do, if known.
        how: Option<String>,
        /// Start of the response body, for the operator.
        said: String,
    },
    /// The authorization server issues no access token for a grant without a user.
    #[error("cannot get an access token: {0}")]
    NoToken(String),
    /// Any other error of the connection.
    #[error("{0}")]
    Wire(WireError),
}

// === impl DialError ===

impl DialError {
    /// Converts an error of the connection: `credential` is the header with the configured credential, `how` the sign-in hint.
    pub(super) fn of(error: WireError, credential: Option<String>, how: Option<String>) -> Self {
        match (error, credential) {
            (WireError::Unauthorized { status, body, .. }, Some(header)) => {
                Self::CredentialRefused { header, status: status.as_u16(), said: body }
            }
            (WireError::Unauthorized { challenges, body, .. }, None) => {
                Self::SignInRequired { challenges, how, said: body }
            }
            (other, _) => match response_text::not_of_an_endpoint(&other) {
                Some(answer) => Self::NotAnEndpoint { answer },
                None => Self::Wire(other),
            },
        }
    }

    /// The message for the operator, with the start of a response that refused a credential.
    pub fn for_operator(&self) -> String {
        match self {
            Self::SignInRequired { said, .. } | Self::CredentialRefused { said, .. } => {
                match response_text::one_line(said) {
                    line if line.is_empty() => self.to_string(),
                    line => format!("{self}; the server said: {line}"),
                }
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn panicked() -> Self {
        Self::Configuration("the transport panicked".to_owned())
    }

    /// Whether the error concerns the sign-in, not the server.
    pub(super) fn concerns_sign_in(&self) -> bool {
        matches!(self, Self::SignInRequired { .. } | Self::Wire(WireError::NoToken(_) | WireError::Vault(_)))
    }

    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Configuration(_) => "config",
            Self::Timeout(_) | Self::NonMcpOutput { .. } => "timed_out",
            Self::NotAnEndpoint { .. } => "http_status",
            Self::CredentialRefused { .. } | Self::SignInRequired { .. } | Self::NoToken(_) => "unauthorized",
            Self::Wire(error) => error.code(),
        }
    }

    /// Which party can resolve it.
    pub fn whose_move(&self) -> WhoseMove {
        match self {
            Self::Configuration(_) | Self::CredentialRefused { .. } | Self::NotAnEndpoint { .. } | Self::NoToken(_) => {
                WhoseMove::Operator
            }
            Self::Timeout(_) | Self::NonMcpOutput { .. } => WhoseMove::Supervisor,
            Self::SignInRequired { .. } => WhoseMove::User,
            Self::Wire(error) => WhoseMove::after(error),
        }
    }
}
