//! The principal of a command, its vault and keychain, and the sign-in account at one server.

pub(crate) mod browser;
pub(crate) mod opener;
pub(crate) mod page;

use std::{ffi::OsStr, io::Write, path::Path, sync::Arc};

use toolway_auth::{session::SessionOptions, vault::Vault};
use toolway_config::{
    Config, Endpoint, Keychain, NoKeychain, Secret, ServerConfig, Settings, VaultKind,
    server::auth::{Auth, SignInSharing},
};
use toolway_host::connection::sign_in::{Clients, Principal, SignInOptions};
use toolway_vault::{LazyVault, Notice, SecretSources, SecretStore, SystemKeychain, VaultChoice, VaultOptions};
use url::Url;

use crate::{app::App, commands::clients, output::clean, report::Report, suggestion};

/// Passphrase of the sealed credential file; replaces the key file.
const PASSPHRASE: &str = "TOOLWAY_VAULT_PASSPHRASE";
/// Name of the systemd credential with the same.
const PASSPHRASE_CREDENTIAL: &str = "toolway-vault-passphrase";

/// The account of one principal at one server.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) options: SessionOptions,
    pub(crate) callback_port: Option<u16>,
    /// Redirect URI of the entry, if it has one.
    pub(crate) redirect: Option<Url>,
    /// Whether the sign-in serves its own user only; clients of the gateway have their own.
    pub(crate) is_private: bool,
    kind: Kind,
}

/// How the server authenticates its callers.
#[derive(Debug)]
enum Kind {
    SignedInTo,
    /// Without a sign-in; the text says how.
    Other(String),
}

impl App {
    /// The sources of secrets in configuration: the keychain of the operating system, or an empty one, and the vault.
    pub(crate) fn keychain(&self, settings: &Settings) -> Arc<dyn Keychain> {
        let keychain: Arc<dyn Keychain> = match SystemKeychain::of(&self.environment) {
            Some(keychain) => Arc::new(keychain),
            None => Arc::new(NoKeychain),
        };
        Arc::new(SecretSources { keychain, secrets: self.secrets(settings) })
    }

    /// The user's secrets in the vault of this process.
    pub(crate) fn secrets(&self, settings: &Settings) -> SecretStore {
        SecretStore::new(self.vault(settings))
    }

    /// The credential vault of this process; opened on first use.
    pub(crate) fn vault(&self, settings: &Settings) -> Arc<dyn Vault> {
        Arc::clone(self.vault.get_or_init(|| self.new_vault(settings)))
    }

    fn new_vault(&self, settings: &Settings) -> Arc<dyn Vault> {
        let choice = match settings.sign_in.vault.value {
            VaultKind::Auto => VaultChoice::Auto,
            VaultKind::Keychain => VaultChoice::Keychain,
            VaultKind::File => VaultChoice::File,
            VaultKind::Memory => VaultChoice::Memory,
        };
        let passphrase = self.environment.get(OsStr::new(PASSPHRASE)).and_then(|text| text.to_str());
        let passphrase =
            passphrase.filter(|text| !text.is_empty()).map(Secret::new).or_else(|| self.service_passphrase());
        let options = VaultOptions { choice, passphrase, ..VaultOptions::of(&self.environment) };
        Arc::new(LazyVault::new(options, Arc::new(|notice: Notice| print_notice(&format!("toolway: {notice}")))))
    }

    /// The passphrase of the vault that systemd hands to a service (`LoadCredential`).
    fn service_passphrase(&self) -> Option<Secret> {
        let folder = self.environment.get(OsStr::new("CREDENTIALS_DIRECTORY")).map(Path::new)?;
        let text = std::fs::read_to_string(folder.join(PASSPHRASE_CREDENTIAL)).ok()?;
        let text = text.trim_end_matches(['\n', '\r']);
        (!text.is_empty()).then(|| Secret::new(text))
    }

    /// The principal of the command.
    pub(crate) fn principal(&self) -> Principal {
        Principal::local(self.reach.profile.as_deref())
    }

