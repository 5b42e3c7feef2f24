//! One server, over time, and nobody at home.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, header};
use tokio::time::Instant;
use toolway_config::Secret;

use super::*;
use crate::{
    credential::{RegistrationSource, Tokens},
    dpop::DpopKeys,
    grant::{
        Client, Enterprise, Google, Workload,
        enterprise::Provider,
        google::{self, Machine, Places},
    },
    jwt::tests::P256,
    proof::DPOP,
    rest::AFTER_FAILURE,
    scripted::{GIVEN_UP, Scripted},
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

/// A server and two authorization servers that have given no token yet.
fn world() -> Arc<Scripted> {
    let login = |issuer: &str| format!(r#"{{"issuer":"{issuer}","token_endpoint":"{issuer}/token"}}"#);
    Arc::<Scripted>::default()
        .answer(RESOURCE, 200, resource("https://login.example"))
        .answer(LOGIN, 200, login("https://login.example"))
        .answer(&LOGIN.replace("login", "evil"), 200, login("https://evil.example"))
}

fn options(world: &Arc<Scripted>, vault: &Arc<MemoryVault>) -> UnattendedOptions {
    UnattendedOptions {
        name: "files".to_owned(),
        remedy: "look at auth.clientSecret".to_owned(),
        principal: "operator".to_owned(),
        server: Url::parse(SERVER).unwrap(),
        grant: Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-word"))),
        settings: Settings { issuer: Some("https://login.example".to_owned()), ..Settings::default() },
        fetch: Arc::clone(world) as Arc<dyn Fetch>,
        vault: Arc::clone(vault) as Arc<dyn Vault>,
        proofs: None,
    }
}

fn unattended(world: &Arc<Scripted>, vault: &Arc<MemoryVault>) -> Unattended {
    Unattended::new(options(world, vault))
}

async fn shown(unattended: &Unattended) -> Option<String> {
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::new());
    let headers = unattended.headers(Sending { method: &method, url: &url, body: &body }).await.unwrap();
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

fn token_requests(world: &Scripted) -> usize {
    world.asked().iter().filter(|address| *address == TOKEN).count()
}

/// Lets time pass for the token that is held and for the one in the vault.
async fn age(unattended: &Unattended, vault: &MemoryVault, seconds: u64) {
    let older = |tokens: &mut Tokens| {
        tokens.since -= seconds;
        tokens.ends = tokens.ends.map(|ends| ends - seconds);
    };
    let key = vault.keys().await.unwrap().remove(0);
    let mut kept = Credential::load(vault, &key).await.unwrap().unwrap();
    older(kept.tokens.as_mut().unwrap());
    kept.store(vault, &key).await.unwrap();
    let mut aged = Presentable::clone(&unattended.held.known().flatten().expect("something is held"));
    older(&mut aged.tokens);
    unattended.held.hold(Some(Arc::new(aged)));
}

#[tokio::test]
async fn the_first_refusal_leads_to_a_token_and_the_next_process_has_it() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let first = unattended(&world, &vault);
    assert_eq!(shown(&first).await, None, "nobody has asked for anything yet");
    assert!(world.asked().is_empty());
    assert_eq!(first.challenged(refusal(401, None, "Bearer")).await, Next::Again);
    assert_eq!(shown(&first).await.as_deref(), Some("Bearer one"));
    let sent = world.heard.lock().len() - 1;
    assert_eq!(world.field(sent, "resource").as_deref(), Some(SERVER));
    assert_eq!(world.field(sent, "scope").as_deref(), Some("read"));

    let asked = world.asked().len();
    assert_eq!(shown(&unattended(&world, &vault)).await.as_deref(), Some("Bearer one"));
    assert_eq!(world.asked().len(), asked);
    let kept = vault.load(&vault.keys().await.unwrap()[0]).await.unwrap().unwrap();
    assert!(!kept.expose().contains("s3cret-word"), "the secret stays where the operator wrote it");
}

#[tokio::test]
async fn a_token_goes_to_its_server_only() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    let (method, body) = (Method::POST, Bytes::new());
    for elsewhere in ["https://evil.example/mcp", "http://example.org/mcp", "https://example.org:8443/mcp"] {
        let url = Url::parse(elsewhere).unwrap();
        assert!(own.headers(Sending { method: &method, url: &url, body: &body }).await.unwrap().is_empty());
        let foreign = Challenge { url, ..refusal(401, None, "Bearer") };
        assert_eq!(own.challenged(foreign).await, Next::GiveUp);
    }
}

