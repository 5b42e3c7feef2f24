//! A test authorization server and a server that it protects, with real sockets, signed tokens and redirects.
//!
//! | module | responsibility |
//! |---|---|
//! | [`quirks`] | deviations from the specification |
//! | [`page`] | the authorization endpoint |
//! | [`protected`] | an MCP server that accepts its tokens |
//! | [`test_browser`] | a minimal browser of a user who agrees to everything |
//! | [`user`] | the same as a [`toolway_auth::browser::Browser`] of a session |
//! | [`caller`] | calls of tools with that session |
//!
//! It enforces PKCE, single use of codes and of refresh tokens, and binds both to a client and a resource. It records
//! all requests, so that a test can assert what did not arrive.

pub mod caller;
mod document;
mod grant;
mod ledger;
pub mod page;
pub mod protected;
pub mod quirks;
mod signed;
pub mod test_browser;
pub mod user;

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, MutexGuard};
use url::form_urlencoded;

pub use self::{
    caller::Caller,
    protected::{ProtectedServer, ServerQuirk},
    quirks::{Endpoint, Quirk},
    user::TestUser,
};
use self::{
    ledger::{Client, Ledger},
    quirks::Quirks,
    signed::{Signer, Trusted},
};
use crate::odd::http::{Act, OddHttp, RecordedRequest, Reply};

/// An authorization server on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct AuthorizationServer {
    http: OddHttp,
    shared: Arc<Shared>,
}

/// State of all endpoints.
#[derive(Debug)]
struct Shared {
    origin: OnceLock<String>,
    signer: Signer,
    // Nothing awaits under these locks.
    quirks: Mutex<Quirks>,
    ledger: Mutex<Ledger>,
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// Starts a server that follows the specification, on loopback.
    pub async fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            origin: OnceLock::new(),
            signer: Signer::new()?,
            quirks: Mutex::default(),
            ledger: Mutex::default(),
        });
        let script = Arc::clone(&shared);
        let http = OddHttp::start(move |seen| script.answer(seen)).await?;
        // Set only here, before the port is known to any client.
        let _first = shared.origin.set(format!("http://{}", http.authority()));
        Ok(Self { http, shared })
    }

    /// Issuer identifier.
    pub fn issuer(&self) -> String {
        self.shared.issuer()
    }

    /// Replaces the current deviations by these.
    pub fn set_quirks(&self, quirks: impl IntoIterator<Item = Quirk>) {
        self.shared.quirks.lock().0 = quirks.into_iter().collect();
    }

    /// Registers a client; any redirect URL on this machine is allowed.
    pub fn register(&self, id: &str, secret: Option<&str>) {
        self.shared.add_client(id, Client { secret: secret.map(str::to_owned), redirects: Vec::new() });
    }

    /// Registers a public client with exactly this redirect URI.
    pub fn register_at(&self, id: &str, redirect: &str) {
        self.shared.add_client(id, Client { secret: None, redirects: vec![redirect.to_owned()] });
    }

    /// Accepts this platform assertion from now on, and no other.
    pub fn accept_assertion(&self, word: &str) {
        let mut ledger = self.shared.ledger();
        ledger.note_secret(word);
        ledger.assertion = Some(word.to_owned());
    }

    /// Number of requests to an endpoint.
    pub fn count(&self, endpoint: Endpoint) -> usize {
        self.http.seen().iter().filter(|seen| Endpoint::of(seen) == endpoint).count()
    }

    /// Number of all requests.
    pub fn requests(&self) -> usize {
        self.http.seen().len()
    }

    /// Number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.http.connections()
    }

    /// Waits until an endpoint has received this many requests.
    pub async fn until(&self, endpoint: Endpoint, times: usize) {
        self.http.until(|seen| times <= seen.iter().filter(|seen| Endpoint::of(seen) == endpoint).count()).await;
    }

    /// Waits until no connection is open, so that everything sent by a killed process has been handled.
    pub async fn until_idle(&self) -> io::Result<()> {
        // When this request is answered, all earlier connections have been accepted.
        test_browser::open(&format!("{}/keys", self.issuer()), "test").await?;
        self.http.until_open(0).await;
        Ok(())
    }

    /// Fields of each request to an endpoint, from the body or, if it is empty, from the query.
    pub fn fields(&self, endpoint: Endpoint) -> Vec<Vec<(String, String)>> {
        let fields = |seen: &RecordedRequest| {
            let query = seen.path.split_once('?').map_or("", |(_, query)| query);
            let text = if seen.body().is_empty() { query.as_bytes() } else { seen.body() };
            form_urlencoded::parse(text).into_owned().collect()
        };
        self.http.seen().iter().filter(|seen| Endpoint::of(seen) == endpoint).map(fields).collect()
    }

    /// Everything that was received, as text: paths, headers and bodies, also decoded.
    pub fn received(&self) -> String {
        received(&self.http)
    }

    /// All tokens, codes, verifiers and client secrets that were issued or received.
    pub fn secrets(&self) -> Vec<String> {
        self.shared.ledger().secrets()
    }

    /// Current refresh token of the newest sign-in.
    pub fn newest_refresh(&self) -> Option<String> {
        self.shared.ledger().newest_refresh()
    }

    /// Number of sign-ins that were revoked because a code or refresh token was used twice.
    pub fn revoked_sign_ins(&self) -> usize {
        self.shared.ledger().revoked_families()
    }
}

