//! The operator's settings for sign-in to a server. They override what servers say.

use toolway_config::Secret;
use url::Url;

use crate::{
    credential::{Credential, CredentialKey},
    scope::Scopes,
};

/// Manual settings; everything that is not set is discovered.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Id of a registered client. It belongs to one issuer.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Secret>,
    /// Scopes to request.
    pub scopes: Option<Scopes>,
    /// Issuer identifier of the authorization server, compared byte by byte; overrides the one that the server names.
    pub issuer: Option<String>,
    /// URL of the authorization server metadata.
    pub metadata_url: Option<Url>,
    /// Authorization endpoint; together with [`token_url`](Self::token_url), nothing is discovered.
    pub authorization_url: Option<Url>,
    /// Token endpoint.
    pub token_url: Option<Url>,
    /// Client name on consent pages.
    pub client_name: Option<String>,
    /// URL of the published client metadata document.
    pub client_document: Option<Url>,
    /// Policy for 2025-03-26 servers.
    pub old_servers: OldServers,
}

impl Settings {
    /// Whether the operator configured the recipient of secrets and assertions. A recipient that only the server names
    /// is untrusted.
    pub fn names_authorization_server(&self) -> bool {
        self.issuer.is_some() || self.metadata_url.is_some() || self.token_url.is_some()
    }

    /// Whether a stored credential comes from the configured issuer and token endpoint.
    pub(crate) fn matches(&self, key: &CredentialKey, kept: &Credential) -> bool {
        self.issuer.as_ref().is_none_or(|meant| *meant == key.issuer)
            && self.token_url.as_ref().is_none_or(|meant| *meant == kept.token_endpoint)
    }

    /// Whether issuer or token endpoint are configured literally and a stored credential comes from them. A configured
    /// metadata URL does not count, because the document is read only at sign-in.
    pub(crate) fn explicitly_names(&self, key: &CredentialKey, kept: &Credential) -> bool {
        (self.issuer.is_some() || self.token_url.is_some()) && self.matches(key, kept)
    }
}

/// Policy for a server that requires sign-in without naming an authorization server, as in 2025-03-26.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldServers {
    /// Sign-in is refused.
    Refuse,
    /// If the server has no protected resource metadata, it is its own authorization server, and PKCE support is
    /// unknown. The user is told before the browser opens.
    #[default]
    Try,
    /// The same, even if it answers a request for the metadata with a temporary error.
    Assume,
}
