//! An authorization server and a server that it protects: real sockets, real signed tokens, real redirects.
//!
//! | read | for |
//! |---|---|
//! | [`conduct`] | what it can be told to do differently |
//! | [`page`] | where a person signs in |
//! | [`protected`] | an MCP server that takes its tokens |
//! | [`visitor`] | a person who agrees to everything, with the simplest of browsers |
//! | [`person`] | the same, who is asked by a session |
//! | [`caller`] | calls of tools with that session |
//!
//! It keeps the rules as strictly as it can: PKCE, one use of each code, one use of each refresh token, a client and a
//! resource for each of them. What it saw is kept, so that a story can say what did not arrive.

pub mod caller;
pub mod conduct;
mod document;
mod grant;
mod ledger;
pub mod page;
pub mod person;
pub mod protected;
mod signed;
pub mod visitor;

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, MutexGuard};
use url::form_urlencoded;

pub use self::{
    caller::Caller,
    conduct::{Endpoint, Quirk},
    person::Person,
    protected::{Oddity, ProtectedServer},
};
use self::{
    conduct::Conduct,
    ledger::{Client, Ledger},
    signed::{Signer, Trusted},
};
use crate::odd::http::{Act, OddHttp, Reply, Seen};

/// An authorization server on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct AuthorizationServer {
    http: OddHttp,
    shared: Arc<Shared>,
}

/// What all its endpoints share.
#[derive(Debug)]
struct Shared {
    origin: OnceLock<String>,
    signer: Signer,
    // Nothing awaits under these locks.
    conduct: Mutex<Conduct>,
    ledger: Mutex<Ledger>,
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// Starts one that keeps the rules, on loopback.
    pub async fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            origin: OnceLock::new(),
            signer: Signer::new()?,
            conduct: Mutex::default(),
            ledger: Mutex::default(),
        });
        let script = Arc::clone(&shared);
        let http = OddHttp::start(move |seen| script.answer(seen)).await?;
        // Nobody else sets it, and nobody knows the port before.
        let _first = shared.origin.set(format!("http://{}", http.authority()));
        Ok(Self { http, shared })
    }

    /// Its name.
    pub fn issuer(&self) -> String {
        self.shared.issuer()
    }

    /// From now on it does exactly these things differently.
    pub fn told(&self, quirks: impl IntoIterator<Item = Quirk>) {
        self.shared.conduct.lock().0 = quirks.into_iter().collect();
    }

    /// Knows this client from now on; browsers are sent back to any place on this machine.
    pub fn register(&self, id: &str, secret: Option<&str>) {
        self.shared.add_client(id, Client { secret: secret.map(str::to_owned), redirects: Vec::new() });
    }

    /// Takes this word of a platform from now on, and no other.
    pub fn takes_word(&self, word: &str) {
        let mut ledger = self.shared.ledger();
        ledger.note_secret(word);
        ledger.word = Some(word.to_owned());
    }

    /// How often something was asked for here.
    pub fn count(&self, endpoint: Endpoint) -> usize {
        self.http.seen().iter().filter(|seen| Endpoint::of(seen) == endpoint).count()
    }

    /// How many requests came at all.
    pub fn requests(&self) -> usize {
        self.http.seen().len()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.http.connections()
    }

    /// Waits until something was asked for so often.
    pub async fn until(&self, endpoint: Endpoint, times: usize) {
        self.http.until(|seen| times <= seen.iter().filter(|seen| Endpoint::of(seen) == endpoint).count()).await;
    }

    /// Waits until nobody is connected: what had been sent by whoever is gone has been read and dealt with.
    pub async fn left_alone(&self) -> io::Result<()> {
        // Whoever came before this one has been let in when it is answered.
        visitor::open(&format!("{}/keys", self.issuer()), "nobody").await?;
        self.http.until_open(0).await;
        Ok(())
    }

    /// The fields of each request of a kind: of the body, or of the query where it has none.
    pub fn fields(&self, endpoint: Endpoint) -> Vec<Vec<(String, String)>> {
        let fields = |seen: &Seen| {
            let query = seen.path.split_once('?').map_or("", |(_, query)| query);
            let text = if seen.body().is_empty() { query.as_bytes() } else { seen.body() };
            form_urlencoded::parse(text).into_owned().collect()
        };
        self.http.seen().iter().filter(|seen| Endpoint::of(seen) == endpoint).map(fields).collect()
    }

    /// Everything that arrived, as text: paths, headers and bodies, decoded where they were encoded.
    pub fn heard(&self) -> String {
        heard(&self.http)
    }

    /// Every token, code, verifier and client secret that it gave or was shown.
    pub fn secrets(&self) -> Vec<String> {
        self.shared.ledger().secrets()
    }

    /// The refresh token that is good at the moment, of the newest sign-in.
    pub fn newest_refresh(&self) -> Option<String> {
        self.shared.ledger().newest_refresh()
    }

    /// How many sign-ins were taken back, because something was used twice.
    pub fn taken_back(&self) -> usize {
        self.shared.ledger().revoked_families()
    }
}

