//! Authentication of clients, and the servers each client may see.
//!
//! Access is either open to every local program, if the configuration says so, or requires a key. A key is 256 random
//! bits; only its digest is stored, and digests are compared in constant time.

mod key_digest;
mod key_ring;
mod key_use;
pub mod keys;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use http::{HeaderMap, header};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use toolway_config::{Secret, ServerName};
use toolway_host::call::{Selection, VisibleServers};

pub use key_use::LastUses;
pub use keys::{Change, KeyError, KeyFile, KeyRights, KeyScope, KeyUpdate, KnownClient, PreviousKey};

use self::{key_digest::Digest, key_ring::KeyRing};

/// How clients are authenticated.
pub enum Access {
    /// No authentication. Allowed only on loopback addresses.
    Open,
    /// The same, with what the configuration lets its only client see.
    OpenWithin(OpenAccess),
    /// Clients send one of these keys as a bearer token.
    Keys(Box<Keys>),
}

/// What clients without a key see.
#[derive(Debug)]
pub struct OpenAccess {
    // Nothing awaits under this lock.
    client: RwLock<Arc<Client>>,
    /// Whether that client has sent a request.
    was_admitted: AtomicBool,
    /// Clients as they were before their bound changed, and that [`Access::take_revoked`] has not returned yet.
    // Nothing awaits under this lock.
    ended: Mutex<Vec<Arc<Client>>>,
}

/// The accepted keys: those of the key file, and the temporary key of this run.
pub struct Keys {
    ring: Option<KeyRing>,
    temporary: Option<(Digest, Arc<Client>)>,
}

/// An authenticated client.
#[derive(Debug)]
pub struct Client {
    /// Name given by the operator; calls are recorded under it.
    pub name: Arc<str>,
    /// Name and key fingerprint, stored in sealed handles. A name that is reused with a new key is a different identity.
    pub(crate) identity: Arc<str>,
    /// Fingerprint of the key that it was found by.
    pub(crate) key: Arc<str>,
    /// Servers that the client may see.
    pub servers: VisibleServers,
    /// What its key opens.
    pub scope: KeyScope,
    /// When the key was last used, in seconds since the Unix epoch; zero: not yet.
    pub(crate) used: AtomicU64,
    /// Cancelled when the key is revoked or expires; ends what the client has open.
    pub(crate) revoked: CancellationToken,
}

/// Why a key is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    /// It is not in the key file any more.
    Revoked,
    /// Its time is over.
    Expired,
}

impl KeyEnd {
    /// The word in logs and the audit log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        }
    }
}

/// The request has no valid key. Does not tell a missing key from a wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a valid key is required: `Authorization: Bearer <key>`; create one with `toolway clients add <name>`")]
pub struct Unauthenticated;

/// What the configuration lets clients see, by name.
pub type ClientBounds = BTreeMap<String, Selection>;

/// Client name under open access and over stdio.
pub const ANONYMOUS: &str = "anonymous";
/// Client name of the temporary key. It is not a valid name for a client of the key file.
const TEMPORARY: &str = "@first";

// === impl Access ===

impl Access {
    /// Accepts the keys of `file` only, also if it has none yet.
    pub fn with_key_file(file: Option<KeyFile>) -> Result<Self, KeyError> {
        let ring = file.map(KeyRing::open).transpose()?;
        Ok(Self::Keys(Box::new(Keys { ring, temporary: None })))
    }

    /// Accepts the keys of `file`. If it has none, generates a temporary key for this run and returns it as well.
    pub fn with_keys(file: Option<KeyFile>) -> Result<(Self, Option<Secret>), KeyError> {
        let ring = file.map(KeyRing::open).transpose()?;
        let made = match &ring {
            Some(ring) if !ring.is_empty() => None,
            _ => Some(keys::new_key()?),
        };
        let client = |key: &Secret| {
            let digest = Digest::of(key.expose());
            let client = Client::with_key(TEMPORARY, &digest.mark(), &digest, VisibleServers::All, KeyScope::All);
            (digest, Arc::new(client))
        };
        let temporary = made.as_ref().map(client);
        Ok((Self::Keys(Box::new(Keys { ring, temporary })), made))
    }

    /// Authenticates a request by its headers.
    pub fn admit(&self, headers: &HeaderMap) -> Result<Arc<Client>, Unauthenticated> {
        match self {
            Self::Open => Ok(Arc::new(Client::anonymous())),
            Self::OpenWithin(open) => Ok(open.admit()),
            Self::Keys(keys) => keys.admit(&Digest::of(bearer(headers).ok_or(Unauthenticated)?)),
        }
    }

