//! Refusals and what follows them, with a person who signs in at once and strangers who answer from a script.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;
use toolway_config::Secret;
use toolway_wire::up::credential::{Challenge, Credentials, Next, Sending};
use url::Url;

use super::{Session, SessionOptions};
use crate::{
    browser::{Browser, Declined, Invitation, Visit},
    callback::Arrival,
    credential::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens, now},
    dpop::DpopKeys,
    fetch::{Fetch, FetchError},
    needed::Why,
    proof::ProofKeys as _,
    renewals::Renewals,
    rest::AFTER_FAILURE,
    scope::Scopes,
    scripted::{GIVEN_UP, Scripted},
    settings::Settings,
    sign_in::SignIn,
    vault::{MemoryVault, Vault as _, full::Full},
};

const SERVER: &str = "https://example.org/mcp";
const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
const LOGIN: &str = "https://login.example";
const TOKEN: &str = "https://login.example/token";

/// Signs in at once, or says what it was told to.
#[derive(Clone, Debug, Default)]
struct Person {
    invited: Arc<Mutex<Vec<Invitation>>>,
    declines: Option<Declined>,
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

fn callback_to(invitation: &Invitation) -> Secret {
    Secret::new(format!("http://127.0.0.1:7/callback?code=c0de-1234&state={}", invitation.state.expose()))
}

struct Scene {
    stranger: Arc<Scripted>,
    vault: Arc<MemoryVault>,
    person: Person,
    settings: Settings,
}

impl Scene {
    /// A server whose people sign in at `LOGIN`, which answers for tokens as scripted.
    fn new() -> Self {
        let stranger = Arc::<Scripted>::default();
        resource_names(&stranger, LOGIN);
        signs_in(&stranger, LOGIN);
        Self { stranger, vault: Arc::default(), person: Person::default(), settings: Settings::default() }
    }

    fn gives(self, tokens: &[&str]) -> Self {
        for token in tokens {
            let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#);
            self.stranger.answer(TOKEN, 200, body);
        }
        self
    }

    fn session(&self, person: Option<Person>) -> Session {
        Session::new(SessionOptions {
            name: "files".to_owned(),
            remedy: "run `toolway login files`".to_owned(),
            browser: person.map(|person| Arc::new(person) as Arc<dyn Browser>),
            sign_in: self.sign_in("ada"),
            renewals: Renewals::default(),
        })
    }

    fn interactive(&self) -> Session {
        self.session(Some(self.person.clone()))
    }

    fn sign_in(&self, principal: &str) -> SignIn {
        SignIn {
            principal: principal.to_owned(),
            server: Url::parse(SERVER).unwrap(),
            settings: self.settings.clone(),
            fetch: Arc::clone(&self.stranger) as _,
            vault: Arc::clone(&self.vault) as _,
            proofs: None,
        }
    }

