//! Whose credentials a command uses, where they are kept, and how a person signs in to one server.

pub(crate) mod browser;
pub(crate) mod opener;

use std::{ffi::OsStr, io::Write, sync::Arc};

use toolway_auth::{session::SessionOptions, vault::Vault};
use toolway_config::{
    Config, Endpoint, Keychain, NoKeychain, Secret, ServerConfig, Settings, VaultKind, server::auth::Auth,
};
use toolway_host::connection::sign_in::{Clients, Principal, SignInOptions};
use toolway_vault::{LateVault, Notice, SystemKeychain, VaultOptions, WantedVault};
use url::Url;

use crate::{
    app::App,
    commands::clients,
    output::clean,
    report::{Report, sentence},
    similar,
};

/// Seals the file that credentials are kept in, in the place of a key file.
const PASSPHRASE: &str = "TOOLWAY_VAULT_PASSPHRASE";

/// A server that people sign in to.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) options: SessionOptions,
    pub(crate) callback_port: Option<u16>,
    kind: Kind,
}

/// How a server is told who asks.
#[derive(Debug)]
enum Kind {
    SignedInTo,
    /// In another way, which is said.
    Other(String),
}

impl App {
    /// Where secrets are asked for by name.
    pub(crate) fn keychain(&self) -> Arc<dyn Keychain> {
        match SystemKeychain::of(&self.environment) {
            Some(keychain) => Arc::new(keychain),
            None => Arc::new(NoKeychain),
        }
    }

    /// Where credentials are kept; opened when one is needed.
    pub(crate) fn vault(&self, settings: &Settings) -> Arc<dyn Vault> {
        let wanted = match settings.sign_in.vault.value {
            VaultKind::Auto => WantedVault::Auto,
            VaultKind::Keychain => WantedVault::Keychain,
            VaultKind::File => WantedVault::File,
            VaultKind::Memory => WantedVault::Memory,
        };
        let passphrase = self.environment.get(OsStr::new(PASSPHRASE)).and_then(|text| text.to_str());
        let passphrase = passphrase.filter(|text| !text.is_empty()).map(Secret::new);
        let options = VaultOptions { wanted, passphrase, ..VaultOptions::of(&self.environment) };
        Arc::new(LateVault::new(options, Arc::new(|notice: Notice| say(&format!("toolway: {notice}")))))
    }

    /// Whose credentials are used.
    pub(crate) fn principal(&self) -> Principal {
        Principal::local(self.reach.profile.as_deref())
    }

    /// The same, or a client of the gateway where one is named.
    pub(crate) fn principal_of(&self, client: Option<&str>) -> Result<Principal, Report> {
        match (client, &self.reach.profile) {
            (None, _) => Ok(self.principal()),
            (Some(client), None) => Ok(Principal::client(client)),
            (Some(_), Some(_)) => {
                Err(Report::usage("arguments", "Give --client or --profile: a client has sign-ins of its own."))
            }
        }
    }

    /// A name that no client has would be signed in for nobody.
    pub(crate) fn check_client(&self, client: Option<&str>) -> Result<(), Report> {
        let Some(client) = client else { return Ok(()) };
        let known = clients::file(self)?.list()?;
        if known.iter().any(|known| known.name == client) {
            return Ok(());
        }
        let report = Report::usage("unknown_client", format!("The gateway has no client `{client}`."));
        let near = similar::to(client, known.iter().map(|known| known.name.as_str()));
        Err(match near {
            Some(near) => report.hint(format!("Did you mean `{near}`?")),
            None => report.hint("`toolway clients list` shows those there are, `toolway clients add` makes one."),
        })
    }

    /// How people sign in.
    pub(crate) fn sign_in_options(&self, settings: &Settings, clients: Clients) -> SignInOptions {
        let document = settings.sign_in.client_metadata_url.value.as_deref();
        SignInOptions {
            principal: self.principal(),
            clients,
            http: self.http_options(),
            client_metadata_url: document.and_then(|document| Url::parse(document).ok()),
        }
    }

    /// How this principal signs in to a server; a usage error where nobody does.
    pub(crate) fn account(
        &self,
        config: &Config,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Result<Account, Report> {
        let account = self.whatever_is_kept(config, server, principal)?;
        match &account.kind {
            Kind::SignedInTo => Ok(account),
            Kind::Other(how) => {
                Err(Report::usage("no_sign_in", format!("Nobody signs in to `{}`: {how}.", server.name)))
            }
        }
    }

    /// What is kept of this principal at a server, in whichever way it was got.
    pub(crate) fn whatever_is_kept(
        &self,
        config: &Config,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Result<Account, Report> {
        let name = &server.name;
        let endpoint = server.endpoint(&self.environment, &*self.keychain())?;
        let Endpoint::Http { url, sign_in, .. } = endpoint else {
            let message = format!("`{name}` is a program: what it needs to know of you stands in `env` of its entry.");
            return Err(Report::usage("no_sign_in", message));
        };
        let kind = match &sign_in.auth {
            Auth::OAuth { .. } => Kind::SignedInTo,
            Auth::None => Kind::Other("nothing is said about who asks, or `headers` say it".to_owned()),
            other => Kind::Other(format!("its `auth` is of the kind `{}`", other.kind())),
        };
        let url = Url::parse(url.expose()).map_err(|error| Report::usage("config", sentence(&error.to_string())))?;
        let options = self.sign_in_options(&config.settings, Clients::Ourselves);
        let vault = self.vault(&config.settings);
        let options = options.session((name, &url), &sign_in, principal, vault);
        let options = options.map_err(|error| Report::usage("config", sentence(&error.to_string())))?;
        Ok(Account { options, callback_port: sign_in.oauth.callback_port, kind })
    }
}

/// Says something to whoever is there, from anywhere.
pub(crate) fn say(text: &str) {
    let mut talk = std::io::stderr();
    let _gone = writeln!(talk, "{}", clean::text(text)).and_then(|()| talk.flush());
}
