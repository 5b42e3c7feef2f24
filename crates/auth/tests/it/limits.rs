//! Authorization servers that say too much, or nothing.

use toolway_auth::challenge::Demand;
use toolway_testkit::authorization::{Endpoint, Quirk};

use crate::stage::Stage;

/// CVE-2026-77822 and the bounds of the one dialer: answers without end are not read to the end.
#[tokio::test]
async fn an_endless_answer_is_given_up() {
    for endpoint in [Endpoint::Metadata, Endpoint::Registration, Endpoint::Code] {
        let stage = Stage::new().await;
        stage.login.told([Quirk::Endless(endpoint)]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("answers with more than"), "{endpoint:?}: {failed}");
        assert_eq!(stage.login.count(endpoint), 1, "{endpoint:?}");
    }
}

/// The clock stands still until the request is there; from then on nothing else happens, and it runs.
#[tokio::test]
async fn a_silent_authorization_server_is_given_up() {
    for endpoint in [Endpoint::Metadata, Endpoint::Code] {
        let stage = Stage::new().await;
        stage.login.told([Quirk::Silent(endpoint)]);
        let caller = stage.caller();
        let arrival = async {
            stage.login.until(endpoint, 1).await;
            tokio::time::pause();
        };
        let sign_in = async { caller.session.sign_in(&Demand::default()).await };
        let (failed, ()) = tokio::join!(sign_in, arrival);
        tokio::time::resume();
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("does not answer in time"), "{endpoint:?}: {failed}");
    }
}
