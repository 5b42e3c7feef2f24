//! What servers say about themselves before anybody signs in.
//!
//! [`resource`] says who signs people in to a server, [`server`] how an authorization server does it. Both are documents
//! of strangers: they are looked for in the specified places and order, and nothing of them is used before the one check
//! that binds them to whoever we asked about.

pub mod resource;
pub mod server;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use url::Url;

pub use self::{resource::ResourceMetadata, server::ServerMetadata};
use crate::{
    address::{self, BadAddress},
    fetch::{Fetch, FetchError},
};

/// Why it is not known who signs people in, or how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A place cannot be reached, or may not be.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An address that cannot be used.
    #[error("{place}: {source}")]
    Address {
        /// Whose document names it.
        place: String,
        /// What is wrong with it.
        source: BadAddress,
    },
    /// The server does not say who signs people in.
    #[error("{server} asks for a sign-in and does not say where: no metadata at {}", tried.join(" or "))]
    NoResource {
        /// The server.
        server: String,
        /// Where it was looked for.
        tried: Vec<String>,
    },
    /// It speaks for another server.
    #[error("{place} is about {resource}, which is not {server}")]
    ForeignResource {
        /// Where the document is.
        place: String,
        /// What it is about.
        resource: String,
        /// The server we call.
        server: String,
    },
    /// The authorization server has no metadata where it should be.
    #[error("{issuer} has no metadata: nothing at {}", tried.join(" or "))]
    NoServer {
        /// The authorization server.
        issuer: String,
        /// Where it was looked for.
        tried: Vec<String>,
    },
    /// The metadata is somebody else's.
    #[error("{place} calls itself `{found}` and not `{issuer}`; none of it is used")]
    WrongIssuer {
        /// Where the document is.
        place: String,
        /// Who it says it is.
        found: String,
        /// Who was asked.
        issuer: String,
    },
    /// It cannot protect the code on its way.
    #[error("{issuer} does not say that it takes PKCE with S256, so nobody is sent there")]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// A document that is something else.
    #[error("{place} {problem}")]
    Unreadable {
        /// Where the document is.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A longer document is not read.
pub const MAX_DOCUMENT: usize = 512 * 1024;
/// What a stranger calls itself is cut here in messages.
const MAX_SHOWN: usize = 200;

/// The document at this place: none where it answers something else than 200 with a JSON object; an error where it
/// may have one, and cannot say so at the moment.
async fn document(fetch: &dyn Fetch, place: &Url) -> Result<Option<Bytes>, MetadataError> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = place.as_str().parse().map_err(|_| unreadable(place, "is not an address HTTP can carry"))?;
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = fetch.fetch(request).await?;
    let body = response.body();
    if MAX_DOCUMENT < body.len() {
        return Err(unreadable(place, format!("answers with more than {MAX_DOCUMENT} bytes")));
    }
    if let Some(unavailable) = FetchError::unavailable(place, response.status()) {
        return Err(unavailable.into());
    }
    let is_object = || serde_json::from_slice::<serde_json::Map<_, _>>(body).is_ok();
    Ok((response.status() == StatusCode::OK && is_object()).then(|| body.clone()))
}

/// The same, where a place that cannot answer at the moment is one that has none: some never do.
async fn any_document(fetch: &dyn Fetch, place: &Url) -> Result<Option<Bytes>, MetadataError> {
    match document(fetch, place).await {
        Err(MetadataError::Fetch(FetchError::Unavailable { .. })) => Ok(None),
        found => found,
    }
}

/// The first of these places that has a document; an error where there is none and one of them cannot answer now.
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
    serde_json::from_slice(document).map_err(|error| unreadable(place, format!("has no metadata: {error}")))
}

fn unreadable(place: &Url, problem: impl Into<String>) -> MetadataError {
    MetadataError::Unreadable { place: address::shown(place), problem: problem.into() }
}

/// A text of a stranger in a message: one short line.
fn quoted(text: &str) -> String {
    address::told(text, MAX_SHOWN)
}

fn shown_all(places: &[Url]) -> Vec<String> {
    places.iter().map(address::shown).collect()
}

/// An address of the same origin.
fn at_origin(url: &Url, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(path);
    place.set_query(None);
    place.set_fragment(None);
    place
}