#[tokio::test]
async fn of_many_that_were_refused_together_one_asks() {
    let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
    let (here, there) = (unattended(&world, &vault), unattended(&world, &vault));
    let refused = (0..8).map(|place| {
        let one = if place % 2 == 0 { &here } else { &there };
        one.challenged(refusal(401, None, "Bearer"))
    });
    assert!(join_all(refused).await.iter().all(|next| *next == Next::Again));
    assert_eq!(token_requests(&world), 1);
    assert_eq!((shown(&here).await, shown(&there).await), (Some("Bearer one".into()), Some("Bearer one".into())));
}

#[tokio::test]
async fn a_token_is_replaced_before_it_ends_by_one_request() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    age(&own, &vault, 3590).await;
    let all = join_all((0..8).map(|_| shown(&own))).await;
    assert!(all.iter().all(|one| one.as_deref() == Some("Bearer two")), "{all:?}");
    assert_eq!(token_requests(&world), 2);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_a_new_one_that_is_refused_is_the_end() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    assert_eq!(own.challenged(refusal(401, Some("Bearer one"), "Bearer")).await, Next::Again);
    assert_eq!(own.challenged(refusal(401, Some("Bearer one"), "Bearer")).await, Next::Again, "sent before that");
    assert_eq!(token_requests(&world), 2);
    assert_eq!(own.challenged(refusal(401, Some("Bearer two"), "Bearer")).await, Next::GiveUp);
    assert_eq!(
        own.watch().borrow().as_ref().unwrap().to_string(),
        "files needs a sign-in: it refuses the token that https://login.example has just given; look at \
         auth.clientSecret"
    );
    assert_eq!(token_requests(&world), 2);
}

#[tokio::test]
async fn whoever_says_no_is_left_alone_for_a_while() {
    let no = r#"{"error":"invalid_client","error_description":"s3cret-word is wrong"}"#;
    let (world, vault) = (world().answer(TOKEN, 401, no), Arc::default());
    let own = unattended(&world, &vault);
    for _ in 0..3 {
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
        let needed = own.watch().borrow().clone().unwrap();
        assert_eq!(needed.why.to_string(), "https://login.example/token refuses: invalid_client ([hidden] is wrong)");
    }
    assert_eq!(token_requests(&world), 1);
}

const EVIL: &str = "https://evil.example/token";

/// CVE-2026-104850: a server that names another issuer does not get the secret shown to it.
#[tokio::test]
async fn another_issuer_is_told_nothing_whoever_the_server_names() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two")).answer(EVIL, 200, token("x"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    let elsewhere = "https://example.org/prm";
    let world = world.answer(elsewhere, 200, resource("https://evil.example"));
    let challenge = format!("Bearer resource_metadata=\"{elsewhere}\"");
    assert_eq!(own.challenged(refusal(401, Some("Bearer one"), &challenge)).await, Next::Again);
    assert_eq!(shown(&own).await.as_deref(), Some("Bearer two"), "whom to ask is the operator's word");
    assert!(!world.asked().iter().any(|address| address.contains("evil")));
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_for_one_that_hangs_one_asks_and_all_end_with_it() {
    for hanging in [RESOURCE, LOGIN, TOKEN] {
        let (world, vault) = (world().hangs_at(hanging), Arc::default());
        let (own, began) = (unattended(&world, &vault), Instant::now());
        let refused = (0..8).map(|_| own.challenged(refusal(401, None, "Bearer")));
        assert!(join_all(refused).await.iter().all(|next| *next == Next::GiveUp));
        assert_eq!(world.asked().iter().filter(|asked| *asked == hanging).count(), 1, "{hanging}");
        assert!(began.elapsed() < 2 * GIVEN_UP, "{hanging}: {:?}", began.elapsed());
        let why = own.watch().borrow().clone().unwrap().why;
        assert!(matches!(why, Why::Unanswered(_)), "{hanging}: {why}");
        tokio::time::advance(AFTER_FAILURE).await;
        own.challenged(refusal(401, None, "Bearer")).await;
        assert_eq!(world.asked().iter().filter(|asked| *asked == hanging).count(), 2, "it is asked again, later");
    }
}