/// Everything that arrived at a server, as text.
fn heard(http: &OddHttp) -> String {
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
    fn of(seen: &Seen) -> Self {
        match seen.path.split('?').next().unwrap_or_default() {
            "/.well-known/oauth-authorization-server" | "/.well-known/openid-configuration" => Self::Metadata,
            "/keys" => Self::Keys,
            "/register" => Self::Registration,
            "/authorize" => Self::Page,
            "/token" => {
                let grant = form_urlencoded::parse(seen.body()).find(|(name, _)| name == "grant_type");
                match grant.map(|(_, grant)| grant).as_deref() {
                    Some("refresh_token") => Self::Renewal,
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

    fn conduct(&self) -> Conduct {
        self.conduct.lock().clone()
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

    /// A client that is known, or whose id is the address of a document.
    fn client(&self, id: &str) -> Option<Client> {
        let documented = self.conduct.lock().has(&Quirk::TakesDocuments) && id.starts_with("https://");
        self.ledger().clients.get(id).cloned().or_else(|| documented.then(Client::default))
    }

    fn trusted(&self) -> Trusted {
        Trusted { issuer: self.issuer(), key: self.signer.public() }
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let endpoint = Endpoint::of(seen);
        match self.conduct().told(|quirk| spoiled(quirk, endpoint)) {
            Some(Spoiled::Instead(reply)) => reply,
            Some(Spoiled::Before(act)) => self.proper(endpoint, seen).after(act),
            None => self.proper(endpoint, seen),
        }
    }

    fn proper(&self, endpoint: Endpoint, seen: &Seen) -> Reply {
        match endpoint {
            Endpoint::Metadata => document::metadata(self),
            Endpoint::Keys => Reply::json(200, &self.signer.keys()),
            Endpoint::Registration => document::register(self, seen),
            Endpoint::Page => page::visit(self, seen),
            Endpoint::Code | Endpoint::Renewal | Endpoint::Grant => grant::exchange(self, seen),
            Endpoint::Elsewhere => Reply::empty(404),
        }
    }
}

/// What a quirk does to the answers of an endpoint.
enum Spoiled {
    Instead(Reply),
    Before(Act),
}

fn spoiled(quirk: &Quirk, endpoint: Endpoint) -> Option<Spoiled> {
    match quirk {
        Quirk::Redirects(place, to) if *place == endpoint => {
            Some(Spoiled::Instead(Reply::empty(307).header("Location", to.clone())))
        }
        Quirk::Endless(place) if *place == endpoint => {
            let reply = Reply::bare().say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"x\":\"");
            Some(Spoiled::Instead(reply.then(Act::SayForEver(vec![b'x'; 64 * 1024]))))
        }
        Quirk::Answers(place, status) if *place == endpoint => Some(Spoiled::Instead(Reply::empty(*status))),
        Quirk::Silent(place) if *place == endpoint => Some(Spoiled::Instead(Reply::bare().then(Act::Hang))),
        Quirk::Late(place, time) if *place == endpoint => Some(Spoiled::Before(Act::Wait(*time))),
        _ => None,
    }
}