    /// The principal of the command, or of a gateway client if one is named.
    pub(crate) fn principal_of(&self, client: Option<&str>) -> Result<Principal, Report> {
        match (client, &self.reach.profile) {
            (None, _) => Ok(self.principal()),
            (Some(client), None) => Ok(Principal::client(client)),
            (Some(_), Some(_)) => Err(Report::usage(
                "arguments",
                "--client and --profile cannot be combined: a client has its own sign-ins",
            )),
        }
    }

    /// Fails if the gateway has no client of this name.
    pub(crate) fn check_client(&self, client: Option<&str>) -> Result<(), Report> {
        let Some(client) = client else { return Ok(()) };
        let known = clients::key_file(self)?.list()?;
        if known.iter().any(|known| known.name == client) {
            return Ok(());
        }
        let near = suggestion::did_you_mean(client, known.iter().map(|known| known.name.as_str()));
        Err(Report::usage("unknown_client", format!("the gateway has no client `{client}`{near}"))
            .hint("list clients with `toolway clients list`, add one with `toolway clients add`"))
    }

    /// The sign-in options of the host.
    pub(crate) fn sign_in_options(&self, settings: &Settings, clients: Clients) -> SignInOptions {
        let document = settings.sign_in.client_metadata_url.value.as_deref();
        SignInOptions {
            principal: self.principal(),
            clients,
            http: self.http_options(),
            client_metadata_url: document.and_then(|document| Url::parse(document).ok()),
        }
    }

    /// The account of this principal at a server; fails if the server does not use a sign-in.
    pub(crate) fn account(
        &self,
        config: &Config,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Result<Account, Report> {
        let account = self.stored_account(config, server, principal)?;
        match &account.kind {
            Kind::SignedInTo => Ok(account),
            Kind::Other(how) => {
                Err(Report::usage("no_sign_in", format!("server `{}` does not use a sign-in: {how}", server.name)))
            }
        }
    }

    /// The account of this principal at a server, whether or not it uses a sign-in.
    pub(crate) fn stored_account(
        &self,
        config: &Config,
        server: &ServerConfig,
        principal: &Principal,
    ) -> Result<Account, Report> {
        let name = &server.name;
        let endpoint = server.endpoint(&self.environment, &*self.keychain(&config.settings))?;
        let Endpoint::Http { url, sign_in, .. } = endpoint else {
            let message = format!("server `{name}` is a stdio server: set its credentials in `env` of its entry");
            return Err(Report::usage("no_sign_in", message));
        };
        let kind = match &sign_in.auth {
            Auth::OAuth { .. } => Kind::SignedInTo,
            Auth::None => Kind::Other("it has no `auth`, or is authenticated by `headers`".to_owned()),
            other => Kind::Other(format!("its `auth` is `{}`", other.kind())),
        };
        let url = Url::parse(url.expose()).map_err(|error| Report::usage("config", error.to_string()))?;
        let options = self.sign_in_options(&config.settings, Clients::Ourselves);
        let vault = self.vault(&config.settings);
        let options = options.session((name, &url), &sign_in, principal, vault);
        let options = options.map_err(|error| Report::usage("config", error.to_string()))?;
        let redirect = sign_in.oauth.redirect_uri.as_ref().map(|redirect| Url::parse(redirect.expose())).transpose();
        let redirect = redirect.map_err(|_| Report::usage("config", "`oauth.redirectUri` is invalid"))?;
        let is_private = matches!(sign_in.auth, Auth::OAuth { sharing: SignInSharing::Private, .. });
        Ok(Account { options, callback_port: sign_in.oauth.callback_port, redirect, is_private, kind })
    }
}

/// Prints a line to standard error from code without an [`Output`](crate::output::Output).
pub(crate) fn print_notice(text: &str) {
    let mut stderr = std::io::stderr();
    let _gone = writeln!(stderr, "{}", clean::text(text)).and_then(|()| stderr.flush());
}
