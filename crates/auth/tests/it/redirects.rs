//! Nobody is led elsewhere with a credential in hand.

use bytes::Bytes;
use http::Method;
use toolway_testkit::{
    authorization::{Endpoint, Oddity, Quirk},
    odd::http::{OddHttp, Reply},
};
use toolway_wire::up::credential::{Credentials, Sending};

use crate::stage::Stage;

/// Somewhere else, where anything is taken.
async fn elsewhere() -> OddHttp {
    OddHttp::start(|_| Reply::body(200, "application/json", "{}")).await.unwrap()
}

/// CVE-2026-64684: headers with credentials were sent along to another origin.
#[tokio::test]
async fn a_call_that_is_redirected_to_another_origin_ends_there() {
    let (stage, evil) = (Stage::new().await, elsewhere().await);
    let caller = stage.caller();
    caller.call("hello").await.unwrap();
    stage.server.told([Oddity::Redirects(evil.url())]);
    let failed = caller.call("hello").await.unwrap_err();
    assert!(failed.contains("another origin"), "{failed}");
    assert_eq!(evil.connections(), 0);

    // Nor would there be anything to send along.
    let (method, url, body) = (Method::POST, evil.url().parse().unwrap(), Bytes::new());
    let sending = Sending { method: &method, url: &url, body: &body };
    assert!(caller.session.headers(sending).await.unwrap().is_empty());
}

/// CVE-2026-64684, the same for everything that an authorization server is told or asked.
#[tokio::test]
async fn no_endpoint_leads_codes_tokens_or_clients_elsewhere() {
    for endpoint in [Endpoint::Metadata, Endpoint::Registration, Endpoint::Code] {
        let (stage, evil) = (Stage::new().await, elsewhere().await);
        stage.login.told([Quirk::Redirects(endpoint, evil.url())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("another origin"), "{endpoint:?}: {failed}");
        assert_eq!((stage.login.count(endpoint), evil.connections()), (1, 0), "{endpoint:?}");
    }
}

#[tokio::test]
async fn a_refresh_token_does_not_follow_a_redirect() {
    let (stage, evil) = (Stage::with_an_ended_token().await, elsewhere().await);
    stage.login.told([Quirk::Redirects(Endpoint::Renewal, evil.url())]);
    // The old token may still do; the renewal has failed either way.
    let _called = stage.unattended().call("hello").await;
    assert!(stage.login.count(Endpoint::Renewal) != 0);
    assert_eq!(evil.connections(), 0);
    stage.login.told([]);
    assert_eq!(stage.unattended().call("hello").await.unwrap(), "hello ada", "it is still there");
}
