//! Roots that clients of a gateway supply over HTTP (`PUT /roots`): their bounds, and the port that keeps them beyond a restart.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_wire::budget::Charge;
use url::Url;

use super::Root;
use crate::record::RecordsError;

/// Roots of one client.
pub const MAX_ROOTS: usize = 64;
/// Bytes of the URI of a root.
pub const MAX_URI: usize = 2_048;
/// Bytes of the name of a root.
pub const MAX_NAME: usize = 256;
/// About what a root costs besides its texts.
const ROOT_COST: usize = 64;

/// The roots that one client supplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRootList {
    /// Name of the client.
    pub client: String,
    /// Its roots; none removes the list.
    pub roots: Vec<Root>,
}

/// Keeps the roots that clients supply.
pub trait ClientRootStore: Send + Sync {
    /// The lists of all clients.
    fn load(&self) -> BoxFuture<'_, Result<Vec<ClientRootList>, RecordsError>>;

    /// Replaces the list of a client. Resolves once it survives the end of the process.
    fn put(&self, list: ClientRootList) -> BoxFuture<'_, Result<(), RecordsError>>;
}

/// Keeps nothing: the roots end with the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClientRootStore;

/// What became of a list that a client supplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedRoots {
    /// The roots that are kept.
    pub kept: Vec<Root>,
    /// URIs that are not passed on to servers.
    pub dropped: Vec<String>,
}

/// Why a list was refused. Nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum SupplyError {
    /// The list has too many roots.
    #[error("a client has at most {MAX_ROOTS} roots")]
    TooMany,
    /// A root is too long or has no valid URI.
    #[error("root {number} {problem}")]
    Invalid {
        /// Place in the list, from 1.
        number: usize,
        /// Rest of the sentence.
        problem: String,
    },
    /// The gateway has no room for it.
    #[error("the gateway has no room for these roots; try again later")]
    OverBudget,
    /// It cannot be stored.
    #[error("the roots cannot be stored")]
    Store(#[source] RecordsError),
}

/// A list in memory, with its charge.
pub(super) struct KeptRoots {
    pub(super) roots: Arc<[Root]>,
    pub(super) _charge: Charge,
}

impl ClientRootStore for NoClientRootStore {
    fn load(&self) -> BoxFuture<'_, Result<Vec<ClientRootList>, RecordsError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn put(&self, _list: ClientRootList) -> BoxFuture<'_, Result<(), RecordsError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Checks the bounds of a list.
pub(crate) fn check(roots: &[Root]) -> Result<(), SupplyError> {
    if MAX_ROOTS < roots.len() {
        return Err(SupplyError::TooMany);
    }
    for (number, root) in (1..).zip(roots) {
        let invalid = |problem: String| SupplyError::Invalid { number, problem };
        if MAX_URI < root.uri.len() {
            return Err(invalid(format!("has a URI of more than {MAX_URI} bytes")));
        }
        if root.name.as_ref().is_some_and(|name| MAX_NAME < name.len()) {
            return Err(invalid(format!("has a name of more than {MAX_NAME} bytes")));
        }
        Url::parse(&root.uri).map_err(|error| invalid(format!("has no valid URI: {error}")))?;
    }
    Ok(())
}

/// About the bytes of a list in memory.
pub(crate) fn bytes(roots: &[Root]) -> usize {
    roots.iter().map(|root| ROOT_COST + root.uri.len() + root.name.as_ref().map_or(0, String::len)).sum()
}
