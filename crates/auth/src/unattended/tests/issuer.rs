//! Secrets of the operator are sent to the configured authorization server only.

use super::*;

const EVIL: &str = "https://evil.example/token";

/// CVE-2026-104850: a server that names another issuer does not make us send the secret there.
#[tokio::test]
async fn issuer_that_the_server_names_instead_of_the_configured_one_gets_nothing() {
    let world = world().answer(TOKEN, 200, token("one")).answer(TOKEN, 200, token("two")).answer(EVIL, 200, token("x"));
    let vault = Arc::default();
    let own = unattended(&world, &vault);
    own.handle_challenge(refusal(401, None, "Bearer")).await;
    let elsewhere = "https://example.org/prm";
    let world = world.answer(elsewhere, 200, resource("https://evil.example"));
    let challenge = format!("Bearer resource_metadata=\"{elsewhere}\"");
    assert_eq!(own.handle_challenge(refusal(401, Some("Bearer one"), &challenge)).await, ChallengeAction::Retry);
    assert_eq!(authorization_header(&own).await.as_deref(), Some("Bearer two"), "the configured issuer is used");
    assert!(!world.urls().iter().any(|address| address.contains("evil")));
}

/// All grants that send operator-supplied input, and the name of that input.
fn grants() -> [(Grant, &'static str); 4] {
    let secret = |text: &str| Arc::new(Secret::new(text));
    let with_key = Client::with_key("me", &Secret::new(P256), None).unwrap();
    let company = Enterprise {
        provider: Provider::TokenUrl(Url::parse("https://company.example/token").unwrap()),
        fetch: Arc::<ScriptedFetch>::default(),
        provider_client: Client::public("me"),
        id_token: secret("secret"),
        client: Client::with_secret("me", Secret::new("s3cret-secret")),
    };
    [
        (Grant::ClientCredentials(Client::with_secret("me", Secret::new("s3cret-secret"))), "the client secret"),
        (Grant::ClientCredentials(with_key), "the client assertion"),
        (Grant::Enterprise(Box::new(company)), "the identity assertion"),
        (Grant::Workload(Workload::new(secret("secret"), None, None)), "the assertion"),
    ]
}

/// CVE-2026-104850, WS-2026-0196, before the first token: a server could name any issuer.
#[tokio::test]
async fn configured_secrets_are_not_sent_to_an_issuer_that_only_the_server_names() {
    for (grant, what) in grants() {
        let (world, vault) = (world().answer(TOKEN, 200, token("one")), Arc::default());
        let own =
            Unattended::new(UnattendedOptions { grant, settings: Settings::default(), ..options(&world, &vault) });
        assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
        assert_eq!(
            own.watch().borrow().as_ref().unwrap().reason.to_string(),
            format!(
                "{what} was not sent to `https://login.example`: only the server names this issuer; if it is correct, set \
                `oauth.issuer`"
            )
        );
        assert_eq!(world.urls(), [RESOURCE, LOGIN], "only metadata was read");
    }
}

/// CVE-2026-104850: the same if the configured metadata document names another issuer now.
#[tokio::test]
async fn issuer_that_differs_from_the_previous_one_gets_nothing() {
    let world = world().answer(TOKEN, 200, token("one")).answer(EVIL, 200, token("evil"));
    let vault = Arc::default();
    unattended(&world, &vault).handle_challenge(refusal(401, None, "Bearer")).await;
    let metadata_url = Some(Url::parse(&LOGIN.replace("login", "evil")).unwrap());
    let settings = Settings { metadata_url, scopes: Some(Scopes::parse("more").unwrap()), ..Settings::default() };
    let own = Unattended::new(UnattendedOptions { settings, ..options(&world, &vault) });
    assert_eq!(own.handle_challenge(refusal(401, None, "Bearer")).await, ChallengeAction::GiveUp);
    let why = own.watch().borrow().clone().unwrap().reason;
    let (before, now) = ("https://login.example".to_owned(), "https://evil.example".to_owned());
    assert_eq!(why, SignInReason::IssuerChanged { before, now });
    assert!(!world.urls().contains(&EVIL.to_owned()));
}