    async fn keeps(&self, access: &str, ends: u64, source: RegistrationSource) {
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

    fn token_requests(&self) -> usize {
        self.stranger.asked().iter().filter(|asked| *asked == TOKEN).count()
    }
}

fn resource_names(stranger: &Arc<Scripted>, issuer: &str) {
    let document = format!(r#"{{"resource":"{SERVER}","authorization_servers":["{issuer}"]}}"#);
    stranger.answer(RESOURCE, 200, document);
}

fn signs_in(stranger: &Arc<Scripted>, issuer: &str) {
    let document = format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/authorize","token_endpoint":"{issuer}/token",
            "registration_endpoint":"{issuer}/register","code_challenge_methods_supported":["S256"]}}"#
    );
    stranger.answer(&format!("{issuer}/.well-known/oauth-authorization-server"), 200, document);
    let client = issuer.trim_start_matches("https://").replace('.', "-");
    stranger.answer(&format!("{issuer}/register"), 201, format!(r#"{{"client_id":"client-of-{client}"}}"#));
}

fn sending(url: &Url) -> Sending<'_> {
    static NOTHING: Bytes = Bytes::new();
    Sending { method: &Method::POST, url, body: &NOTHING }
}

async fn carried(session: &Session, url: &str) -> Option<HeaderValue> {
    let headers = session.headers(sending(&Url::parse(url).unwrap())).await.unwrap();
    headers.into_iter().find(|(name, _)| name == "authorization").map(|(_, value)| value)
}

/// A refusal of whatever the session would send now.
async fn refused(session: &Session, status: StatusCode, header: &str) -> Next {
    let presented = carried(session, SERVER).await;
    refused_with(session, status, header, presented).await
}

async fn refused_with(session: &Session, status: StatusCode, header: &str, presented: Option<HeaderValue>) -> Next {
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

fn param(invitation: &Invitation, name: &str) -> Option<String> {
    let address = Url::parse(invitation.address.expose()).unwrap();
    address.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;

#[tokio::test]
async fn without_a_person_a_refusal_is_a_sentence_and_no_traffic() {
    let scene = Scene::new();
    let session = scene.session(None);
    assert_eq!(carried(&session, SERVER).await, None);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    assert_eq!(
        session.needed().unwrap().to_string(),
        "files needs a sign-in: nobody has signed in yet; run `toolway login files`"
    );
    assert!(scene.stranger.asked().is_empty());
}

#[tokio::test]
async fn a_refusal_leads_through_the_sign_in_to_a_token_for_this_server_alone() {
    let scene = Scene::new().gives(&["t1"]);
    let session = scene.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, r#"Bearer scope="read""#).await, Next::Again);
    let token = carried(&session, "https://example.org/messages").await.unwrap();
    assert!(token == "Bearer t1" && token.is_sensitive());
    assert_eq!(carried(&session, "https://example.org:8443/mcp").await, None);
    assert_eq!(carried(&session, "http://example.org/mcp").await, None);

    let invited = scene.person.invited.lock().clone();
    assert_eq!((invited.len(), invited[0].issuer.as_str()), (1, LOGIN));
    assert_eq!(param(&invited[0], "scope").as_deref(), Some("read"));
    assert_eq!(param(&invited[0], "resource").as_deref(), Some(SERVER));
    let exchange = scene.stranger.asked().len() - 1;
    for (name, value) in [
        ("resource", SERVER),
        ("code", "c0de-1234"),
        ("client_id", "client-of-login-example"),
        ("redirect_uri", "http://127.0.0.1:7/callback"),
    ] {
        assert_eq!(scene.stranger.field(exchange, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(session.needed(), None);
}

#[tokio::test]
async fn eight_requests_with_a_token_that_ends_make_one_renewal() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 5, RegistrationSource::Dynamic).await;
    let (one, other) = (scene.session(None), scene.session(None));
    let requests = (0..8).map(|place| carried(if place % 2 == 0 { &one } else { &other }, SERVER));
    let carried = join_all(requests).await;
    assert!(carried.iter().all(|token| token.as_ref().unwrap() == "Bearer t2"), "{carried:?}");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_for_one_that_hangs_one_asks_and_all_end_with_it() {
    let soon = now() + 20;
    for (ends, refused) in [(soon, false), (1, false), (u64::MAX, true)] {
        let scene = Scene::new();
        scene.stranger.hangs_at(TOKEN);
        scene.keeps("t1", ends, RegistrationSource::Dynamic).await;
        let (session, began) = (scene.session(None), Instant::now());
        let url = Url::parse(SERVER).unwrap();
        let old = HeaderValue::from_static("Bearer t1");
        let asked = (0..8).map(|_| async {
            if refused {
                return refused_with(&session, UNAUTHORIZED, "Bearer", Some(old.clone())).await == Next::Again;
            }
            session.headers(sending(&url)).await.is_ok()
        });
        let went_on = join_all(asked).await;
        assert_eq!(went_on, [ends == soon; 8], "a token that has not ended is used, {ends}");
        assert_eq!(scene.token_requests(), 1, "{ends}");
        assert!(began.elapsed() < 2 * GIVEN_UP, "{ends}: {:?}", began.elapsed());
    }
}

/// What is kept under one key may be of another address of the same resource by now.
#[tokio::test]
async fn a_renewal_does_not_take_over_the_sign_in_of_another_address() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    session.shared.held().await.unwrap().unwrap();
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut other = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    other.server = "https://example.org/other".to_owned();
    other.tokens.as_mut().unwrap().access = Secret::new("somebody-elses");
    other.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(carried(&session, SERVER).await, None);
    assert_eq!(scene.token_requests(), 0);
}

/// A renewal under way would keep it again.
#[tokio::test]
async fn a_sign_in_is_forgotten_after_whoever_renews_it() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let (turn, kept) = (scene.vault.turn(&key).await.unwrap(), scene.vault.load(&key).await.unwrap().unwrap());
    let sign_in = scene.sign_in("ada");
    let renewal = async {
        tokio::task::yield_now().await;
        scene.vault.store(&key, kept).await.unwrap();
        drop(turn);
    };
    let (forgotten, ()) = tokio::join!(sign_in.forget(), renewal);
    assert_eq!((forgotten.unwrap(), scene.vault.keys().await.unwrap().len()), (1, 0));
}

/// A token that anybody could use in the place of one that is bound to a key.
#[tokio::test]
async fn a_token_of_another_kind_than_configured_is_neither_taken_nor_shown() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    let key = scene.vault.keys().await.unwrap().remove(0);
    let mut bound = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    let prover = DpopKeys.prover(None).unwrap();
    (bound.proof_key, bound.tokens.as_mut().unwrap().kind) = (Some(prover.key()), TokenKind::DPoP);
    bound.store(&*scene.vault, &key).await.unwrap();
    assert_eq!(carried(&scene.session(None), SERVER).await, None, "none is configured to be bound");

    let sign_in = SignIn { proofs: Some(Arc::new(DpopKeys)), ..scene.sign_in("ada") };
    let renewals = Renewals::default();
    let options = SessionOptions { name: "files".to_owned(), remedy: String::new(), browser: None, sign_in, renewals };
    assert_eq!(carried(&Session::new(options), SERVER).await.unwrap(), "DPoP t1", "the old one, until it ends");
    assert_eq!(scene.token_requests(), 1);
    let kept = Credential::load(&*scene.vault, &key).await.unwrap().unwrap();
    assert_eq!(kept.tokens.unwrap().access, Secret::new("t1"));
}

#[tokio::test]
async fn of_requests_that_were_refused_together_one_renews() {
    let scene = Scene::new().gives(&["t2", "t3"]);
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    let old = carried(&session, SERVER).await;
    let answers = join_all((0..4).map(|_| refused_with(&session, UNAUTHORIZED, "Bearer", old.clone()))).await;
    assert_eq!(answers, [Next::Again; 4]);
    assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", old).await, Next::Again, "refused late");
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp, "the new one was refused at once");
    assert_eq!(scene.token_requests(), 1, "and is not renewed again");
    assert_eq!(session.needed().unwrap().why, Why::Ended);
}

#[tokio::test]
async fn a_renewal_that_nobody_waits_for_is_kept_all_the_same() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    {
        let url = Url::parse(SERVER).unwrap();
        let mut request = session.headers(sending(&url));
        assert!(futures_util::poll!(request.as_mut()).is_pending());
    }
    session.settle().await;
    assert_eq!(carried(&scene.session(None), SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(scene.token_requests(), 1);
}

/// Else the refresh token that was used up would be sent once more, and whoever gives them would take all back.
#[tokio::test(start_paused = true)]
async fn a_new_token_that_could_not_be_kept_counts_until_it_is() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let kept = scene.vault.all().await.unwrap().remove(0);
    let (memory, reply) = (MemoryVault::default(), r#"{"access_token":"t2","token_type":"Bearer","expires_in":3600,"#);
    memory.store(&kept.0, kept.1).await.unwrap();
    scene.stranger.answer(TOKEN, 200, format!(r#"{reply}"refresh_token":"r2-refresh"}}"#));
    let vault = Arc::new(Full::of(memory));
    let sign_in = SignIn { vault: Arc::clone(&vault) as _, ..scene.sign_in("ada") };
    let renewals = Renewals::default();
    let session = || {
        let (name, sign_in, renewals) = ("files".to_owned(), sign_in.clone(), renewals.clone());
        Session::new(SessionOptions { name, remedy: String::new(), browser: None, sign_in, renewals })
    };
    let (session, other) = (session(), session());
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp, "it is as new as can be");
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2", "and the old one does not count");
    assert_eq!(carried(&other, SERVER).await.unwrap(), "Bearer t2", "for another connection either");

    vault.has_room();
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    session.settle().await;
    let tokens = Credential::load(&*vault, &kept.0).await.unwrap().unwrap().tokens.unwrap();
    assert_eq!(tokens.refresh.unwrap().expose(), "r2-refresh", "it was kept later");
    assert_eq!(scene.token_requests(), 1);
}

#[tokio::test]
async fn a_rejected_renewal_is_a_needed_sign_in_once_and_no_loop() {
    let scene = Scene::new();
    scene.stranger.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    scene.keeps("t1", 0, RegistrationSource::Dynamic).await;
    let session = scene.session(None);
    for _ in 0..3 {
        assert_eq!(carried(&session, SERVER).await, None);
        assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", None).await, Next::GiveUp);
    }
    assert_eq!(scene.token_requests(), 1);
    assert_eq!(session.needed().unwrap().why, Why::Ended);
    let kept = Credential::find(&*scene.vault, "ada", SERVER).await.unwrap().unwrap().1;
    assert_eq!((kept.client.id.as_str(), kept.tokens), ("kept-client", None));
}

#[tokio::test]
async fn a_step_up_asks_for_all_of_before_and_a_plain_403_is_final() {
    let scene = Scene::new().gives(&["t2"]);
    scene.keeps("t1", u64::MAX, RegistrationSource::Dynamic).await;
    let session = scene.interactive();
    assert_eq!(refused(&session, FORBIDDEN, r#"Bearer scope="write""#).await, Next::GiveUp);
    assert_eq!((session.needed(), scene.stranger.asked().len()), (None, 0));
    let more = r#"Bearer error="insufficient_scope", scope="write""#;
    assert_eq!(refused(&session, FORBIDDEN, more).await, Next::Again);
    assert_eq!(param(&scene.person.invited.lock()[0], "scope").as_deref(), Some("read write"));
    assert_eq!(refused(&session, FORBIDDEN, more).await, Next::GiveUp, "that was asked for a moment ago");
    assert_eq!(session.needed().unwrap().why, Why::TooOften);
    let without_person = scene.session(None);
    assert_eq!(refused(&without_person, FORBIDDEN, more).await, Next::GiveUp);
    assert!(matches!(without_person.needed().unwrap().why, Why::MoreScopes(_)));
}

#[tokio::test]
async fn a_server_that_always_wants_more_sends_nobody_round_more_than_three_times() {
    let scene = Scene::new().gives(&["t1", "t2", "t3", "t4", "t5"]);
    let session = scene.interactive();
    for round in 0..6 {
        let more = format!(r#"Bearer error="insufficient_scope", scope="s{round}""#);
        let next = refused(&session, FORBIDDEN, &more).await;
        assert_eq!(next, if round < 3 { Next::Again } else { Next::GiveUp });
    }
    assert_eq!(scene.person.invited.lock().len(), 3);
}

/// CVE-2026-104850, WS-2026-0196: the server chooses who gets the client's secret.
#[tokio::test]
async fn the_operators_client_is_never_shown_to_another_issuer() {
    let mut scene = Scene::new();
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("s3cret-word"));
    scene.keeps("t1", u64::MAX, RegistrationSource::Configured).await;
    let evil = Arc::<Scripted>::default();
    resource_names(&evil, "https://evil.example");
    signs_in(&evil, "https://evil.example");
    scene.stranger = evil;
    scene.stranger.answer(TOKEN, 400, r#"{"error":"invalid_grant"}"#);
    let session = scene.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let why = session.needed().unwrap().why;
    assert_eq!(why, Why::IssuerChanged { before: LOGIN.to_owned(), now: "https://evil.example".to_owned() });
    assert!(scene.person.invited.lock().is_empty());
    assert!(!scene.stranger.asked().iter().any(|asked| asked == "https://evil.example/token"));
}

#[tokio::test]
async fn a_new_issuer_gets_a_new_client_and_nothing_of_the_old_one() {
    let scene = Scene::new().gives(&["first-token"]);
    refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let second = "https://second.example";
    let moved = Scene { stranger: Arc::default(), ..scene };
    resource_names(&moved.stranger, second);
    signs_in(&moved.stranger, second);
    moved.stranger.answer("https://second.example/token", 200, r#"{"access_token":"t2","token_type":"Bearer"}"#);
    let session = moved.interactive();
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t2");
    let invited = moved.person.invited.lock()[1].clone();
    assert_eq!((invited.issuer.as_str(), invited.before.as_deref()), (second, Some(LOGIN)), "the person is told");
    for heard in moved.stranger.heard.lock().iter() {
        let sent = format!("{heard:?}");
        assert!(!sent.contains("client-of-login-example") && !sent.contains("first-token"), "{sent}");
    }
    assert_eq!(moved.vault.keys().await.unwrap().len(), 1, "and the old one is forgotten");
}

#[tokio::test]
async fn a_sign_in_of_another_process_is_noticed() {
    let scene = Scene::new().gives(&["t1"]);
    let session = scene.session(None);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    assert_eq!(refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer t1");
    assert_eq!(session.needed(), None);
}

#[tokio::test]
async fn a_sign_in_can_be_finished_by_another_process_and_by_its_owner_only() {
    let scene = Scene::new().gives(&["t1"]);
    let later = Person { declines: Some(Declined::Later), ..scene.person.clone() };
    let session = scene.session(Some(later));
    assert_eq!(refused(&session, UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let needed = session.needed().unwrap();
    let invitation = scene.person.invited.lock()[0].clone();
    assert_eq!((needed.why, needed.address.as_ref()), (Why::Begun, Some(&invitation.address)));
    let callback = callback_to(&invitation);
    for mistake in ["c0de-1234", "http://127.0.0.1:7/callback?code=c0de-1234&state=guess"] {
        assert!(scene.sign_in("ada").finish_waiting(&Secret::new(mistake)).await.is_err(), "{mistake}");
    }
    assert!(scene.sign_in("eve").finish_waiting(&callback).await.is_err());
    scene.sign_in("ada").finish_waiting(&callback).await.unwrap();
    let again = scene.sign_in("ada").finish_waiting(&callback).await.unwrap_err();
    assert_eq!(again.to_string(), "no sign-in waits for this callback; it ended, or was begun elsewhere");
    assert_eq!(refused_with(&session, UNAUTHORIZED, "Bearer", None).await, Next::Again);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1);
    assert!(scene.vault.keys().await.unwrap().is_empty());
}

#[tokio::test]
async fn one_persons_token_is_never_anothers() {
    let scene = Scene::new().gives(&["t1"]);
    refused(&scene.interactive(), UNAUTHORIZED, "Bearer").await;
    let options = SessionOptions {
        name: "files".to_owned(),
        remedy: String::new(),
        browser: None,
        sign_in: scene.sign_in("eve"),
        renewals: Renewals::default(),
    };
    assert_eq!(carried(&Session::new(options), SERVER).await, None);
}

#[tokio::test]
async fn a_server_that_does_not_answer_keeps_a_token_that_has_not_ended() {
    let scene = Scene::new();
    scene.stranger.answer(TOKEN, 503, "later");
    scene.keeps("t1", now() + 20, RegistrationSource::Dynamic).await;
    assert_eq!(carried(&scene.session(None), SERVER).await.unwrap(), "Bearer t1");
    scene.keeps("t0", now() - 1, RegistrationSource::Dynamic).await;
    let url = Url::parse(SERVER).unwrap();
    let failed = scene.session(None).headers(sending(&url)).await.unwrap_err();
    assert!(failed.to_string().contains("cannot be renewed"), "{failed}");
    assert_eq!(failed.code(), "no_token");
}

#[tokio::test]
async fn a_person_who_says_no_is_asked_once_for_all_that_waited() {
    let scene = Scene::new();
    let unwilling = Person { declines: Some(Declined::Refused), ..scene.person.clone() };
    let session = scene.session(Some(unwilling));
    let answers = join_all((0..5).map(|_| refused_with(&session, UNAUTHORIZED, "Bearer", None))).await;
    assert_eq!(answers, [Next::GiveUp; 5]);
    assert_eq!(scene.person.invited.lock().len(), 1);
    assert_eq!(session.needed().unwrap().why, Why::Failed("the sign-in was given up".to_owned()));
}

/// The operator means somebody else now: neither the old token nor the new secret has anything to do there.
#[tokio::test]
async fn what_came_from_elsewhere_than_the_operator_says_is_not_used() {
    let mut scene = Scene::new();
    scene.keeps("t1", now() + 5, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    scene.settings.client_secret = Some(Secret::new("new-s3cret"));
    scene.settings.token_url = Some(Url::parse("https://other.example/token").unwrap());
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
    assert!(scene.stranger.asked().is_empty(), "nothing was sent to whoever it was before");

    // A document may name somebody else by now, so what is not known there stays here.
    scene.settings.token_url = None;
    scene.settings.metadata_url = Some(Url::parse("https://other.example/metadata").unwrap());
    scene.stranger.answer(TOKEN, 401, r#"{"error":"invalid_client"}"#);
    carried(&scene.session(None), SERVER).await;
    assert_eq!(scene.token_requests(), 1);
    assert!(!format!("{:?}", scene.stranger.heard.lock()).contains("new-s3cret"));
}

/// The kind of `auth` was changed: what a client of ours was given is no person's sign-in.
#[tokio::test]
async fn a_token_that_nobody_signed_in_for_is_nobodys_sign_in() {
    let scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Unattended).await;
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
    assert_eq!(scene.sign_in("ada").forget().await.unwrap(), 1, "though it can be forgotten");
}

#[tokio::test]
async fn a_sign_in_waits_on_where_nobody_could_be_reached_to_finish_it() {
    let scene = Scene::new().gives(&["t1"]);
    let later = Person { declines: Some(Declined::Later), ..scene.person.clone() };
    refused(&scene.session(Some(later)), UNAUTHORIZED, "Bearer").await;
    let callback = callback_to(&scene.person.invited.lock()[0].clone());
    let away = SignIn { fetch: Arc::new(Away), ..scene.sign_in("ada") };
    let failed = away.finish_waiting(&callback).await.unwrap_err();
    assert!(matches!(failed.why(), Why::Unanswered(_)));
    scene.sign_in("ada").finish_waiting(&callback).await.unwrap();
}

/// Nobody is there.
#[derive(Debug)]
struct Away;

impl Fetch for Away {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        let (target, reason) = (request.uri().to_string(), "nobody is there".to_owned());
        Box::pin(async { Err(FetchError::Unreachable { target, reason }) })
    }
}

#[tokio::test]
async fn a_token_of_a_client_that_is_not_configured_any_more_is_not_used() {
    let mut scene = Scene::new();
    scene.keeps("t1", u64::MAX, RegistrationSource::Configured).await;
    scene.settings.client_id = Some("kept-client".to_owned());
    assert!(carried(&scene.session(None), SERVER).await.is_some());
    scene.settings.client_id = Some("new-client".to_owned());
    assert_eq!(carried(&scene.session(None), SERVER).await, None);
}

const AWAY: &str = "no token for now: https://login.example/token cannot answer at the moment (HTTP 503)";

#[tokio::test(start_paused = true)]
async fn a_renewal_that_nobody_answers_is_said_and_tried_again_a_moment_later() {
    let scene = Scene::new();
    scene.keeps("0ld-token", now() + 3600, RegistrationSource::Dynamic).await;
    scene.stranger.answer(TOKEN, 503, "come back later");
    let scene = scene.gives(&["n3w-token"]);
    let session = scene.session(None);
    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::GiveUp);
    let needed = session.needed().unwrap().to_string();
    assert!(needed.starts_with("files needs a sign-in: ") && !needed.contains("come back later"), "{needed}");
    let said = session.instead().unwrap();
    assert_eq!((said.code(), &*said.to_string()), ("no_token", AWAY), "nobody has to sign in for that");
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer 0ld-token", "nothing was forgotten");

    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::GiveUp, "it is left alone");
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(refused(&session, StatusCode::UNAUTHORIZED, "Bearer").await, Next::Again);
    assert_eq!(carried(&session, SERVER).await.unwrap(), "Bearer n3w-token");
    assert_eq!((session.needed(), scene.token_requests()), (None, 2));
    assert!(session.instead().is_none());
}
