//! Tests of credentials without a user. Which authorization servers get a secret is in `issuer`.

mod issuer;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, header};
use tokio::time::Instant;
use toolway_config::Secret;

use super::*;
use crate::{
    cooldown::AFTER_FAILURE,
    credential::{RegistrationSource, Tokens},
    dpop::DpopKeys,
    grant::{
        Client, Enterprise, Google, Workload,
        enterprise::Provider,
        google::{self, CredentialPaths, GoogleMetadataServer},
    },
    jwt::tests::P256,
    proof::DPOP,
    scripted::{SCRIPTED_TIMEOUT, ScriptedFetch},
    vault::MemoryVault,
};

const SERVER: &str = "https://example.org/mcp";
const RESOURCE: &str = "https://example.org/.well-known/oauth-protected-resource/mcp";
const LOGIN: &str = "https://login.example/.well-known/oauth-authorization-server";
const TOKEN: &str = "https://login.example/token";

fn resource(issuer: &str) -> String {
    format!(r#"{{"resource":"{SERVER}","authorization_servers":["{issuer}"],"scopes_supported":["read"]}}"#)
}

fn token(text: &str) -> String {
    format!(r#"{{"access_token":"{text}","token_type":"Bearer","expires_in":3600}}"#)
}

/// A server and two authorization servers that have no token response yet.
fn world() -> Arc<ScriptedFetch> {
    let login = |issuer: &str| format!(r#"{{"issuer":"{issuer}","token_endpoint":"{issuer}/token"}}"#);
    Arc::<ScriptedFetch>::default()
        .answer(RESOURCE, 200, resource("https://login.example"))
        .answer(LOGIN, 200, login("https://login.example"))
        .answer(&LOGIN.replace("login", "evil"), 200, login("https://evil.example"))
}

fn options(world: &Arc<ScriptedFetch>, vault: &Arc<MemoryVault>) -> UnattendedOptions {
    UnattendedOptions {
        name: "files".to_owned(),
        remedy: "look at auth.clientSecret".to_owned(),
        principal: "operator".to_owned(),
        server: Url::parse(SERVER).unwrap(),
        grant: Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-secret"))),
        settings: Settings { issuer: Some("https://login.example".to_owned()), ..Settings::default() },
        fetch: Arc::clone(world) as Arc<dyn Fetch>,
        vault: Arc::clone(vault) as Arc<dyn Vault>,
        proofs: None,
    }
}

fn unattended(world: &Arc<ScriptedFetch>, vault: &Arc<MemoryVault>) -> Unattended {
    Unattended::new(options(world, vault))
}

async fn authorization_header(unattended: &Unattended) -> Option<String> {
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::new());
    let headers = unattended.headers(OutgoingRequest { method: &method, url: &url, body: &body }).await.unwrap();
    let authority = headers.into_iter().find(|(name, _)| *name == header::AUTHORIZATION);
    authority.map(|(_, value)| value.to_str().unwrap().to_owned())
}

fn refusal(status: u16, presented: Option<&str>, challenge: &str) -> Challenge {
    Challenge {
        status: StatusCode::from_u16(status).unwrap(),
        method: Method::POST,
        url: Url::parse(SERVER).unwrap(),
        challenges: vec![challenge.to_owned()],
        presented: presented.map(|text| HeaderValue::from_str(text).unwrap()),
        nonce: None,
    }
}

fn token_requests(world: &ScriptedFetch) -> usize {
    world.urls().iter().filter(|address| *address == TOKEN).count()
}

/// Ages the token in use and the one in the vault.
async fn age(unattended: &Unattended, vault: &MemoryVault, seconds: u64) {
    let older = |tokens: &mut Tokens| {
        tokens.obtained_at -= seconds;
        tokens.expires_at = tokens.expires_at.map(|ends| ends - seconds);
    };
    let key = vault.keys().await.unwrap().remove(0);
    let mut kept = Credential::load(vault, &key).await.unwrap().unwrap();
    older(kept.tokens.as_mut().unwrap());
    kept.store(vault, &key).await.unwrap();
    let mut aged = ActiveCredential::clone(&unattended.held.get().flatten().expect("a credential is loaded"));
    older(&mut aged.tokens);
    unattended.held.set(Some(Arc::new(aged)));
}

#[tokio::test]
async fn first_refusal_leads_to_a_token_that_the_next_process_uses() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let first = unattended(&world, &vault);
    assert_eq!(authorization_header(&first).await, None, "no challenge yet");
    assert!(world.urls().is_empty());
    assert_eq!(first.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&first).await.as_deref(), Some("Bearer one"));
    let sent = world.requests.lock().len() - 1;
    assert_eq!(world.field(sent, "resource").as_deref(), Some(SERVER));
    assert_eq!(world.field(sent, "scope").as_deref(), Some("read"));

    let asked = world.urls().len();
    assert_eq!(authorization_header(&unattended(&world, &vault)).await.as_deref(), Some("Bearer one"));
    assert_eq!(world.urls().len(), asked);
    let kept = vault.load(&vault.keys().await.unwrap()[0]).await.unwrap().unwrap();
    assert!(!kept.expose().contains("s3cret-secret"), "the secret is not stored");
}