    /// The client of this name; `None` once its key is revoked or expired.
    pub fn client(&self, name: &str) -> Option<Arc<Client>> {
        match self {
            Self::Open => Some(Arc::new(Client::anonymous())),
            Self::OpenWithin(open) => Some(open.client()),
            Self::Keys(keys) => keys.named(name),
        }
    }

    /// The client of this name, by the key with this fingerprint; `None` once that key is revoked or expired.
    pub(crate) fn client_with(&self, name: &str, key: &str) -> Option<Arc<Client>> {
        match self {
            Self::Open | Self::OpenWithin(_) => self.client(name).filter(|client| *client.key == *key),
            Self::Keys(keys) => keys.named_with(name, key),
        }
    }

    /// Whether no client is restricted to some servers.
    pub(crate) fn all_clients_see_all_servers(&self) -> bool {
        match self {
            Self::Open => true,
            Self::OpenWithin(open) => open.client().servers == VisibleServers::All,
            Self::Keys(keys) => keys.ring.as_ref().is_none_or(KeyRing::all_clients_see_all_servers),
        }
    }

    /// Takes the revoked clients not yet handled that had the name of `client`.
    pub(crate) fn take_revoked_namesakes(&self, client: &Client) -> Vec<Arc<Client>> {
        match self {
            Self::Open => Vec::new(),
            Self::OpenWithin(open) => open.take_ended(),
            Self::Keys(keys) => keys.ring.as_ref().map(|ring| ring.take_revoked_namesakes(client)).unwrap_or_default(),
        }
    }

    /// Path of the key file; `None` if access is open or there is no file.
    pub(crate) fn key_file(&self) -> Option<&std::path::Path> {
        match self {
            Self::Open | Self::OpenWithin(_) => None,
            Self::Keys(keys) => keys.ring.as_ref().map(KeyRing::path),
        }
    }

    /// Reads the key file now, so that its current content is in force.
    pub(crate) fn reload(&self) -> Result<(), KeyError> {
        match self {
            Self::Open | Self::OpenWithin(_) => Ok(()),
            Self::Keys(keys) => keys.ring.as_ref().map_or(Ok(()), KeyRing::reload),
        }
    }

    /// Sets what the configuration lets clients see, by name: what their key allows beyond that is not visible. What a client
    /// has open ends when that changes.
    pub fn set_bounds(&self, bounds: &ClientBounds) {
        match self {
            Self::Open => {}
            Self::OpenWithin(open) => open.set_bound(bounds.get(ANONYMOUS)),
            Self::Keys(keys) => keys.ring.iter().for_each(|ring| ring.set_bounds(bounds)),
        }
    }

    /// Whether clients need no key.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open | Self::OpenWithin(_))
    }

    /// Writes when keys were last used. Blocks for the disk.
    pub(crate) fn write_uses(&self) {
        if let Self::Keys(keys) = self
            && let Some(ring) = &keys.ring
        {
            ring.write_uses();
        }
    }

    /// Checks the key file, and takes the clients whose keys were revoked or expired since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<(Arc<Client>, KeyEnd)> {
        match self {
            Self::Open => Vec::new(),
            Self::OpenWithin(open) => open.take_ended().into_iter().map(|client| (client, KeyEnd::Revoked)).collect(),
            Self::Keys(keys) => keys.ring.as_ref().map(KeyRing::take_revoked).unwrap_or_default(),
        }
    }
}

impl OpenAccess {
    fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read())
    }

    fn admit(&self) -> Arc<Client> {
        let client = self.client.read();
        self.was_admitted.store(true, Ordering::SeqCst);
        Arc::clone(&client)
    }

    fn set_bound(&self, bound: Option<&Selection>) {
        let servers = bound.map(|bound| bound.clone().into()).unwrap_or_default();
        let mut client = self.client.write();
        if client.servers == servers {
            return;
        }
        let before = std::mem::replace(&mut *client, Arc::new(Client { servers, ..Client::anonymous() }));
        if self.was_admitted.swap(false, Ordering::SeqCst) {
            before.revoked.cancel();
            self.ended.lock().push(before);
        }
    }

    fn take_ended(&self) -> Vec<Arc<Client>> {
        std::mem::take(&mut *self.ended.lock())
    }
}

impl Default for OpenAccess {
    fn default() -> Self {
        Self {
            client: RwLock::new(Arc::new(Client::anonymous())),
            was_admitted: AtomicBool::new(false),
            ended: Mutex::default(),
        }
    }
}

impl Keys {
    fn admit(&self, digest: &Digest) -> Result<Arc<Client>, Unauthenticated> {
        let made = self.temporary.as_ref().filter(|(known, _)| known == digest).map(|(_, client)| Arc::clone(client));
        let known = self.ring.as_ref().and_then(|ring| ring.find(digest));
        made.or(known).ok_or(Unauthenticated)
    }