/// Everything that is sent without a person, and what it is called.
fn grants() -> [(Grant, &'static str); 4] {
    let word = |text: &str| Arc::new(Secret::new(text));
    let with_key = Client::with_key("me", &Secret::new(P256), None).unwrap();
    let company = Enterprise {
        provider: Provider::TokenUrl(Url::parse("https://company.example/token").unwrap()),
        fetch: Arc::<Scripted>::default(),
        provider_client: Client::public("me"),
        id_token: word("word"),
        client: Client::with_secret("me", Secret::new("s3cret-word")),
    };
    [
        (Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-word"))), "the client's secret"),
        (Grant::ClientCredentials(with_key), "the client's signature"),
        (Grant::Enterprise(Box::new(company)), "the company's word about a person"),
        (Grant::Workload(Workload::new(word("word"), None, None)), "the assertion"),
    ]
}

/// CVE-2026-104850, WS-2026-0196, before the first token: a server could name whoever it likes.
#[tokio::test]
async fn what_the_operator_wrote_goes_to_nobody_that_only_the_server_names() {
    for (grant, what) in grants() {
        let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
        let own =
            Unattended::new(UnattendedOptions { grant, settings: Settings::default(), ..options(&world, &vault) });
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
        assert_eq!(
            own.watch().borrow().as_ref().unwrap().why.to_string(),
            format!(
                "{what} is not sent to https://login.example, which only the server names; if it is the right one, \
                 write it into oauth.issuer"
            )
        );
        assert_eq!(world.asked(), [RESOURCE, LOGIN], "only what it says about itself was read");
    }
}

/// CVE-2026-104850: the same where the document that the operator named is somebody else's now.
#[tokio::test]
async fn another_issuer_than_before_is_told_nothing() {
    let world = world().answer(TOKEN, 200, token("one")).answer(EVIL, 200, token("evil"));
    let vault = Arc::default();
    unattended(&world, &vault).challenged(refusal(401, None, "Bearer")).await;
    let metadata_url = Some(Url::parse(&LOGIN.replace("login", "evil")).unwrap());
    let settings = Settings { metadata_url, scopes: Some(Scopes::parse("more").unwrap()), ..Settings::default() };
    let own = Unattended::new(UnattendedOptions { settings, ..options(&world, &vault) });
    assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
    let why = own.watch().borrow().clone().unwrap().why;
    let (before, now) = ("https://login.example".to_owned(), "https://evil.example".to_owned());
    assert_eq!(why, Why::IssuerChanged { before, now });
    assert!(!world.asked().contains(&EVIL.to_owned()));
}

#[tokio::test]
async fn a_scope_that_is_missing_is_asked_for_with_all_others_and_a_plain_no_is_final() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    assert_eq!(own.challenged(refusal(403, Some("Bearer one"), "Bearer")).await, Next::GiveUp);
    let more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
    assert_eq!(own.challenged(refusal(403, Some("Bearer one"), more)).await, Next::Again);
    let last = world.heard.lock().len() - 1;
    assert_eq!(world.field(last, "scope").as_deref(), Some("read write"));
    assert_eq!(own.challenged(refusal(403, Some("Bearer two"), more)).await, Next::GiveUp, "it did not help");
}

#[tokio::test]
async fn tokens_that_should_be_bound_to_a_key_are_and_go_with_proofs() {
    let vault = Arc::default();
    let with = |world: &Arc<Scripted>| {
        Unattended::new(UnattendedOptions { proofs: Some(Arc::new(DpopKeys)), ..options(world, &vault) })
    };
    let own = with(&world().answer(TOKEN, 200, token("one")));
    assert_eq!(own.challenged(refusal(401, None, "DPoP")).await, Next::GiveUp);
    assert!(own.watch().borrow().as_ref().unwrap().to_string().contains("not bound to our key"));

    let world = world().answer(TOKEN, 200, token("one").replace("Bearer", "DPoP"));
    let own = with(&world);
    assert_eq!(own.challenged(refusal(401, None, "DPoP")).await, Next::Again);
    assert!(world.heard.lock().last().unwrap().headers().contains_key(DPOP));
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::from_static(b"{}"));
    let headers = own.headers(Sending { method: &method, url: &url, body: &body }).await.unwrap();
    assert_eq!((headers[0].1.to_str().unwrap(), &headers[1].0), ("DPoP one", &DPOP));
    let nonce = Challenge {
        nonce: Some(HeaderValue::from_static("once")),
        ..refusal(401, Some("DPoP one"), "DPoP error=\"use_dpop_nonce\"")
    };
    assert_eq!(own.challenged(nonce).await, Next::Again);
    assert_eq!(token_requests(&world), 1, "only the nonce was missing");
    assert_eq!(shown(&with(&world)).await.as_deref(), Some("DPoP one"), "the key is kept with its token");
}

