//! Who may use a connection.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

use crate::call::Caller;

/// Who may use a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Everybody: nothing of a person's is presented on it.
    Common,
    /// Everybody but these clients: nothing is presented on it, and they have signed in, each for itself.
    Anonymous(Arc<SignedIn>),
    /// Only on whose behalf it was opened.
    Personal,
}

impl Account {
    /// Whether a caller's requests may go over such a connection, and are not better off on one of its own.
    pub(crate) fn serves(&self, caller: &Caller) -> bool {
        match (self, caller.client()) {
            (Self::Common, _) | (_, None) => true,
            (Self::Anonymous(signed_in), Some(client)) => !signed_in.clients.lock().contains(client),
            (Self::Personal, Some(_)) => false,
        }
    }

    /// Whether what is listed on it is nobody's in particular.
    pub(crate) fn is_nobodys(&self) -> bool {
        *self != Self::Personal
    }
}

/// The clients that have signed in to a server.
#[derive(Debug, Default)]
pub(crate) struct SignedIn {
    // Nothing awaits under this lock.
    clients: Mutex<HashSet<String>>,
}

impl SignedIn {
    /// A client has signed in, or out.
    pub(crate) fn change(&self, client: &str, change: Signing) {
        let mut clients = self.clients.lock();
        match change {
            Signing::In => clients.insert(client.to_owned()),
            Signing::Out => clients.remove(client),
        };
    }
}

impl From<HashSet<String>> for SignedIn {
    fn from(clients: HashSet<String>) -> Self {
        Self { clients: Mutex::new(clients) }
    }
}

impl PartialEq for SignedIn {
    fn eq(&self, other: &Self) -> bool {
        // Never both locks at once.
        let theirs = other.clients.lock().clone();
        *self.clients.lock() == theirs
    }
}

impl Eq for SignedIn {}

/// What became of a client's sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// There is one.
    In,
    /// There is none any more.
    Out,
}
