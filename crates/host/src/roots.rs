//! Roots: the folders that servers are told to work in.
//!
//! | part | file |
//! |---|---|
//! | what each server is told, for each caller | `roots/book.rs` |
//! | which roots of a gateway client are passed on | `roots/bound.rs` |
//! | roots that a gateway client supplies over HTTP | `roots/supplied.rs` |
//! | files within roots, for embedding programs | `roots/fence.rs` |
//!
//! Roots are advice: a server that ignores them can read what its process can read. Only [`Roots`] is a fence, for the
//! program that uses it.

pub(crate) mod book;
#[cfg(test)]
mod book_tests;
pub mod bound;
pub mod fence;
#[cfg(test)]
mod fence_tests;
pub mod supplied;

pub use bound::ClientRootBound;
pub use fence::{Operation, RootEntry, Roots, RootsError};
pub use supplied::{ClientRootList, ClientRootStore, NoClientRootStore, SuppliedRoots, SupplyError};

/// A root that a server is told of, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRoot {
    /// The root.
    pub root: Root,
    /// What gives it.
    pub origin: RootOrigin,
}

/// What gives a root to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootOrigin {
    /// The command, or the embedding program.
    Command,
    /// The top-level key `roots`.
    AllServers,
    /// The entry of the server.
    Server,
    /// The configuration of a client of the gateway, by name: only in calls of this client.
    Client(String),
    /// A client of the gateway itself: only in its calls.
    SuppliedBy(String),
}

/// A folder or URL that a server is told to work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// URI of the root.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}
