//! What the stories of sessions are told with: a server, strangers who answer from a script, a person who signs in at once.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use toolway_config::Secret;
use toolway_wire::up::credential::{Challenge, Credentials as _, Next, Sending};
use url::Url;

use crate::{
    browser::{Browser, Declined, Invitation, Visit},
    callback::Arrival,
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens},
    fetch::{Fetch, FetchError},
    renewals::Renewals,
    scope::Scopes,
    scripted::Scripted,
    session::{Session, SessionOptions},
    settings::Settings,
    sign_in::SignIn,
    vault::MemoryVault,
};

pub(super) const SERVER: &str = "https://example.org/mcp";
pub(super) const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
pub(super) const LOGIN: &str = "https://login.example";
pub(super) const TOKEN: &str = "https://login.example/token";

/// Signs in at once, or says what it was told to.
#[derive(Clone, Debug, Default)]
pub(super) struct Person {
    pub(super) invited: Arc<Mutex<Vec<Invitation>>>,
    pub(super) declines: Option<Declined>,
}

impl Browser for Person {
    fn ready<'a>(&'a self, _before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, Declined>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn Visit>) })
    }
}

impl Visit for Person {
    fn redirect(&self) -> Url {
        Url::parse("http://127.0.0.1:7/callback").unwrap()
    }

    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Arrival, Declined>> {
        let arrival = Arrival::brought(callback_to(&invitation));
        self.invited.lock().push(invitation);
        Box::pin(async move {
            // A person takes time, and others come along meanwhile.
            tokio::task::yield_now().await;
            self.declines.map_or(Ok(arrival), Err)
        })
    }
}

pub(super) fn callback_to(invitation: &Invitation) -> Secret {
    Secret::new(format!("http://127.0.0.1:7/callback?code=c0de-1234&state={}", invitation.state.expose()))
}

pub(super) struct Scene {
    pub(super) stranger: Arc<Scripted>,
    pub(super) vault: Arc<MemoryVault>,
    pub(super) person: Person,
    pub(super) settings: Settings,
}

impl Scene {
    /// A server whose people sign in at `LOGIN`, which answers for tokens as scripted.
    pub(super) fn new() -> Self {
        let stranger = Arc::<Scripted>::default();
        resource_names(&stranger, LOGIN);
        signs_in(&stranger, LOGIN);
        Self { stranger, vault: Arc::default(), person: Person::default(), settings: Settings::default() }
    }

    pub(super) fn gives(self, tokens: &[&str]) -> Self {
        for token in tokens {
            let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#);
            self.stranger.answer(TOKEN, 200, body);
        }
        self
    }

    pub(super) fn session(&self, person: Option<Person>) -> Session {
        Session::new(SessionOptions {
            name: "files".to_owned(),
            remedy: "run `toolway login files`".to_owned(),
            browser: person.map(|person| Arc::new(person) as Arc<dyn Browser>),
            sign_in: self.sign_in("ada"),
            renewals: Renewals::default(),
        })
    }

    pub(super) fn interactive(&self) -> Session {
        self.session(Some(self.person.clone()))
    }

    pub(super) fn sign_in(&self, principal: &str) -> SignIn {
        SignIn {
            principal: principal.to_owned(),
            server: Url::parse(SERVER).unwrap(),
            settings: self.settings.clone(),
            fetch: Arc::clone(&self.stranger) as _,
            vault: Arc::clone(&self.vault) as _,
            proofs: None,
        }
    }

    pub(super) async fn keeps(&self, access: &str, ends: u64, source: RegistrationSource) {
        let tokens = Tokens {
            access: Secret::new(access),
            kind: TokenKind::Bearer,
            ends: Some(ends),
            refresh: Some(Secret::new("r3fresh-token")),
            requested: Scopes::parse("read").unwrap(),
            granted: None,
            since: 0,
        };
        let client = Registration {
            id: "kept-client".to_owned(),
            secret: None,
            method: AuthMethod::None,
            source,
            redirect: None,
            secret_ends: None,
        };
        let key = CredentialKey {
            principal: "ada".to_owned(),
            issuer: LOGIN.to_owned(),
            client: client.id.clone(),
            resource: SERVER.to_owned(),
        };
        let token_endpoint = Url::parse(TOKEN).unwrap();
        let credential =
            Credential { server: SERVER.to_owned(), token_endpoint, client, tokens: Some(tokens), proof_key: None };
        credential.store(&*self.vault, &key).await.unwrap();
    }

    pub(super) fn token_requests(&self) -> usize {
        self.stranger.asked().iter().filter(|asked| *asked == TOKEN).count()
    }
}

pub(super) fn resource_names(stranger: &Arc<Scripted>, issuer: &str) {
    let document = format!(r#"{{"resource":"{SERVER}","authorization_servers":["{issuer}"]}}"#);
    stranger.answer(RESOURCE, 200, document);
}

pub(super) fn signs_in(stranger: &Arc<Scripted>, issuer: &str) {
    let document = format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token",
            "registration_endpoint":"{issuer}/register","code_challenge_methods_supported":["S256"]}}"#
    );
    stranger.answer(&format!("{issuer}/.well-known/oauth-authorization-server"), 200, document);
    let client = issuer.trim_start_matches("https://").replace('.', "-");
    stranger.answer(&format!("{issuer}/register"), 201, format!(r#"{{"client_id":"client-of-{client}"}}"#));
}

pub(super) fn sending(url: &Url) -> Sending<'_> {
    static NOTHING: Bytes = Bytes::new();
    Sending { method: &Method::POST, url, body: &NOTHING }
}

pub(super) async fn carried(session: &Session, url: &str) -> Option<HeaderValue> {
    let headers = session.headers(sending(&Url::parse(url).unwrap())).await.unwrap();
    headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value)
}

/// A refusal of whatever the session would send now.
pub(super) async fn refused(session: &Session, status: StatusCode, header: &str) -> Next {
    let presented = carried(session, SERVER).await;
    refused_with(session, status, header, presented).await
}

pub(super) async fn refused_with(
    session: &Session,
    status: StatusCode,
    header: &str,
    presented: Option<HeaderValue>,
) -> Next {
    let challenge = Challenge {
        status,
        method: Method::POST,
        url: Url::parse(SERVER).unwrap(),
        challenges: vec![header.to_owned()],
        presented,
        nonce: None,
    };
    session.challenged(challenge).await
}

pub(super) fn param(invitation: &Invitation, name: &str) -> Option<String> {
    let address = Url::parse(invitation.address.expose()).unwrap();
    address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

pub(super) const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
pub(super) const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;

/// Nobody is there.
#[derive(Debug)]
pub(super) struct Away;

impl Fetch for Away {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let (target, reason) = (request.uri().to_string(), "nobody is there".to_owned());
        Box::pin(async { Err(FetchError::Unreachable { target, reason }) })
    }
}
