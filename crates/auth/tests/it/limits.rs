//! Limits on responses of authorization servers.

use toolway_auth::challenge::TokenChallenge;
use toolway_testkit::authorization::{Endpoint, Quirk};

use crate::stage::Stage;

/// CVE-2026-77822 and the limits of the dialer: endless responses are not read to the end.
#[tokio::test]
async fn endless_response_is_aborted() {
    for endpoint in [Endpoint::Metadata, Endpoint::Registration, Endpoint::Code] {
        let stage = Stage::new().await;
        stage.login.set_quirks([Quirk::Endless(endpoint)]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("exceeds"), "{endpoint:?}: {failed}");
        assert_eq!(stage.login.count(endpoint), 1, "{endpoint:?}");
    }
}

/// The clock is paused when the request has arrived; it advances from then on, because nothing else is running.
#[tokio::test]
async fn silent_authorization_server_times_out() {
    for endpoint in [Endpoint::Metadata, Endpoint::Code] {
        let stage = Stage::new().await;
        stage.login.set_quirks([Quirk::Silent(endpoint)]);
        let caller = stage.caller();
        let arrival = async {
            stage.login.until(endpoint, 1).await;
            tokio::time::pause();
        };
        let sign_in = async { caller.session.sign_in(&TokenChallenge::default()).await };
        let (failed, ()) = tokio::join!(sign_in, arrival);
        tokio::time::resume();
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("timed out"), "{endpoint:?}: {failed}");
    }
}
