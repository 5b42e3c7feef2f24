//! Where strangers say that metadata and tokens are is looked at when it is dialled, and not before.

use std::sync::Arc;

use toolway_auth::{challenge::Demand, dialer::GuardedDialer, settings::Settings, sign_in::SignIn, vault::MemoryVault};
use toolway_testkit::authorization::{Endpoint, Oddity, Quirk};
use toolway_wire::up::connector::HttpOptions;
use url::Url;

use crate::stage::Stage;

/// CVE-2026-45609, CVE-2026-77261: a server had its client fetch from where only the client can reach.
#[tokio::test]
async fn a_server_leads_to_no_private_place_that_it_is_not_in_itself() {
    for place in ["https://169.254.169.254/meta", "https://10.0.0.1/meta", "https://[::ffff:169.254.169.254]/meta"] {
        let stage = Stage::new().await;
        stage.server.told([Oddity::DocumentAt(place.to_owned())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("is not dialled"), "{place}: {failed}");
        stage.server.told([Oddity::Names(vec![place.to_owned()])]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("is not dialled"), "{place}: {failed}");
        assert_eq!(stage.login.connections(), 0);
    }
}

#[tokio::test]
async fn codes_are_not_brought_to_a_private_place() {
    let stage = Stage::new().await;
    stage.login.told([Quirk::TokensAt("https://169.254.169.254/token".to_owned())]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("is not dialled"), "{failed}");
    assert_eq!(stage.login.count(Endpoint::Code), 0);
}

#[tokio::test]
async fn strangers_give_no_address_but_https_ones() {
    for place in
        ["http://login.example/meta", "file:///etc/passwd", "ftp://login.example/", "https://a:b@login.example/"]
    {
        let stage = Stage::new().await;
        stage.server.told([Oddity::DocumentAt(place.to_owned())]);
        stage.caller().call("hello").await.unwrap_err();
        assert_eq!((stage.login.connections(), stage.server.heard().contains("/.well-known/")), (0, false), "{place}");
    }
}

/// CVE-2026-79747, CVE-2026-77822: a name was checked, and led elsewhere when it was dialled. A server far away names
/// this machine by an address and by a name that only dialling resolves.
#[tokio::test]
async fn a_server_far_away_does_not_lead_to_this_machine() {
    let stage = Stage::new().await;
    let far = Url::parse("https://203.0.113.9/mcp").unwrap();
    let fetch = Arc::new(GuardedDialer::new(far.clone(), HttpOptions::default()));
    let sign_in = SignIn {
        principal: "ada".to_owned(),
        server: far,
        settings: Settings::default(),
        fetch,
        vault: Arc::new(MemoryVault::default()),
        proofs: None,
    };
    let here = format!("{}/.well-known/oauth-protected-resource/mcp", stage.login.issuer());
    for place in [here.clone(), here.replace("127.0.0.1", "localhost")] {
        let demand = Demand { resource_metadata: Some(place.clone()), ..Demand::default() };
        let failed = sign_in.plan(&demand, None).await.unwrap_err().to_string();
        assert!(failed.contains("is not reached from a server that is not there itself"), "{place}: {failed}");
    }
    assert_eq!(stage.login.connections(), 0);
}