#[tokio::test]
async fn token_is_sent_to_its_server_only() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    let (method, body) = (Method::POST, Bytes::new());
    for elsewhere in ["https://evil.example/mcp", "http://example.org/mcp", "https://example.org:8443/mcp"] {
        let url = Url::parse(elsewhere).unwrap();
        assert!(own.headers(OutgoingRequest { method: &method, url: &url, body: &body }).await.unwrap().is_empty());
        let foreign = Challenge { url, ..refusal(401, None, "Bearer") };
        assert_eq!(own.handle_challenge(foreign).await, ChallengeAction::GiveUp);
    }
}

#[tokio::test]
async fn requests_that_were_refused_together_send_one_token_request() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let (here, there) = (unattended(&world, &vault), unattended(&world, &vault));
    let refused = (0..8).map(|place| {
        let one = if place % 2 == 0 { &here } else { &there };
        one.handle_challenge(refusal(401, None, "Bearer"))
    });
    assert!(join_all(refused).await.iter().all(|next| *next == ChallengeAction::Retry));
    assert_eq!(token_requests(&world), 1);
    assert_eq!(
        (authorization_header(&here).await, authorization_header(&there).await),
        (Some("Bearer one".into()), Some("Bearer one".into()))
    );
}

#[tokio::test]
async fn token_is_replaced_before_it_expires_by_one_request() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    age(&own, &vault, 3590).await;
    let all = join_all((0..8).map(|_| authorization_header(&own))).await;
    assert!(all.iter().all(|one| one.as_deref() == Some("Bearer two")), "{all:?}");
    assert_eq!(token_requests(&world), 2);
}

#[tokio::test]
async fn refused_token_is_replaced_once() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    assert_eq!(own.handle_challenge(refusal(401, Some("Bearer one"), "Bearer")).await, ChallengeAction::Retry);
    assert_eq!(
        own.handle_challenge(refusal(401, Some("Bearer one"), "Bearer")).await,
        ChallengeAction::Retry,
        "sent before that"
    );
    assert_eq!(token_requests(&world), 2);
    assert_eq!(own.handle_challenge(refusal(401, Some("Bearer two"), "Bearer")).await, ChallengeAction::GiveUp);
    assert_eq!(
        own.watch().borrow().as_ref().unwrap().to_string(),
        "`files` requires sign-in: the server refuses the token that `https://login.example` has just issued; look at \
        auth.clientSecret"
    );
    assert_eq!(token_requests(&world), 2);
}

