//! Port for requests to authorization servers and metadata documents.
//!
//! The implementation is the guarded dialer: it checks the scheme and each resolved address, follows redirects within
//! the origin only and never from https to http, and limits size and time. Nothing else in this crate opens
//! connections.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use url::Url;

use crate::address;

/// Sends requests for documents and tokens.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Sends a request with an absolute URL and returns the whole response, whatever its status.
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>>;
}

/// Why there is no response. URLs are shown without query and user information.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The dialer refuses this URL.
    #[error("request to `{target}` refused: {reason}")]
    Refused {
        /// Requested URL.
        target: String,
        /// Reason of the refusal.
        reason: String,
    },
    /// The connection failed.
    #[error("cannot reach `{target}`: {reason}")]
    Unreachable {
        /// Requested URL.
        target: String,
        /// Reason of the failure.
        reason: String,
    },
    /// The response is too large.
    #[error("the response of `{target}` exceeds {limit} bytes")]
    TooLarge {
        /// Requested URL.
        target: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The host answered with a temporary error.
    #[error("`{target}` is temporarily unavailable (HTTP {status})")]
    Unavailable {
        /// Requested URL.
        target: String,
        /// HTTP status.
        status: u16,
    },
    /// No response came within the time limit.
    #[error("request to `{target}` timed out")]
    TimedOut {
        /// Requested URL.
        target: String,
    },
}

impl FetchError {
    /// The error for a status that denotes a temporary failure, `None` for other statuses.
    pub(crate) fn unavailable(target: &Url, status: StatusCode) -> Option<Self> {
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        is_passing.then(|| Self::Unavailable { target: address::redacted(target), status: status.as_u16() })
    }

    /// Whether a later attempt may succeed without any change.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Unavailable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { .. } | Self::TooLarge { .. } => false,
        }
    }
}