/// Everything that a server received, as text.
fn received(http: &OddHttp) -> String {
    let mut text = String::new();
    for seen in http.seen() {
        let body = String::from_utf8_lossy(seen.body()).into_owned();
        let headers: Vec<String> = seen.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let decoded: Vec<String> =
            form_urlencoded::parse(seen.body()).map(|(name, value)| format!("{name}={value}")).collect();
        text.push_str(&[seen.path.clone(), headers.join("\n"), body, decoded.join("\n"), String::new()].join("\n"));
    }
    text
}

// === impl Endpoint ===

impl Endpoint {
    fn of(seen: &RecordedRequest) -> Self {
        match seen.path.split('?').next().unwrap_or_default() {
            "/.well-known/oauth-authorization-server" | "/.well-known/openid-configuration" => Self::Metadata,
            "/keys" => Self::Keys,
            "/register" => Self::Registration,
            "/authorize" => Self::Page,
            "/token" => {
                let grant = form_urlencoded::parse(seen.body()).find(|(name, _)| name == "grant_type");
                match grant.map(|(_, grant)| grant).as_deref() {
                    Some("refresh_token") => Self::Refresh,
                    Some("authorization_code") | None => Self::Code,
                    Some(_) => Self::Grant,
                }
            }
            _ => Self::Elsewhere,
        }
    }
}

// === impl Shared ===

impl Shared {
    fn issuer(&self) -> String {
        self.origin.get().cloned().unwrap_or_default()
    }

    fn quirks(&self) -> Quirks {
        self.quirks.lock().clone()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    fn add_client(&self, id: &str, client: Client) {
        let mut ledger = self.ledger();
        if let Some(secret) = &client.secret {
            ledger.note_secret(secret);
        }
        ledger.clients.insert(id.to_owned(), client);
    }

    /// A registered client, or one whose id is the URL of a document.
    fn client(&self, id: &str) -> Option<Client> {
        let has_document = self.quirks.lock().has(&Quirk::SupportsClientDocuments) && id.starts_with("https://");
        self.ledger().clients.get(id).cloned().or_else(|| has_document.then(Client::default))
    }

    fn trusted(&self) -> Trusted {
        Trusted { issuer: self.issuer(), key: self.signer.public() }
    }

    fn answer(&self, seen: &RecordedRequest) -> Reply {
        let endpoint = Endpoint::of(seen);
        match self.quirks().find_quirk(|quirk| quirk_effect(quirk, endpoint)) {
            Some(QuirkEffect::Instead(reply)) => reply,
            Some(QuirkEffect::Before(act)) => self.proper(endpoint, seen).after(act),
            None => self.proper(endpoint, seen),
        }
    }

    fn proper(&self, endpoint: Endpoint, seen: &RecordedRequest) -> Reply {
        match endpoint {
            Endpoint::Metadata => document::metadata(self),
            Endpoint::Keys => Reply::json(200, &self.signer.keys()),
            Endpoint::Registration => document::register(self, seen),
            Endpoint::Page => page::visit(self, seen),
            Endpoint::Code | Endpoint::Refresh | Endpoint::Grant => grant::exchange(self, seen),
            Endpoint::Elsewhere => Reply::empty(404),
        }
    }
}

/// Effect of a quirk on the responses of an endpoint.
enum QuirkEffect {
    Instead(Reply),
    Before(Act),
}

fn quirk_effect(quirk: &Quirk, endpoint: Endpoint) -> Option<QuirkEffect> {
    match quirk {
        Quirk::Redirects(place, to) if *place == endpoint => {
            Some(QuirkEffect::Instead(Reply::empty(307).header("Location", to.clone())))
        }
        Quirk::Endless(place) if *place == endpoint => {
            let reply = Reply::bare().say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"x\":\"");
            Some(QuirkEffect::Instead(reply.then(Act::SayForEver(vec![b'x'; 64 * 1024]))))
        }
        Quirk::RespondsWith(place, status) if *place == endpoint => Some(QuirkEffect::Instead(Reply::empty(*status))),
        Quirk::Silent(place) if *place == endpoint => Some(QuirkEffect::Instead(Reply::bare().then(Act::Hang))),
        Quirk::Late(place, time) if *place == endpoint => Some(QuirkEffect::Before(Act::Wait(*time))),
        _ => None,
    }
}
