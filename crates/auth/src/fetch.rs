//! The one way to authorization servers and metadata, as a port.
//!
//! Whoever implements it is the guarded dialer: it checks the scheme and each resolved address, follows redirects within
//! the origin only and never from https to http, and bounds size and time. Nothing in this crate dials by itself.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use url::Url;

use crate::address;

/// Fetches documents and tokens.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Sends a request with an absolute address; the whole reply, whatever its status.
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>>;
}

/// Why nothing came back. Addresses in it are without query and user part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It may not be dialled, and why.
    #[error("{target} is not dialled: {reason}")]
    Refused {
        /// The address.
        target: String,
        /// A sentence.
        reason: String,
    },
    /// It cannot be reached.
    #[error("cannot reach {target}: {reason}")]
    Unreachable {
        /// The address.
        target: String,
        /// A sentence.
        reason: String,
    },
    /// It said more than is read.
    #[error("{target} answers with more than {limit} bytes")]
    TooLarge {
        /// The address.
        target: String,
        /// The bound.
        limit: usize,
    },
    /// It is there, and cannot do it at the moment.
    #[error("{target} cannot answer at the moment (HTTP {status})")]
    Unavailable {
        /// The address.
        target: String,
        /// What it answered.
        status: u16,
    },
    /// It took too long.
    #[error("{target} does not answer in time")]
    TimedOut {
        /// The address.
        target: String,
    },
}

impl FetchError {
    /// What an answer with this status means, where it is about the moment and not about what was asked.
    pub(crate) fn unavailable(target: &Url, status: StatusCode) -> Option<Self> {
        let is_passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        is_passing.then(|| Self::Unavailable { target: address::shown(target), status: status.as_u16() })
    }

    /// Whether it may be different in a while, without anybody doing anything.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Unavailable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { .. } | Self::TooLarge { .. } => false,
        }
    }
}
