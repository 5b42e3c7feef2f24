//! Authentication of requests to a server: `auth` and `oauth` of an entry.
//!
//! The type parameter tells whether references are resolved: `Template` as written, `Secret` as sent.

mod facts;
mod keys;

pub(crate) use keys::{ALGORITHMS, AUTH, KEY_HEADER, OAUTH, auth, oauth};

/// Authentication of requests to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth<T> {
    /// No credentials are sent, even if the server requires them.
    None,
    /// A configured bearer token.
    Bearer {
        /// Bearer token.
        token: T,
    },
    /// An API key in a header.
    ApiKey {
        /// API key.
        key: T,
        /// Name of the header.
        header: String,
    },
    /// HTTP Basic authentication.
    Basic {
        /// User name.
        username: T,
        /// User password.
        password: T,
    },
    /// The user signs in at the authorization server when the server requires it.
    OAuth {
        /// What tokens are bound to.
        binding: Binding,
        /// Which clients use the sign-in.
        sharing: SignInSharing,
    },
    /// An OAuth grant without user interaction.
    Grant {
        /// OAuth grant.
        grant: Grant<T>,
        /// Requested scopes; empty means those that the server requires.
        scopes: Vec<String>,
        /// What tokens are bound to.
        binding: Binding,
    },
}

/// OAuth grants without user interaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant<T> {
    /// Client credentials of a registered client.
    ClientCredentials {
        /// Client ID.
        client: T,
        /// Client authentication.
        proof: ClientProof<T>,
    },
    /// Enterprise-managed authorization: an ID token of the identity provider is exchanged.
    Enterprise {
        /// Identity provider: its issuer, or its token endpoint.
        provider: Provider<T>,
        /// Our client at the identity provider.
        provider_client: Client<T>,
        /// ID token of the user.
        id_token: T,
        /// Our client at the authorization server of the server.
        client: Client<T>,
    },
    /// Workload identity: an assertion of the platform is exchanged.
    Workload {
        /// Assertion of the platform.
        assertion: T,
        /// Client ID, if the authorization server needs one.
        client: Option<T>,
        /// Expected audience of the assertion; `None` means the authorization server.
        audience: Option<T>,
    },
    /// Google's application default credentials.
    Google {
        /// Credentials file; `None` means the default search path of Google's tools.
        credentials: Option<T>,
        /// URL of the metadata server; `None` means Google's default.
        metadata_url: Option<T>,
    },
}

/// A client of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client<T> {
    /// Client ID.
    pub id: T,
    /// Client secret of a confidential client.
    pub secret: Option<T>,
}

/// Client authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProof<T> {
    /// Client secret.
    Secret(T),
    /// Signed assertion (`private_key_jwt`).
    Key {
        /// Private key as PEM.
        key: T,
        /// Signature algorithm; `None` means the default for the kind of key.
        algorithm: Option<&'static str>,
    },
}

/// Location of an identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider<T> {
    /// Issuer URL; the token endpoint is in its metadata.
    Issuer(T),
    /// Token endpoint.
    TokenUrl(T),
}

/// What a token is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Not bound: any holder can use it.
    #[default]
    Bearer,
    /// Bound to a key of ours (DPoP).
    Key,
}

/// Which clients use a sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignInSharing {
    /// Only the client that signed in.
    #[default]
    Private,
    /// All clients of the gateway (`shared`).
    Shared,
}

/// OAuth settings that override discovery and client registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth<T> {
    /// ID of a pre-registered client.
    pub client_id: Option<T>,
    /// Secret of the pre-registered client.
    pub client_secret: Option<T>,
    /// Requested scopes, instead of those that the server requires.
    pub scopes: Option<Vec<String>>,
    /// Port of the callback URL; `None` means any free port.
    pub callback_port: Option<u16>,
    /// Redirect URI with which the client is registered, instead of `http://127.0.0.1:<port>/callback`.
    pub redirect_uri: Option<T>,
    /// Issuer of the authorization server, instead of the one that the server names.
    pub issuer: Option<T>,
    /// URL of the authorization server metadata.
    pub metadata_url: Option<T>,
    /// Authorization endpoint.
    pub authorization_url: Option<T>,
    /// Token endpoint.
    pub token_url: Option<T>,
    /// Client name shown to the user by the authorization server.
    pub client_name: Option<String>,
    /// Whether a server without protected resource metadata may be its own authorization server (2025-03-26). `None`:
    /// tried if the metadata does not exist. `true`: also if it is temporarily unavailable.
    pub old_server: Option<bool>,
}

/// Authentication settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn<T> {
    /// Authentication of requests.
    pub auth: Auth<T>,
    /// OAuth settings.
    pub oauth: OAuth<T>,
}

/// Kind of a string in `auth` or `oauth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// A secret; never shown.
    Secret,
    /// An ID or a name.
    Plain,
    /// A URL that credentials are sent to.
    Address,
    /// Path of a file that contains a secret.
    File,
}

impl<T> Default for Auth<T> {
    fn default() -> Self {
        Self::OAuth { binding: Binding::default(), sharing: SignInSharing::default() }
    }
}

impl<T> Default for OAuth<T> {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            scopes: None,
            callback_port: None,
            redirect_uri: None,
            issuer: None,
            metadata_url: None,
            authorization_url: None,
            token_url: None,
            client_name: None,
            old_server: None,
        }
    }
}

impl<T> Default for SignIn<T> {
    fn default() -> Self {
        Self { auth: Auth::default(), oauth: OAuth::default() }
    }
}

impl<T> Auth<T> {
    /// Value of `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bearer { .. } => "bearer",
            Self::ApiKey { .. } => "apiKey",
            Self::Basic { .. } => "basic",
            Self::OAuth { .. } => "oauth",
            Self::Grant { grant, .. } => match grant {
                Grant::ClientCredentials { .. } => "clientCredentials",
                Grant::Enterprise { .. } => "enterprise",
                Grant::Workload { .. } => "workload",
                Grant::Google { .. } => "google",
            },
        }
    }

    /// Whether it uses an authorization server, so that `oauth` has an effect.
    pub fn uses_tokens(&self) -> bool {
        matches!(self, Self::OAuth { .. } | Self::Grant { .. })
    }

    /// The header of a configured credential; `None` if a token must be requested first.
    pub fn fixed_header(&self) -> Option<&str> {
        match self {
            Self::Bearer { .. } | Self::Basic { .. } => Some("Authorization"),
            Self::ApiKey { header, .. } => Some(header),
            Self::None | Self::OAuth { .. } | Self::Grant { .. } => None,
        }
    }

    /// The header that it sets; `None` if it sends no credentials.
    pub(crate) fn header(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::ApiKey { header, .. } => Some(header),
            _ => Some("authorization"),
        }
    }
}

impl Binding {
    /// Converts `dpop`.
    pub(crate) fn from_dpop(on: bool) -> Self {
        if on { Self::Key } else { Self::Bearer }
    }
}