#[tokio::test]
async fn google_is_asked_before_the_server_refuses() {
    let (folder, vault) = (tempfile::tempdir().unwrap(), Arc::default());
    let file = folder.path().join("person.json");
    let person = r#"{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}"#;
    std::fs::write(&file, person).unwrap();
    let world = Arc::<Scripted>::default().answer(google::TOKEN_ENDPOINT, 200, token("g"));
    let fetch = Arc::clone(&world) as Arc<dyn Fetch>;
    let machine = Machine { url: Url::parse(google::MACHINE).unwrap(), fetch: Arc::clone(&fetch) };
    let places = Places { configured: Some(file), ..Places::default() };
    let grant = Grant::Google(Google { places, fetch, machine });
    let own = Unattended::new(UnattendedOptions { grant, ..options(&world, &vault) });
    let all = join_all((0..8).map(|_| shown(&own))).await;
    assert!(all.iter().all(|one| one.as_deref() == Some("Bearer g")), "{all:?}");
    assert_eq!(world.asked(), [google::TOKEN_ENDPOINT]);
}

#[tokio::test]
async fn where_tokens_come_from_may_be_written_down() {
    let (world, vault) = (Arc::<Scripted>::default().answer(TOKEN, 200, token("one")), Arc::default());
    let settings = Settings {
        token_url: Some(Url::parse(TOKEN).unwrap()),
        scopes: Some(Scopes::parse("own").unwrap()),
        ..Settings::default()
    };
    let own = Unattended::new(UnattendedOptions { settings: settings.clone(), ..options(&world, &vault) });
    assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::Again);
    assert_eq!(world.asked(), [TOKEN], "nobody else was asked");
    assert_eq!(world.field(0, "scope").as_deref(), Some("own"));
    let wider = Settings { scopes: Some(Scopes::parse("own more").unwrap()), ..settings };
    let own = Unattended::new(UnattendedOptions { settings: wider, ..options(&world, &vault) });
    assert_eq!(shown(&own).await, None, "what is kept is good for less");
}

/// Two servers at one origin whose resource is the origin: what is kept has one key, and is one server's.
#[tokio::test]
async fn two_addresses_of_one_resource_do_not_take_over_each_others_tokens() {
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
        assert_eq!(own.challenged(refused).await, Next::Again);
        let (method, body) = (Method::POST, Bytes::new());
        let headers = own.headers(Sending { method: &method, url: &url, body: &body }).await.unwrap();
        assert_eq!(headers[0].1.to_str().unwrap(), expected);
    }
    assert_eq!(token_requests(&world), 2);
}

/// Whoever gives tokens is away for a moment: nobody has to do anything about that.
#[tokio::test(start_paused = true)]
async fn what_may_pass_is_not_the_operators_fault_and_is_tried_again_a_moment_later() {
    for (status, body) in [(502, ""), (503, "<html>"), (429, ""), (400, r#"{"error":"temporarily_unavailable"}"#)] {
        let world = world().answer(TOKEN, status, body).answer(TOKEN, 200, token("one"));
        let own = unattended(&world, &Arc::default());
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
        assert_eq!(own.instead().unwrap().code(), "no_token", "{status}");
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
        assert_eq!(token_requests(&world), 1, "it is left alone");
        tokio::time::advance(AFTER_FAILURE).await;
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::Again, "{status}");
    }
    let away =
        Arc::<Scripted>::default().answer(RESOURCE, 200, resource("https://login.example")).answer(LOGIN, 503, "");
    let own = unattended(&away, &Arc::default());
    own.challenged(refusal(401, None, "Bearer")).await;
    assert_eq!(own.instead().unwrap().code(), "no_token", "the same for what it says about itself");
}

#[tokio::test(start_paused = true)]
async fn a_strange_answer_is_left_alone_for_a_moment_too() {
    let world = world().answer(TOKEN, 200, "<html>");
    let own = unattended(&world, &Arc::default());
    for _ in 0..3 {
        assert_eq!(own.challenged(refusal(401, None, "Bearer")).await, Next::GiveUp);
    }
    assert!(own.instead().is_none());
    assert_eq!(token_requests(&world), 1);
}