    fn named(&self, name: &str) -> Option<Arc<Client>> {
        let made = self.temporary.as_ref().map(|(_, client)| client).filter(|client| &*client.name == name);
        made.cloned().or_else(|| self.ring.as_ref().and_then(|ring| ring.named(name)))
    }

    fn named_with(&self, name: &str, key: &str) -> Option<Arc<Client>> {
        let is_it = |client: &Client| *client.name == *name && *client.key == *key;
        let made = self.temporary.as_ref().map(|(_, client)| client).filter(|client| is_it(client));
        made.cloned().or_else(|| self.ring.as_ref().and_then(|ring| ring.find_client(is_it)))
    }
}

impl Client {
    /// The client whose first key has this fingerprint, by one of its keys.
    fn with_key(name: &str, first_key: &str, key: &Digest, servers: VisibleServers, scope: KeyScope) -> Self {
        let identity = Arc::from(format!("{name} {first_key}"));
        let key = Arc::from(key.mark());
        let revoked = CancellationToken::new();
        Self { name: Arc::from(name), identity, key, servers, scope, used: AtomicU64::default(), revoked }
    }

    /// The client of every request under open access.
    fn anonymous() -> Self {
        let name: Arc<str> = Arc::from(ANONYMOUS);
        Self {
            identity: Arc::clone(&name),
            key: Arc::clone(&name),
            name,
            servers: VisibleServers::All,
            scope: KeyScope::All,
            used: AtomicU64::default(),
            revoked: CancellationToken::new(),
        }
    }

    /// Whether the client may see this server.
    pub fn sees(&self, server: &ServerName) -> bool {
        self.servers.covers(server)
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.servers, self.scope) == (&other.name, &other.servers, other.scope)
    }
}

impl Eq for Client {}

/// The token of `Authorization: Bearer …`. A token in the URL is ignored, because URLs end up in logs.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open | Self::OpenWithin(_) => "Access::Open",
            Self::Keys(_) => "Access::Keys",
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{Access, ClientBounds, KeyEnd, OpenAccess, Selection, Unauthenticated, VisibleServers};

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn without_a_key_file_only_the_temporary_key_is_accepted() {
        let (access, key) = Access::with_keys(None).unwrap();
        let key = key.unwrap();
        for scheme in ["Bearer", "bearer"] {
            let client = access.admit(&with(&format!("{scheme} {}", key.expose()))).unwrap();
            assert_eq!((&*client.name, &client.servers), ("@first", &VisibleServers::All));
        }
        for wrong in ["Bearer", "Bearer ", "Basic YTpi", "Bearer tw_wrong"] {
            assert_eq!(access.admit(&with(wrong)), Err(Unauthenticated), "{wrong}");
        }
        assert_eq!(access.admit(&HeaderMap::new()), Err(Unauthenticated));
    }

    #[test]
    fn what_a_client_without_a_key_has_open_ends_when_its_bound_changes() {
        let bounds = |server: &str| {
            let servers = Some(std::iter::once(server.parse().unwrap()).collect());
            ClientBounds::from([("anonymous".to_owned(), Selection { servers, tools: None })])
        };
        let access = Access::OpenWithin(OpenAccess::default());
        access.set_bounds(&bounds("files"));
        assert!(access.take_revoked().is_empty(), "it has sent nothing yet");
        let before = access.admit(&HeaderMap::new()).unwrap();
        access.set_bounds(&bounds("files"));
        assert!(!before.revoked.is_cancelled() && access.take_revoked().is_empty(), "nothing has changed");
        access.set_bounds(&bounds("notes"));
        assert!(before.revoked.is_cancelled());
        let ended: Vec<_> =
            access.take_revoked().into_iter().map(|(client, why)| (client.servers.clone(), why)).collect();
        assert_eq!(ended, [(before.servers.clone(), KeyEnd::Revoked)]);
        let now = access.admit(&HeaderMap::new()).unwrap();
        assert!(!now.revoked.is_cancelled() && now.sees(&"notes".parse().unwrap()));
        // Also when it may see more: its lists have changed.
        access.set_bounds(&ClientBounds::new());
        assert!(now.revoked.is_cancelled());
        assert_eq!(access.take_revoked_namesakes(&now).len(), 1);
        assert!(access.all_clients_see_all_servers() && access.take_revoked().is_empty());
    }

    #[test]
    fn open_access_needs_no_key() {
        assert_eq!(&*Access::Open.admit(&HeaderMap::new()).unwrap().name, "anonymous");
    }
}
