//! Test setup: an authorization server, a server that it protects, and callers.

use std::sync::Arc;

use toolway_auth::{challenge::TokenChallenge, settings::Settings, vault::MemoryVault};
use toolway_config::Secret;
use toolway_testkit::authorization::{AuthorizationServer, Caller, Endpoint, ProtectedServer, Quirk, TestUser};

/// Test setup of one test.
pub(crate) struct Stage {
    pub(crate) login: AuthorizationServer,
    pub(crate) server: ProtectedServer,
    pub(crate) vault: Arc<MemoryVault>,
    pub(crate) ada: TestUser,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let login = AuthorizationServer::start().await.unwrap();
        let server = ProtectedServer::start(&login).await.unwrap();
        Self { login, server, vault: Arc::default(), ada: TestUser::named("ada") }
    }

    /// Ada, who signs in when asked.
    pub(crate) fn caller(&self) -> Caller {
        self.with(Settings::default())
    }

    /// Ada, with these settings.
    pub(crate) fn with(&self, settings: Settings) -> Caller {
        self.caller_for("ada", settings, Some(self.ada.clone()))
    }

    /// A caller on behalf of Ada without a browser.
    pub(crate) fn unattended(&self) -> Caller {
        self.caller_for("ada", Settings::default(), None)
    }

    pub(crate) fn caller_for(&self, principal: &str, settings: Settings, user: Option<TestUser>) -> Caller {
        Caller::new(&self.server.url(), principal, settings, Arc::clone(&self.vault) as _, user).unwrap()
    }

    /// Ada has signed in, and her token has expired.
    pub(crate) async fn with_expired_token() -> Self {
        let stage = Self::new().await;
        stage.login.set_quirks([Quirk::TokenLifetime(0), Quirk::IssuesClientSecrets]);
        stage.caller().session.sign_in(&TokenChallenge::default()).await.unwrap();
        stage.login.set_quirks([]);
        stage
    }

    /// Number of visits of the page, code exchanges and refreshes.
    pub(crate) fn visits_codes_refreshes(&self) -> (usize, usize, usize) {
        let [visits, codes, refreshes] =
            [Endpoint::Page, Endpoint::Code, Endpoint::Refresh].map(|endpoint| self.login.count(endpoint));
        (visits, codes, refreshes)
    }
}

/// Settings with a registered client.
pub(crate) fn configured(id: &str, secret: Option<&str>) -> Settings {
    Settings { client_id: Some(id.to_owned()), client_secret: secret.map(Secret::new), ..Settings::default() }
}

/// Asserts that none of these secrets arrived at a server.
pub(crate) fn assert_none_of(secrets: &[String], received: &str) {
    assert!(!secrets.is_empty(), "no secrets to look for");
    for secret in secrets {
        assert!(!received.contains(secret.as_str()), "{secret} arrived");
    }
}