/// The nonce came with the refusal, and belongs into the next proof.
#[tokio::test]
async fn a_nonce_of_the_server_is_in_the_next_proof() {
    let bound = token("one").replace("Bearer", "DPoP");
    let (world, vault) = (world().answer(TOKEN, 200, bound), Arc::default());
    let own = Unattended::new(UnattendedOptions { proofs: Some(Arc::new(DpopKeys)), ..options(&world, &vault) });
    assert_eq!(own.challenged(refusal(401, None, "DPoP")).await, Next::Again);
    let (method, url, body) = (Method::POST, Url::parse(SERVER).unwrap(), Bytes::new());
    let sending = Sending { method: &method, url: &url, body: &body };
    assert_eq!(own.headers(sending).await.unwrap()[0].1, "DPoP one");
    let mut headers = HeaderMap::new();
    headers.insert("dpop-nonce", HeaderValue::from_static("n0nce"));
    own.heard(&url, &headers);
    let wanted = r#"DPoP error="use_dpop_nonce""#;
    let refused =
        Challenge { nonce: Some(HeaderValue::from_static("n0nce")), ..refusal(401, Some("DPoP one"), wanted) };
    assert_eq!(own.challenged(refused).await, Next::Again);
    let headers = own.headers(sending).await.unwrap();
    let proof = headers.iter().find(|(name, _)| *name == DPOP).unwrap().1.to_str().unwrap();
    let claims = URL_SAFE_NO_PAD.decode(proof.split('.').nth(1).unwrap()).unwrap();
    assert!(String::from_utf8(claims).unwrap().contains(r#""nonce":"n0nce""#));
    assert_eq!(token_requests(&world), 1);
}

/// A request that came to nothing has replaced nothing.
#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_though_the_first_attempt_failed() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, "").answer(TOKEN, 200, token("two"));
    let (vault, presented) = (Arc::default(), Some("Bearer one"));
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    assert_eq!(own.challenged(refusal(401, presented, "Bearer")).await, Next::GiveUp);
    tokio::time::advance(AFTER_FAILURE).await;
    assert_eq!(own.challenged(refusal(401, presented, "Bearer")).await, Next::Again);
    assert_eq!(shown(&own).await.as_deref(), Some("Bearer two"));
}

#[tokio::test]
async fn a_token_that_cannot_be_replaced_is_used_until_it_ends() {
    let no = r#"{"error":"temporarily_unavailable"}"#;
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, no);
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    age(&own, &vault, 3590).await;
    assert_eq!(shown(&own).await.as_deref(), Some("Bearer one"));
    age(&own, &vault, 10).await;
    assert_eq!(shown(&own).await, None, "it has ended");
}

/// The entry was one that somebody signed in to, with the same client: their token is theirs.
#[tokio::test]
async fn what_a_person_signed_in_for_is_not_taken_over() {
    let world = world().answer(TOKEN, 200, token("personal")).answer(TOKEN, 200, token("own"));
    let vault: Arc<MemoryVault> = Arc::default();
    unattended(&world, &vault).challenged(refusal(401, None, "Bearer")).await;
    let key = vault.keys().await.unwrap().remove(0);
    let mut kept = Credential::load(&*vault, &key).await.unwrap().unwrap();
    kept.client.source = RegistrationSource::Configured;
    kept.store(&*vault, &key).await.unwrap();
    let next = unattended(&world, &vault);
    assert_eq!(shown(&next).await, None);
    assert_eq!(next.challenged(refusal(401, None, "Bearer")).await, Next::Again);
    assert_eq!(shown(&next).await.as_deref(), Some("Bearer own"));
}

/// A later no of the server itself is not put down to an absence that is over.
#[tokio::test(start_paused = true)]
async fn a_reason_that_has_passed_is_not_given_again() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 503, "").answer(TOKEN, 200, token("two"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.challenged(refusal(401, None, "Bearer")).await;
    assert_eq!(own.challenged(refusal(401, Some("Bearer one"), "Bearer")).await, Next::GiveUp);
    assert_eq!(own.instead().unwrap().code(), "no_token");
    tokio::time::advance(AFTER_FAILURE).await;
    age(&own, &vault, 3590).await;
    assert_eq!(shown(&own).await.as_deref(), Some("Bearer two"), "replaced before anybody was refused");
    assert_eq!(own.challenged(refusal(403, Some("Bearer two"), "Bearer")).await, Next::GiveUp);
    assert!(own.instead().is_none(), "it is the server that says no");
}
