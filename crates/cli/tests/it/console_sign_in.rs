//! Signing in to a server from the console.

use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use crate::{
    console::{Browser, serving},
    sign_in_fixture::{SignInFixture, open},
};

/// Begins a sign-in to `api`; the page to open.
fn begin(browser: &Browser) -> Value {
    let (status, page) = browser.post("/api/v1/servers/api/sign-in", &json!({}));
    assert_eq!(status, 200, "{page}");
    page
}

/// Refuses a sign-in, as the authorization server does if the user says no.
fn refuse(fixture: &SignInFixture, page: &Value) {
    let address = Url::parse(page["url"].as_str().unwrap()).unwrap();
    let given = |key: &str| address.query_pairs().find(|(name, _)| name == key).unwrap().1.into_owned();
    let query = [("error", "access_denied"), ("state", &given("state")), ("iss", &fixture.login.issuer())];
    open(Url::parse_with_params(&given("redirect_uri"), query).unwrap().as_str());
}

/// Why the last sign-in to `api` failed.
fn failure(browser: &Browser) -> Value {
    browser.get("/api/v1/servers/api")["signIn"]["failure"].clone()
}

#[test]
fn page_names_the_command_for_clients_where_they_need_it() {
    let fixture = SignInFixture::new();
    let (_serving, browser) = serving(&fixture.home);
    browser.until("api", "sign-in-required");
    let notices = || begin(&browser)["notices"].to_string();
    assert!(!notices().contains("client"), "there are no clients");
    fixture.home.run(&["clients", "add", "ada", "--servers", "files"]).ok();
    assert!(!notices().contains("client"), "the client cannot use the server");
    fixture.home.run(&["clients", "add", "ben"]).ok();
    assert!(notices().contains("sign it in with `toolway login api --client ben`"), "{}", notices());
    fixture.configure(r#", "auth": { "kind": "oauth", "shared": true }"#);
    assert!(!notices().contains("client"), "all clients share the sign-in");
}

#[test]
fn abandoned_sign_in_changes_nothing_after_another_one_succeeded() {
    let fixture = SignInFixture::new();
    let (serving, browser) = serving(&fixture.home);
    browser.until("api", "sign-in-required");
    let page = begin(&browser);
    fixture.sign_in("operator", &[]);
    browser.until("api", "connected");
    let attempts = || {
        let metrics = serving.get("/metrics", serving.key()).body;
        metrics
            .lines()
            .find(|line| line.starts_with("toolway_connection_attempts_total{server=\"api\"}"))
            .map(str::to_owned)
    };
    let before = attempts();
    assert!(before.is_some());
    refuse(&fixture, &page);
    for _ in 0..20 {
        assert_eq!((failure(&browser), attempts()), (Value::Null, before.clone()));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn failure_is_shown_until_the_server_is_connected() {
    let fixture = SignInFixture::new();
    let (_serving, browser) = serving(&fixture.home);
    browser.until("api", "sign-in-required");
    refuse(&fixture, &begin(&browser));
    let shown = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        failure(&browser).as_str().is_some_and(|why| why.contains("access_denied"))
    });
    assert!(shown, "{}", browser.get("/api/v1/servers/api"));
    let page = begin(&browser);
    assert!(failure(&browser).is_null());
    open(&fixture.visit(page["url"].as_str().unwrap(), "ada"));
    browser.until("api", "connected");
    fixture.home.run(&["logout", "api"]).ok();
    browser.until("api", "sign-in-required");
    assert!(failure(&browser).is_null());
}
