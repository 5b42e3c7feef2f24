//! How requests to a server say who asks: what `auth` and `oauth` of an entry say.
//!
//! Each text is of a type that tells whether its references are put in: `Template` as it was written, `Secret` as it is
//! sent.

mod facts;
mod keys;

pub(crate) use keys::{AUTH, OAUTH, auth, oauth};

/// How requests to a server say who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth<T> {
    /// They do not; a server that wants to know is told nothing.
    None,
    /// With a token that somebody gave us.
    Bearer {
        /// The token.
        token: T,
    },
    /// With a key in a header.
    ApiKey {
        /// The key.
        key: T,
        /// The header it is sent in.
        header: String,
    },
    /// With a name and a password.
    Basic {
        /// The name.
        username: T,
        /// The password.
        password: T,
    },
    /// A person signs in where the server says, once it asks for that.
    OAuth {
        /// What tokens are bound to.
        binding: Binding,
        /// Who uses the sign-in.
        whose: Whose,
    },
    /// Without a person.
    Grant {
        /// How a token is asked for.
        grant: Grant<T>,
        /// What it is asked for; nothing means what the server says.
        scopes: Vec<String>,
        /// What tokens are bound to.
        binding: Binding,
    },
}

/// How a token is asked for without a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant<T> {
    /// We are a client that the authorization server knows.
    ClientCredentials {
        /// Which.
        client: T,
        /// How it shows that it is.
        proof: ClientProof<T>,
    },
    /// The company's own sign-in stands for a person.
    Enterprise {
        /// The identity provider: its issuer, or its token endpoint.
        provider: Provider<T>,
        /// Who we are there.
        provider_client: Client<T>,
        /// What it said about the person.
        id_token: T,
        /// Who we are at the server's authorization server.
        client: Client<T>,
    },
    /// What the platform says about this program stands for it.
    Workload {
        /// What it says.
        assertion: T,
        /// Who we are, if that is asked for.
        client: Option<T>,
        /// For whom the assertion must be, where that is not what the authorization server says.
        audience: Option<T>,
    },
    /// Google's application default credentials.
    Google {
        /// The file they are in; where it is not said, where Google's own programs look.
        credentials: Option<T>,
        /// Where a machine of Google's is asked about itself.
        metadata_url: Option<T>,
    },
}

/// A client of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client<T> {
    /// Its id.
    pub id: T,
    /// Its secret, if it has one.
    pub secret: Option<T>,
}

/// How a client shows that it is the one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProof<T> {
    /// With a secret.
    Secret(T),
    /// With a signature.
    Key {
        /// The private key, as PEM.
        key: T,
        /// How it signs; by the kind of key where it is not said.
        algorithm: Option<&'static str>,
    },
}

/// Where an identity provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider<T> {
    /// Its issuer, whose metadata say where tokens are exchanged.
    Issuer(T),
    /// Where tokens are exchanged.
    TokenUrl(T),
}

/// What a token is bound to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nothing: whoever has it can use it.
    #[default]
    Bearer,
    /// A key of ours (DPoP).
    Key,
}

/// Who uses a sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Who signed in, and nobody else.
    #[default]
    Own,
    /// Every client of the gateway: the operator has said so.
    Everybody,
}

/// What is not left to discovery and registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth<T> {
    /// The client that was registered for us.
    pub client_id: Option<T>,
    /// Its secret.
    pub client_secret: Option<T>,
    /// What is asked for, whatever the server says.
    pub scopes: Option<Vec<String>>,
    /// The port at which the browser comes back; any free one where it is not said.
    pub callback_port: Option<u16>,
    /// Who the authorization server is, whoever the server names.
    pub issuer: Option<T>,
    /// Where the authorization server's metadata are.
    pub metadata_url: Option<T>,
    /// Where people sign in.
    pub authorization_url: Option<T>,
    /// Where tokens are given.
    pub token_url: Option<T>,
    /// What the authorization server calls us in front of people.
    pub client_name: Option<String>,
    /// Whether a server that does not say where may sign people in itself, as those of 2025-03-26 do.
    pub old_server: Option<bool>,
}

/// Everything about a server's sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn<T> {
    /// How requests say who asks.
    pub auth: Auth<T>,
    /// What is not left to discovery and registration.
    pub oauth: OAuth<T>,
}

/// What a text is, besides being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Never shown.
    Secret,
    /// An id or a name.
    Plain,
    /// An address that credentials are sent to.
    Address,
    /// A file with a secret in it.
    File,
}

impl<T> Default for Auth<T> {
    fn default() -> Self {
        Self::OAuth { binding: Binding::default(), whose: Whose::default() }
    }
}

impl<T> Default for OAuth<T> {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret: None,
            scopes: None,
            callback_port: None,
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
    /// The word of its kind.
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

    /// Whether an authorization server has a part in it, so that `oauth` says something.
    pub fn asks_for_tokens(&self) -> bool {
        matches!(self, Self::OAuth { .. } | Self::Grant { .. })
    }

    /// The header in which what was configured is sent; none where somebody is asked for it first.
    pub fn fixed_header(&self) -> Option<&str> {
        match self {
            Self::Bearer { .. } | Self::Basic { .. } => Some("Authorization"),
            Self::ApiKey { header, .. } => Some(header),
            Self::None | Self::OAuth { .. } | Self::Grant { .. } => None,
        }
    }

    /// The header it fills, where that is known before anything is asked.
    pub(crate) fn header(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::ApiKey { header, .. } => Some(header),
            _ => Some("authorization"),
        }
    }
}

impl Binding {
    pub(crate) fn when_proven(on: bool) -> Self {
        if on { Self::Key } else { Self::Bearer }
    }
}
