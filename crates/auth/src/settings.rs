//! What the operator wrote about signing in to a server. It wins over what strangers say.

use toolway_config::Secret;
use url::Url;

use crate::{
    credential::{Credential, CredentialKey},
    scope::Scopes,
};

/// Manual settings; everything that is not given is found out.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// A client that is registered already. It belongs to one issuer.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<Secret>,
    /// What to ask for.
    pub scopes: Option<Scopes>,
    /// Who the authorization server is, letter by letter, whoever the server names.
    pub issuer: Option<String>,
    /// Where the authorization server's metadata is.
    pub metadata_url: Option<Url>,
    /// Where people sign in; with [`token_url`](Self::token_url), nothing is looked for.
    pub authorization_url: Option<Url>,
    /// Where tokens come from.
    pub token_url: Option<Url>,
    /// What people read when they are asked for their consent.
    pub client_name: Option<String>,
    /// The address of the document about this client, where one is published.
    pub client_document: Option<Url>,
    /// Servers of 2025-03-26.
    pub old_servers: OldServers,
}

impl Settings {
    /// Whether the operator said where secrets and assertions go. What only a server says about that is a stranger's word.
    pub fn names_whom_to_ask(&self) -> bool {
        self.issuer.is_some() || self.metadata_url.is_some() || self.token_url.is_some()
    }

    /// Whether what is kept is still of whom the operator means.
    pub(crate) fn means(&self, key: &CredentialKey, kept: &Credential) -> bool {
        self.issuer.as_ref().is_none_or(|meant| *meant == key.issuer)
            && self.token_url.as_ref().is_none_or(|meant| *meant == kept.token_endpoint)
    }

    /// Whether the operator said, in as many words, that secrets go where what is kept came from. A document that was
    /// named is looked at again only when somebody signs in.
    pub(crate) fn names(&self, key: &CredentialKey, kept: &Credential) -> bool {
        (self.issuer.is_some() || self.token_url.is_some()) && self.means(key, kept)
    }
}

/// What to do with a server that asks for a sign-in and does not say where, as those of 2025-03-26 do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldServers {
    /// Nobody signs in there.
    #[default]
    Refuse,
    /// It signs people in itself, and nothing says that it protects the code on its way.
    Allow,
}