#[tokio::test]
async fn refused_client_is_not_retried_during_the_pause() {
    let no = r#"{"error":"invalid_client","error_description":"s3cret-secret is wrong"}"#;
    let (world, vault) = (world().answer(TOKEN, 401, no), Arc::default());
    let own = unattended(&world, &vault);
    for _ in 0..3 {
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
        let needed = own.watch().borrow().clone().unwrap();
        assert_eq!(
            needed.reason.to_string(),
            "token request to `https://login.example/token` refused: `invalid_client` ([hidden] is wrong)"
        );
    }
    assert_eq!(token_requests(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_hanging_host_share_one_request() {
    for hanging in [RESOURCE, LOGIN, TOKEN] {
        let (world, vault) = (world().hang_at(hanging), Arc::default());
        let (own, began) = (unattended(&world, &vault), Instant::now());
        let refused = (0..8).map(|_| own.handle_challenge(refusal(401, None, "Bearer")));
        assert!(join_all(refused).await.iter().all(|next| *next == ChallengeAction::GiveUp));
        assert_eq!(world.urls().iter().filter(|asked| *asked == hanging).count(), 1, "{hanging}");
        assert!(began.elapsed() < 2 * SCRIPTED_TIMEOUT, "{hanging}: {:?}", began.elapsed());
        let why = own.watch().borrow().clone().unwrap().reason;
        assert!(matches!(why, SignInReason::Unavailable(_)), "{hanging}: {why}");
        tokio::time::advance(AFTER_FAILURE).await;
        own.handle_challenge(refusal(401, None, "Bearer")).await;
        assert_eq!(world.urls().iter().filter(|asked| *asked == hanging).count(), 2, "it is tried again later");
    }
}

#[tokio::test]
async fn missing_scope_is_requested_with_all_others_and_a_plain_403_is_final() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    assert_eq!(own.handle_challenge(refusal(403, Some("Bearer one"), "Bearer")).await, ChallengeAction::GiveUp);
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(own.handle_challenge(refusal(403, Some("Bearer one"), more)).await, ChallengeAction::Retry);
    let last = world.requests.lock().len() - 1;
    assert_eq!(world.field(last, "scope").as_deref(), Some("read write"));
    assert_eq!(
        own.handle_challenge(refusal(403, Some("Bearer two"), more)).await,
        ChallengeAction::GiveUp,
        "it did not help"
    );
}

#[tokio::test]
async fn bound_tokens_are_sent_with_proofs() {
    let vault = Arc::default();
    let with = |world: &Arc<ScriptedFetch>| {
        Unattended::new(UnattendedOptions { proofs: Some(Arc::new(DpopKeys)), ..options(world, &vault) })
    };
    let own = with(&world().answer(TOKEN, 200, token("one")));
    assert_eq!(own.handle_challenge(refusal(401, None, "DPoP")).await, ChallengeAction::GiveUp);
    assert!(own.watch().borrow().as_ref().unwrap().to_string().contains("not bound to the DPoP key"));

    let world = world().answer(TOKEN, 200, token("one").replace("Bearer", "DPoP"));
    let own = with(&world);
    assert_eq!(own.handle_challenge(refusal(401, None, "DPoP")).await, ChallengeAction::Retry);
    assert!(world.requests.lock().last().unwrap().headers().contains_key(DPOP));
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::from_static(b"{}"));
    let headers = own.headers(OutgoingRequest { method: &method, url: &url, body: &body }).await.unwrap();
    assert_eq!((headers[0].1.to_str().unwrap(), &headers[1].0), ("DPoP one", &DPOP));
    let nonce = Challenge {
        nonce: Some(HeaderValue::from_static("once")),
        ..refusal(401, Some("DPoP one"), "DPoP error=\"use_dpop_nonce\"")
    };
    assert_eq!(own.handle_challenge(nonce).await, ChallengeAction::Retry);
    assert_eq!(token_requests(&world), 1, "only the nonce was missing");
    assert_eq!(
        authorization_header(&with(&world)).await.as_deref(),
        Some("DPoP one"),
        "the key is stored with its token"
    );
}

#[tokio::test]
async fn google_token_is_requested_before_the_first_refusal() {
    let (folder, vault) = (tempfile::tempdir().unwrap(), Arc::default());
    let file = folder.path().join("person.json");
    let person = r#"{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}"#;
    std::fs::write(&file, person).unwrap();
    let world = Arc::<ScriptedFetch>::default().answer(google::TOKEN_ENDPOINT, 200, token("g"));
    let fetch = Arc::clone(&world) as Arc<dyn Fetch>;
    let machine = GoogleMetadataServer { url: Url::parse(google::METADATA_URL).unwrap(), fetch: Arc::clone(&fetch) };
    let places = CredentialPaths { configured: Some(file), ..CredentialPaths::default() };
    let grant = Grant::Google(Google { places, fetch, machine });
    let own = Unattended::new(UnattendedOptions { grant, ..options(&world, &vault) });
    let all = join_all((0..8).map(|_| authorization_header(&own))).await;
    assert!(all.iter().all(|one| one.as_deref() == Some("Bearer g")), "{all:?}");
    assert_eq!(world.urls(), [google::TOKEN_ENDPOINT]);
}

#[tokio::test]
async fn configured_token_endpoint_needs_no_discovery() {
    let (world, vault) = (Arc::<ScriptedFetch>::default().answer(TOKEN, 200, token("one")), Arc::default());
    let settings = Settings {
        token_url: Some(Url::parse(TOKEN).unwrap()),
        scopes: Some(Scopes::parse("own").unwrap()),
        ..Settings::default()
    };
    let own = Unattended::new(UnattendedOptions { settings: settings.clone(), ..options(&world, &vault) });
    assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::Retry);
    assert_eq!(world.urls(), [TOKEN], "no other request");
    assert_eq!(world.field(0, "scope").as_deref(), Some("own"));
    let wider = Settings { scopes: Some(Scopes::parse("own more").unwrap()), ..settings };
    let own = Unattended::new(UnattendedOptions { settings: wider, ..options(&world, &vault) });
    assert_eq!(authorization_header(&own).await, None, "the stored token has fewer scopes");
}

