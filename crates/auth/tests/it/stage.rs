//! One authorization server, one server that it protects, and people who call its tools.

use std::sync::Arc;

use toolway_auth::{challenge::Demand, settings::Settings, vault::MemoryVault};
use toolway_config::Secret;
use toolway_testkit::authorization::{AuthorizationServer, Caller, Endpoint, Person, ProtectedServer, Quirk};

/// What a story is told on.
pub(crate) struct Stage {
    pub(crate) login: AuthorizationServer,
    pub(crate) server: ProtectedServer,
    pub(crate) vault: Arc<MemoryVault>,
    pub(crate) ada: Person,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let login = AuthorizationServer::start().await.unwrap();
        let server = ProtectedServer::start(&login).await.unwrap();
        Self { login, server, vault: Arc::default(), ada: Person::named("ada") }
    }

    /// Ada, who signs in when asked.
    pub(crate) fn caller(&self) -> Caller {
        self.with(Settings::default())
    }

    /// Ada, with what the operator wrote.
    pub(crate) fn with(&self, settings: Settings) -> Caller {
        self.somebody("ada", settings, Some(self.ada.clone()))
    }

    /// A program on behalf of Ada, without Ada.
    pub(crate) fn unattended(&self) -> Caller {
        self.somebody("ada", Settings::default(), None)
    }

    pub(crate) fn somebody(&self, principal: &str, settings: Settings, person: Option<Person>) -> Caller {
        Caller::new(&self.server.url(), principal, settings, Arc::clone(&self.vault) as _, person).unwrap()
    }

    /// Ada has signed in, and her token has ended.
    pub(crate) async fn with_an_ended_token() -> Self {
        let stage = Self::new().await;
        stage.login.told([Quirk::Lasts(0), Quirk::SecretClients]);
        stage.caller().session.sign_in(&Demand::default()).await.unwrap();
        stage.login.told([]);
        stage
    }

    /// How often people were sent to the page, codes were exchanged and tokens renewed.
    pub(crate) fn visits_codes_renewals(&self) -> (usize, usize, usize) {
        let [visits, codes, renewals] =
            [Endpoint::Page, Endpoint::Code, Endpoint::Renewal].map(|endpoint| self.login.count(endpoint));
        (visits, codes, renewals)
    }
}

/// A client that the operator registered.
pub(crate) fn configured(id: &str, secret: Option<&str>) -> Settings {
    Settings { client_id: Some(id.to_owned()), client_secret: secret.map(Secret::new), ..Settings::default() }
}

/// Nothing of what one server knows as secret has come to another.
pub(crate) fn assert_none_of(secrets: &[String], heard: &str) {
    assert!(!secrets.is_empty(), "nothing to look for");
    for secret in secrets {
        assert!(!heard.contains(secret.as_str()), "{secret} arrived");
    }
}
