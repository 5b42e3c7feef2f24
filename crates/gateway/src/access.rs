//! Who may come in, and which servers each of them sees.
//!
//! Either everybody on this machine, when the configuration says so, or whoever brings a key. A key is 256 random
//! bits; only its digest is kept, and digests are compared in constant time.

pub mod keys;

use std::{fmt, sync::Arc};

use http::{HeaderMap, header};
use tokio_util::sync::CancellationToken;
use toolway_config::{Secret, ServerName};
use toolway_host::call::Visible;

pub use keys::{KeyFile, KeyProblem, KnownClient};

use self::keys::{Digest, KeyRing};

/// Who may come in.
pub enum Access {
    /// Everybody who can reach the address; only ever an address of this machine.
    Open,
    /// Whoever brings one of these keys.
    Keys(Box<Keys>),
}

/// The keys that are taken: those of the file, and one that was made for this run.
pub struct Keys {
    ring: Option<KeyRing>,
    of_this_run: Option<(Digest, Arc<Client>)>,
}

/// Somebody who came in.
#[derive(Debug)]
pub struct Client {
    /// As the operator named it; calls are recorded under it.
    pub name: Arc<str>,
    /// Who that is, as what is sealed for it says: a name that is given to another key is somebody else.
    pub(crate) identity: Arc<str>,
    /// The servers it sees.
    pub servers: Visible,
    /// Its key is no longer good: what is open ends.
    pub(crate) gone: CancellationToken,
}

/// Why somebody may not come in. What is wrong with a key is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is needed: `Authorization: Bearer <key>`; the operator makes one with `toolway clients add <name>`")]
pub struct Stranger;

/// Whoever comes in where nobody has to say who they are.
const ANYBODY: &str = "anybody";
/// Whoever brings the key of this run: a name that no client of the file can have.
const FIRST: &str = "@first";

// === impl Access ===

impl Access {
    /// The keys of a file; where it has none, one that is made for this run, which is given too.
    pub fn of_keys(file: Option<KeyFile>) -> Result<(Self, Option<Secret>), KeyProblem> {
        let ring = file.map(KeyRing::open).transpose()?;
        let made = match &ring {
            Some(ring) if !ring.is_empty() => None,
            _ => Some(keys::new_key()?),
        };
        let client = |key: &Secret| {
            let digest = Digest::of(key.expose());
            let client = Client::with_key(FIRST, &digest, Visible::All);
            (digest, Arc::new(client))
        };
        let of_this_run = made.as_ref().map(client);
        Ok((Self::Keys(Box::new(Keys { ring, of_this_run })), made))
    }

    /// Who sends this.
    pub fn admit(&self, headers: &HeaderMap) -> Result<Arc<Client>, Stranger> {
        match self {
            Self::Open => Ok(Arc::new(Client::anybody())),
            Self::Keys(keys) => keys.admit(&Digest::of(bearer(headers).ok_or(Stranger)?)),
        }
    }

    /// Somebody by the name under which they came in; nobody once their key is gone.
    pub fn client(&self, name: &str) -> Option<Arc<Client>> {
        match self {
            Self::Open => Some(Arc::new(Client::anybody())),
            Self::Keys(keys) => keys.named(name),
        }
    }

    /// Whether everybody who may come in sees all servers.
    pub(crate) fn shows_all_to_all(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Keys(keys) => keys.ring.as_ref().is_none_or(KeyRing::shows_all_to_all),
        }
    }

    /// Those who had this name before and whose keys are no longer good, of whom nobody has been told yet.
    pub(crate) fn gone_before(&self, client: &Client) -> Vec<Arc<Client>> {
        match self {
            Self::Open => Vec::new(),
            Self::Keys(keys) => keys.ring.as_ref().map(|ring| ring.gone_before(client)).unwrap_or_default(),
        }
    }

    /// Looks at the keys again; gives the clients whose keys are no longer good since the last look.
    pub(crate) fn gone(&self) -> Vec<Arc<Client>> {
        match self {
            Self::Open => Vec::new(),
            Self::Keys(keys) => keys.ring.as_ref().map(KeyRing::gone).unwrap_or_default(),
        }
    }
}

impl Keys {
    fn admit(&self, digest: &Digest) -> Result<Arc<Client>, Stranger> {
        let made = self.of_this_run.as_ref().filter(|(known, _)| known == digest).map(|(_, client)| Arc::clone(client));
        let known = self.ring.as_ref().and_then(|ring| ring.find(digest));
        made.or(known).ok_or(Stranger)
    }

    fn named(&self, name: &str) -> Option<Arc<Client>> {
        let made = self.of_this_run.as_ref().map(|(_, client)| client).filter(|client| &*client.name == name);
        made.cloned().or_else(|| self.ring.as_ref().and_then(|ring| ring.named(name)))
    }
}

impl Client {
    /// Whoever brings the key of this digest.
    fn with_key(name: &str, key: &Digest, servers: Visible) -> Self {
        let identity = Arc::from(format!("{name} {}", key.mark()));
        Self { name: Arc::from(name), identity, servers, gone: CancellationToken::new() }
    }

    /// Whoever comes in where nobody has to say who they are.
    fn anybody() -> Self {
        let name: Arc<str> = Arc::from(ANYBODY);
        Self { identity: Arc::clone(&name), name, servers: Visible::All, gone: CancellationToken::new() }
    }

    /// Whether it sees this server.
    pub fn sees(&self, server: &ServerName) -> bool {
        self.servers.covers(server)
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.servers) == (&other.name, &other.servers)
    }
}

impl Eq for Client {}

/// The token of `Authorization: Bearer …`. A token in the address would end in logs, so it is not looked for there.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Access::Open",
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

    use super::{Access, Stranger, Visible};

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn without_a_file_the_key_of_this_run_is_the_only_one() {
        let (access, key) = Access::of_keys(None).unwrap();
        let key = key.unwrap();
        for scheme in ["Bearer", "bearer"] {
            let client = access.admit(&with(&format!("{scheme} {}", key.expose()))).unwrap();
            assert_eq!((&*client.name, &client.servers), ("@first", &Visible::All));
        }
        for wrong in ["Bearer", "Bearer ", "Basic YTpi", "Bearer tw_wrong"] {
            assert_eq!(access.admit(&with(wrong)), Err(Stranger), "{wrong}");
        }
        assert_eq!(access.admit(&HeaderMap::new()), Err(Stranger));
    }

    #[test]
    fn open_access_needs_no_key() {
        assert_eq!(&*Access::Open.admit(&HeaderMap::new()).unwrap().name, "anybody");
    }
}