/// Two servers at one origin whose resource is the origin: both have the same key, and the credential belongs to one.
#[tokio::test]
async fn two_urls_of_one_resource_do_not_share_tokens() {
    let root = "https://example.org/.well-known/oauth-protected-resource";
    let document = resource("https://login.example").replace(SERVER, "https://example.org");
    let world = world()
        .answer(&format!("{root}/other"), 200, document.clone())
        .answer(&format!("{root}/one"), 200, document)
        .answer(TOKEN, 200, token("one"))
        .answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let at = |path: &str| {
        let server = Url::parse(&SERVER.replace("/mcp", path)).unwrap();
        (server.clone(), Unattended::new(UnattendedOptions { server, ..options(&world, &vault) }))
    };
    for (path, expected) in [("/one", "Bearer one"), ("/other", "Bearer two")] {
        let (url, own) = at(path);
        let refused = Challenge { url: url.clone(), ..refusal(401, None, "Bearer") };
        assert_eq!(own.handle_challenge(refused).await, ChallengeAction::Retry);
        let (method, body) = (Method::POST, Bytes::new());
        let headers = own.headers(OutgoingRequest { method: &method, url: &url, body: &body }).await.unwrap();
        assert_eq!(headers[0].1.to_str().unwrap(), expected);
    }
    assert_eq!(token_requests(&world), 2);
}

/// A temporary failure of the authorization server needs no action by the operator.
#[tokio::test(start_paused = true)]
async fn temporary_failure_is_reported_as_such_and_tried_again_later() {
    for (status, body) in [(502, ""), (503, "<html>"), (429, ""), (400, r#"{"error":"temporarily_unavailable"}"#)] {
        let world = world().answer(TOKEN, status, body).answer(TOKEN, 200, token("one"));
        let own = unattended(&world, &Arc::default());
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
        assert_eq!(own.replacement_error().unwrap().code(), "no_token", "{status}");
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
        assert_eq!(token_requests(&world), 1, "no request during the pause");
        tokio::time::advance(AFTER_FAILURE).await;
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::Retry, "{status}");
    }
    let away =
        Arc::<ScriptedFetch>::default().answer(RESOURCE, 200, resource("https://login.example")).answer(LOGIN, 503, "");
    let own = unattended(&away, &Arc::default());
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    assert_eq!(own.replacement_error().unwrap().code(), "no_token", "the same for metadata");
}

#[tokio::test(start_paused = true)]
async fn invalid_response_starts_a_pause_too() {
    let world = world().answer(TOKEN, 200, "<html>");
    let own = unattended(&world, &Arc::default());
    for _ in 0..3 {
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
    }
    assert!(own.replacement_error().is_none());
    assert_eq!(token_requests(&world), 1);
}

