//! Metadata of MCP servers and authorization servers.
//!
//! [`resource`] names the authorization servers of a server, and [`server`] describes an authorization server. Both
//! documents are untrusted: they are fetched from the specified locations in the specified order, and nothing in them
//! is used before the check that binds them to the requested server or issuer.

pub mod resource;
pub mod server;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use url::Url;

pub use self::{resource::ResourceMetadata, server::ServerMetadata};
use crate::{
    address::{self, InvalidUrl},
    fetch::{Fetch, FetchError},
};

/// Why the authorization server is unknown or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The request failed or was refused.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A URL in a document is invalid.
    #[error("`{place}`: {source}")]
    Address {
        /// Location of the document.
        place: String,
        /// What is wrong with the URL.
        source: InvalidUrl,
    },
    /// The server has no protected resource metadata.
    #[error("`{server}` requires sign-in, but has no protected resource metadata at `{}`", tried.join("` or `"))]
    NoResource {
        /// URL of the server.
        server: String,
        /// Locations that were tried.
        tried: Vec<String>,
    },
    /// The protected resource metadata is for another resource.
    #[error("protected resource metadata at `{place}` is for `{resource}`, not for `{server}`")]
    ForeignResource {
        /// Location of the document.
        place: String,
        /// Resource in the document.
        resource: String,
        /// URL of the server.
        server: String,
    },
    /// The authorization server has no metadata.
    #[error("authorization server `{issuer}` has no metadata at `{}`", tried.join("` or `"))]
    NoServer {
        /// Issuer identifier.
        issuer: String,
        /// Locations that were tried.
        tried: Vec<String>,
    },
    /// The metadata names another issuer.
    #[error("metadata at `{place}` names the issuer `{found}` instead of `{issuer}`; it is not used")]
    WrongIssuer {
        /// Location of the document.
        place: String,
        /// Issuer in the document.
        found: String,
        /// Expected issuer.
        issuer: String,
    },
    /// PKCE is not advertised.
    #[error("authorization server `{issuer}` does not advertise PKCE with S256, so sign-in there is refused")]
    NoPkce {
        /// Issuer identifier.
        issuer: String,
    },
    /// The document is invalid.
    #[error("`{place}`: {problem}")]
    Unreadable {
        /// Location of the document.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Maximum length of a document in bytes.
pub const MAX_DOCUMENT: usize = 512 * 1024;
/// Remote names are truncated to this many characters in messages.
const MAX_SHOWN: usize = 200;

/// Fetches a document. `None` for a status other than 200 or a body that is no JSON object; an error if the host is
/// temporarily unavailable.
async fn document(fetch: &dyn Fetch, place: &Url) -> Result<Option<Bytes>, MetadataError> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = place.as_str().parse().map_err(|_| unreadable(place, "the URL is invalid"))?;
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = fetch.fetch(request).await?;
    let body = response.body();
    if MAX_DOCUMENT < body.len() {
        return Err(unreadable(place, format!("the response exceeds {MAX_DOCUMENT} bytes")));
    }
    if let Some(unavailable) = FetchError::unavailable(place, response.status()) {
        return Err(unavailable.into());
    }
    let is_object = || serde_json::from_slice::<serde_json::Map<_, _>>(body).is_ok();
    Ok((response.status() == StatusCode::OK && is_object()).then(|| body.clone()))
}

/// The same, but `None` if the host is temporarily unavailable, because some hosts always answer with such a status.
async fn any_document(fetch: &dyn Fetch, place: &Url) -> Result<Option<Bytes>, MetadataError> {
    match document(fetch, place).await {
        Err(MetadataError::Fetch(FetchError::Unavailable { .. })) => Ok(None),
        found => found,
    }
}

/// The first document that is found; an error if none is found and one of the hosts is temporarily unavailable.
async fn first(fetch: &dyn Fetch, places: &[Url]) -> Result<Option<(Url, Bytes)>, MetadataError> {
    let mut unavailable = None;
    for place in places {
        match document(fetch, place).await {
            Ok(Some(found)) => return Ok(Some((place.clone(), found))),
            Ok(None) => {}
            Err(error @ MetadataError::Fetch(FetchError::Unavailable { .. })) => unavailable = Some(error),
            Err(error) => return Err(error),
        }
    }
    unavailable.map_or(Ok(None), Err)
}

fn parsed<T: DeserializeOwned>(place: &Url, document: &[u8]) -> Result<T, MetadataError> {
    serde_json::from_slice(document).map_err(|error| unreadable(place, format!("invalid metadata: {error}")))
}

fn unreadable(place: &Url, problem: impl Into<String>) -> MetadataError {
    MetadataError::Unreadable { place: address::redacted(place), problem: problem.into() }
}

/// Remote text for a message: one short line.
fn quoted(text: &str) -> String {
    address::sanitize(text, MAX_SHOWN)
}

fn redacted_all(places: &[Url]) -> Vec<String> {
    places.iter().map(address::redacted).collect()
}

/// A URL with the same origin and this path.
fn at_origin(url: &Url, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(path);
    place.set_query(None);
    place.set_fragment(None);
    place
}
