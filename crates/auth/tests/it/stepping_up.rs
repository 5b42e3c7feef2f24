//! Servers that require more scopes than were granted.

use toolway_testkit::authorization::{Endpoint, ServerQuirk};

use crate::stage::Stage;

fn scope(fields: &[(String, String)]) -> Vec<&str> {
    fields.iter().find(|(name, _)| name == "scope").map(|(_, value)| value.split(' ').collect()).unwrap_or_default()
}

/// CVE-2026-19202: a token with insufficient scopes is requested again, with all scopes requested before.
#[tokio::test]
async fn step_up_requests_previous_scopes_and_the_new_one() {
    let stage = Stage::new().await;
    stage.server.set_quirks([ServerQuirk::RequiresScope { tool: "write".to_owned(), scope: "write".to_owned() }]);
    let caller = stage.caller();
    assert_eq!(caller.call("hello").await.unwrap(), "hello ada");
    assert_eq!(caller.call("write").await.unwrap(), "hello ada");
    assert_eq!(caller.call("write").await.unwrap(), "hello ada");
    let pages = stage.login.fields(Endpoint::Page);
    assert_eq!(pages.len(), 2);
    assert_eq!(scope(&pages[0]), ["read", "offline_access"]);
    let stepped = scope(&pages[1]);
    assert!(["read", "write"].iter().all(|needed| stepped.contains(needed)), "{stepped:?}");
}

#[tokio::test]
async fn server_that_always_needs_more_scopes_is_given_up_after_three_rounds() {
    let stage = Stage::new().await;
    stage.server.set_quirks([ServerQuirk::AlwaysRequiresMoreScopes]);
    let caller = stage.caller();
    let mut last = String::new();
    for _ in 0..6 {
        last = caller.call("hello").await.unwrap_err();
    }
    assert!(last.contains("it still requires sign-in"), "{last}");
    assert_eq!(stage.login.count(Endpoint::Page), 3);
}

#[tokio::test]
async fn server_that_accepts_no_token_is_given_up_after_three_rounds() {
    let stage = Stage::new().await;
    stage.server.set_quirks([ServerQuirk::RejectsAllTokens]);
    let caller = stage.caller();
    for _ in 0..6 {
        caller.call("hello").await.unwrap_err();
    }
    assert!(stage.login.count(Endpoint::Page) <= 3, "{}", stage.login.count(Endpoint::Page));
}