/// The nonce of a refusal belongs into the next proof.
#[tokio::test]
async fn nonce_of_the_server_is_in_the_next_proof() {
    let bound = token("one").replace("Bearer", "DPoP");
    let (world, vault) = (world().answer(TOKEN, 200, bound), Arc::default());
    let own = Unattended::new(UnattendedOptions { proofs: Some(Arc::new(DpopKeys)), ..options(&world, &vault) });
    assert_eq!(own.handle_challenge(refusal(401, None, "DPoP")).await, ChallengeAction::Retry);
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::new());
    let sending = OutgoingRequest { method: &method, url: &url, body: &body };
    assert_eq!(own.headers(sending).await.unwrap()[0].1, "DPoP one");
    let mut headers = HeaderMap::new();
    headers.insert("dpop-nonce", HeaderValue::from_static("n0nce"));
    own.observe_response(&url, &headers);
    let wanted = r#"DPoP error="use_dpop_nonce""#;
    let refused =
        Challenge { nonce: Some(HeaderValue::from_static("n0nce")), ..refusal(401, Some("DPoP one"), wanted) };
    assert_eq!(own.handle_challenge(refused).await, ChallengeAction::Retry);
    let headers = own.headers(sending).await.unwrap();
    let proof = headers.iter().find(|(name, _)| *name == DPOP).unwrap().1.to_str().unwrap();
    let claims = URL_SAFE_NO_PAD.decode(proof.split('.').nth(1).unwrap()).unwrap();
    assert!(String::from_utf8(claims).unwrap().contains(r#""nonce":"n0nce""#));
    assert_eq!(token_requests(&world), 1);
}

/// A failed request does not count as a replacement.
#[tokio::test(start_paused = true)]
async fn refused_token_is_replaced_even_if_the_first_attempt_failed() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, "").answer(TOKEN, 200, token("two"));
    let (vault, presented) = (Arc::default(), Some("Bearer one"));
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    assert_eq!(own.handle_challenge(refusal(401, presented, "Bearer")).await, ChallengeAction::GiveUp);
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(own.handle_challenge(refusal(401, presented, "Bearer")).await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&own).await.as_deref(), Some("Bearer two"));
}

#[tokio::test]
async fn token_that_cannot_be_replaced_is_used_until_it_expires() {
    let no = r#"{"error":"temporarily_unavailable"}"#;
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, no);
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    age(&own, &vault, 3590).await;
    assert_eq!(authorization_header(&own).await.as_deref(), Some("Bearer one"));
    age(&own, &vault, 10).await;
    assert_eq!(authorization_header(&own).await, None, "it has expired");
}

/// The entry was configured for interactive sign-in before, with the same client: that token belongs to the user.
#[tokio::test]
async fn token_of_an_interactive_sign_in_is_not_adopted() {
    let world = world().answer(TOKEN, 200, token("personal")).answer(TOKEN, 200, token("own"));
    let vault: Arc<MemoryVault> = Arc::default();
    unattended(&world, &vault).handle_challenge(refusal(401, None, "Bearer")).await;
    let key = vault.keys().await.unwrap().remove(0);
    let mut kept = Credential::load(&*vault, &key).await.unwrap().unwrap();
    kept.client.source = RegistrationSource::Configured;
    kept.store(&*vault, &key).await.unwrap();
    let next = unattended(&world, &vault);
    assert_eq!(authorization_header(&next).await, None);
    assert_eq!(next.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&next).await.as_deref(), Some("Bearer own"));
}

/// A later refusal by the server is not explained with an outage that is over.
#[tokio::test(start_paused = true)]
async fn transient_reason_is_cleared_after_success() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, "").answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    assert_eq!(own.handle_challenge(refusal(401, Some("Bearer one"), "Bearer")).await, ChallengeAction::GiveUp);
    assert_eq!(own.replacement_error().unwrap().code(), "no_token");
    tokio::time::advance(AFTER_FAILURE).await;
    age(&own, &vault, 3590).await;
    assert_eq!(authorization_header(&own).await.as_deref(), Some("Bearer two"), "replaced before a refusal");
    assert_eq!(own.handle_challenge(refusal(403, Some("Bearer two"), "Bearer")).await, ChallengeAction::GiveUp);
    assert!(own.replacement_error().is_none(), "the server refused it");
}
