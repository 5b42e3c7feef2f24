//! Test setup: a server, a scripted authorization server, and a user who signs in at once.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use toolway_config::Secret;
use toolway_wire::up::credential::{Challenge, ChallengeAction, Credentials as _, OutgoingRequest};
use url::Url;

use crate::{
    browser::{Browser, BrowserError, SignInPrompt, Visit},
    callback::ReceivedCallback,
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens},
    fetch::{Fetch, FetchError},
    refresh_tracker::RefreshTracker,
    scope::Scopes,
    scripted::ScriptedFetch,
    session::{Session, SessionOptions},
    settings::Settings,
    sign_in::SignIn,
    vault::MemoryVault,
};

pub(super) const SERVER: &str = "https://example.org/mcp";
pub(super) const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
pub(super) const LOGIN: &str = "https://login.example";
pub(super) const TOKEN: &str = "https://login.example/token";

/// Signs in at once, or fails with the given error.
#[derive(Clone, Debug, Default)]
pub(super) struct TestBrowser {
    pub(super) prompts: Arc<Mutex<Vec<SignInPrompt>>>,
    pub(super) declines: Option<BrowserError>,
}

impl Browser for TestBrowser {
    fn prepare<'a>(&'a self, _before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>> {
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn Visit>) })
    }
}

impl Visit for TestBrowser {
    fn redirect(&self) -> Url {
        Url::parse("http://127.0.0.1:7/callback").unwrap()
    }

    fn begin(self: Box<Self>, prompt: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>> {
        let arrival = ReceivedCallback::pasted(callback_to(&prompt));
        self.prompts.lock().push(prompt);
        Box::pin(async move {
            // Other requests arrive while the user signs in.
            tokio::task::yield_now().await;
            self.declines.map_or(Ok(arrival), Err)
        })
    }
}

pub(super) fn callback_to(prompt: &SignInPrompt) -> Secret {
    Secret::new(format!("http://127.0.0.1:7/callback?code=c0de-1234&state={}", prompt.state.expose()))
}

pub(super) struct Scene {
    pub(super) remote: Arc<ScriptedFetch>,
    pub(super) vault: Arc<MemoryVault>,
    pub(super) browser: TestBrowser,
    pub(super) settings: Settings,
}

impl Scene {
    /// A server with the authorization server `LOGIN`, whose token responses are scripted.
    pub(super) fn new() -> Self {
        let remote = Arc::<ScriptedFetch>::default();
        script_resource(&remote, LOGIN);
        script_authorization_server(&remote, LOGIN);
        Self { remote, vault: Arc::default(), browser: TestBrowser::default(), settings: Settings::default() }
    }

    pub(super) fn issue_tokens(self, tokens: &[&str]) -> Self {
        for token in tokens {
            let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#);
            self.remote.answer(TOKEN, 200, body);
        }
        self
    }

    pub(super) fn session(&self, browser: Option<TestBrowser>) -> Session {
        Session::new(SessionOptions {
            name: "files".to_owned(),
            remedy: "run `toolway login files`".to_owned(),
            browser: browser.map(|browser| Arc::new(browser) as Arc<dyn Browser>),
            sign_in: self.sign_in("ada"),
            refreshes: RefreshTracker::default(),
        })
    }

    pub(super) fn interactive(&self) -> Session {
        self.session(Some(self.browser.clone()))
    }

    pub(super) fn sign_in(&self, principal: &str) -> SignIn {
        SignIn {
            principal: principal.to_owned(),
            server: Url::parse(SERVER).unwrap(),
            settings: self.settings.clone(),
            fetch: Arc::clone(&self.remote) as _,
            vault: Arc::clone(&self.vault) as _,
            proofs: None,
        }
    }

    pub(super) async fn store_token(&self, access: &str, ends: u64, source: RegistrationSource) {
        let tokens = Tokens {
            access: Secret::new(access),
            kind: TokenKind::Bearer,
            expires_at: Some(ends),
            refresh: Some(Secret::new("r3fresh-token")),
            requested: Scopes::parse("read").unwrap(),
            granted: None,
            obtained_at: 0,
        };
        let client = Registration {
            id: "kept-client".to_owned(),
            secret: None,
            method: AuthMethod::None,
            source,
            redirect: None,
            secret_expires_at: None,
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
        self.remote.urls().iter().filter(|asked| *asked == TOKEN).count()
    }
}

pub(super) fn script_resource(remote: &Arc<ScriptedFetch>, issuer: &str) {
    let document = format!(r#"{{"resource":"{SERVER}","authorization_servers":["{issuer}"]}}"#);
    remote.answer(RESOURCE, 200, document);
}

pub(super) fn script_authorization_server(remote: &Arc<ScriptedFetch>, issuer: &str) {
    let document = format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token",
            "registration_endpoint":"{issuer}/register","code_challenge_methods_supported":["S256"]}}"#
    );
    remote.answer(&format!("{issuer}/.well-known/oauth-authorization-server"), 200, document);
    let client = issuer.trim_start_matches("https://").replace('.', "-");
    remote.answer(&format!("{issuer}/register"), 201, format!(r#"{{"client_id":"client-of-{client}"}}"#));
}

pub(super) fn sending(url: &Url) -> OutgoingRequest<'_> {
    static NOTHING: Bytes = Bytes::new();
    OutgoingRequest { method: &Method::POST, url, body: &NOTHING }
}

pub(super) async fn authorization_header(session: &Session, url: &str) -> Option<HeaderValue> {
    let headers = session.headers(sending(&Url::parse(url).unwrap())).await.unwrap();
    headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value)
}

/// Refuses the credential that the session would send now.
pub(super) async fn challenge(session: &Session, status: StatusCode, header: &str) -> ChallengeAction {
    let presented = authorization_header(session, SERVER).await;
    challenge_with(session, status, header, presented).await
}

pub(super) async fn challenge_with(
    session: &Session,
    status: StatusCode,
    header: &str,
    presented: Option<HeaderValue>,
) -> ChallengeAction {
    let challenge = Challenge {
        status,
        method: Method::POST,
        url: Url::parse(SERVER).unwrap(),
        challenges: vec![header.to_owned()],
        presented,
        nonce: None,
    };
    session.handle_challenge(challenge).await
}

pub(super) fn param(prompt: &SignInPrompt, name: &str) -> Option<String> {
    let address = Url::parse(prompt.address.expose()).unwrap();
    address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

pub(super) const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
pub(super) const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;

/// A host that cannot be reached.
#[derive(Debug)]
pub(super) struct Unreachable;

impl Fetch for Unreachable {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let (target, reason) = (request.uri().to_string(), "connection refused".to_owned());
        Box::pin(async { Err(FetchError::Unreachable { target, reason }) })
    }
}
