//! URLs of metadata and tokens that servers name are checked when they are dialled.

use std::sync::Arc;

use toolway_auth::{
    challenge::TokenChallenge, dialer::GuardedDialer, settings::Settings, sign_in::SignIn, vault::MemoryVault,
};
use toolway_testkit::authorization::{Endpoint, Quirk, ServerQuirk};
use toolway_wire::up::connector::HttpOptions;
use url::Url;

use crate::stage::Stage;

/// CVE-2026-45609, CVE-2026-77261: a server made its client fetch internal URLs.
#[tokio::test]
async fn server_cannot_refer_to_private_addresses() {
    for place in ["https://169.254.169.254/meta", "https://10.0.0.1/meta", "https://[::ffff:169.254.169.254]/meta"] {
        let stage = Stage::new().await;
        stage.server.set_quirks([ServerQuirk::MetadataAt(place.to_owned())]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("refused"), "{place}: {failed}");
        stage.server.set_quirks([ServerQuirk::AuthorizationServers(vec![place.to_owned()])]);
        let failed = stage.caller().call("hello").await.unwrap_err();
        assert!(failed.contains("refused"), "{place}: {failed}");
        assert_eq!(stage.login.connections(), 0);
    }
}

#[tokio::test]
async fn codes_are_not_sent_to_private_addresses() {
    let stage = Stage::new().await;
    stage.login.set_quirks([Quirk::TokenEndpointAt("https://169.254.169.254/token".to_owned())]);
    let failed = stage.caller().call("hello").await.unwrap_err();
    assert!(failed.contains("refused"), "{failed}");
    assert_eq!(stage.login.count(Endpoint::Code), 0);
}

#[tokio::test]
async fn urls_from_servers_must_use_https() {
    for place in
        ["http://login.example/meta", "file:///etc/passwd", "ftp://login.example/", "https://a:b@login.example/"]
    {
        let stage = Stage::new().await;
        stage.server.set_quirks([ServerQuirk::MetadataAt(place.to_owned())]);
        stage.caller().call("hello").await.unwrap_err();
        assert_eq!(
            (stage.login.connections(), stage.server.received().contains("/.well-known/")),
            (0, false),
            "{place}"
        );
    }
}

/// CVE-2026-79747, CVE-2026-77822: a name was checked, and resolved to another address when it was dialled. A remote
/// server names this machine by an address and by a name that only dialling resolves.
#[tokio::test]
async fn remote_server_cannot_refer_to_this_machine() {
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
        let demand = TokenChallenge { resource_metadata: Some(place.clone()), ..TokenChallenge::default() };
        let failed = sign_in.plan(&demand, None).await.unwrap_err().to_string();
        assert!(failed.contains("only a server with such an address may refer to it"), "{place}: {failed}");
    }
    assert_eq!(stage.login.connections(), 0);
}
