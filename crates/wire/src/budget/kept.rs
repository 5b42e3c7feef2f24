//! Everything that the process keeps for remote parties, by kind.
//!
//! A new thing that is kept for a client or a server gets a kind here, or belongs to one. The test
//! `everything_that_is_kept_has_a_charge` of `cli` makes a gateway keep each of them and finds its charge.

use std::fmt;

/// What charged bytes are kept for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Request bodies, unread events, notifications and results, queued output, parked calls, results of hosted tasks.
    #[default]
    Transit,
    /// Items that servers list, also while a list is being read, and stored listings of an earlier run.
    Listing,
    /// Entries of catalogs: those of the shared one, and the catalogs of callers that see other lists.
    Catalog,
    /// Search indexes of catalogs.
    SearchIndex,
    /// Prepared list pages of the gateway.
    Page,
    /// Connections to servers: what each server declared in the handshake, its era and session.
    Connection,
    /// Ends of the stderr output of server processes.
    Stderr,
    /// Sessions of the gateway's clients, with what each client declared.
    Session,
    /// Items that wait in the inbox.
    Inbox,
    /// Results of `resources/read` that are used again.
    Resource,
    /// Conversations while they are loaded, and long results kept for them.
    Conversation,
}

impl Kept {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Transit,
        Self::Listing,
        Self::Catalog,
        Self::SearchIndex,
        Self::Page,
        Self::Connection,
        Self::Stderr,
        Self::Session,
        Self::Inbox,
        Self::Resource,
        Self::Conversation,
    ];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transit => "transit",
            Self::Listing => "listing",
            Self::Catalog => "catalog",
            Self::SearchIndex => "search-index",
            Self::Page => "page",
            Self::Connection => "connection",
            Self::Stderr => "stderr",
            Self::Session => "session",
            Self::Inbox => "inbox",
            Self::Resource => "resource",
            Self::Conversation => "conversation",
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
