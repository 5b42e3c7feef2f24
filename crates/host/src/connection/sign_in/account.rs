//! Which callers may use a connection.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

use crate::call::Caller;

/// Which callers may use a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// All: it presents no user's sign-in.
    Common,
    /// All but these clients: it presents nothing, and they have their own sign-ins.
    Anonymous(Arc<SignedInClients>),
    /// Only the principal it was opened for.
    Personal,
}

impl Account {
    /// Whether a caller's requests use this connection instead of one of its own.
    pub(crate) fn serves(&self, caller: &Caller) -> bool {
        match (self, caller.client()) {
            (Self::Common, _) | (_, None) => true,
            (Self::Anonymous(signed_in), Some(client)) => !signed_in.clients.lock().contains(client),
            (Self::Personal, Some(_)) => false,
        }
    }

    /// Whether it presents no user's sign-in, so that its lists are specific to no user.
    pub(crate) fn is_impersonal(&self) -> bool {
        *self != Self::Personal
    }
}

/// The clients that have signed in to a server.
#[derive(Debug, Default)]
pub(crate) struct SignedInClients {
    // Nothing awaits under this lock.
    clients: Mutex<HashSet<String>>,
}

impl SignedInClients {
    /// Records that a client signed in or out.
    pub(crate) fn change(&self, client: &str, change: SignInChange) {
        let mut clients = self.clients.lock();
        match change {
            SignInChange::SignedIn => clients.insert(client.to_owned()),
            SignInChange::SignedOut => clients.remove(client),
        };
    }
}

impl From<HashSet<String>> for SignedInClients {
    fn from(clients: HashSet<String>) -> Self {
        Self { clients: Mutex::new(clients) }
    }
}

impl PartialEq for SignedInClients {
    fn eq(&self, other: &Self) -> bool {
        // Never both locks at once.
        let theirs = other.clients.lock().clone();
        *self.clients.lock() == theirs
    }
}

impl Eq for SignedInClients {}

/// Change of a client's sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInChange {
    /// The client signed in.
    SignedIn,
    /// The client signed out.
    SignedOut,
}
