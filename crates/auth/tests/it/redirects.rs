//! Credentials do not follow redirects to other origins.

use bytes::Bytes;
use http::Method;
use toolway_testkit::{
    authorization::{Endpoint, Quirk, ServerQuirk},
    odd::http::{OddHttp, Reply},
};
use toolway_wire::up::credential::{Credentials, OutgoingRequest};

use crate::stage::Stage;

/// A server at another origin that accepts everything.
async fn elsewhere() -> OddHttp {
    OddHttp::start(|_| Reply::body(200, "application/json", "{}")).await.unwrap()
}

/// CVE-2026-64684: headers with credentials were sent to another origin.
#[tokio::test]
async fn redirect_of_a_call_to_another_origin_is_refused() {
    let (stage, evil) = (Stage::new().await, elsewhere().await);
    let caller = stage.caller();
    caller.call("hello").await.unwrap();
    stage.server.set_quirks([ServerQuirk::Redirects(evil.url())]);
    let failed = caller.call("hello").await.unwrap_err();
    assert!(failed.contains("another origin"), "{failed}");
    assert_eq!(evil.connections(), 0);

    // The session has no headers for that origin either.
    let (method, url, body) = (Method::POST, evil.url().parse().unwrap(), Bytes::new());
    let sending = OutgoingRequest { method: &method, url: &url, body: &body };
    assert!(caller.session.headers(sending).await.unwrap().is_empty());
}

/// CVE-2026-64684, the same for all requests to an authorization server.
#[tokio::test]
async fn redirect_of_an_endpoint_to_another_origin_is_refused() {
    for endpoint in [Endpoint::Metadata, Endpoint::Registration, Endpoint::Code] {
        let (stage, evil) = (Stage::new().await, elsewhere().await);
        stage.login.set_quirks([Quirk::Redirects(endpoint, evil.url())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("another origin"), "{endpoint:?}: {failed}");
        assert_eq!((stage.login.count(endpoint), evil.connections()), (1, 0), "{endpoint:?}");
    }
}

#[tokio::test]
async fn refresh_token_does_not_follow_a_redirect() {
    let (stage, evil) = (Stage::with_expired_token().await, elsewhere().await);
    stage.login.set_quirks([Quirk::Redirects(Endpoint::Refresh, evil.url())]);
    // The old token may still be valid; the refresh has failed either way.
    let _called = stage.unattended().call("hello").await;
    assert!(stage.login.count(Endpoint::Refresh) != 0);
    assert_eq!(evil.connections(), 0);
    stage.login.set_quirks([]);
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada", "the refresh token is still stored");
}
