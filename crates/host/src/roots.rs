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
pub mod bound;
pub mod fence;
#[cfg(test)]
mod fence_tests;
pub mod supplied;

pub use bound::ClientRootBound;
pub use fence::{Operation, RootEntry, Roots, RootsError};
pub use supplied::{ClientRootList, ClientRootStore, NoClientRootStore, SuppliedRoots, SupplyError};

/// A folder or URL that a server is told to work in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// URI of the root.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
}
