//! The application default credentials file: a service account key or an authorized user.

use std::{io, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use toolway_config::Secret;
use url::Url;

use super::{CredentialPaths, TOKEN_ENDPOINT};
use crate::{
    credential::now,
    grant::{GrantError, JWT_BEARER},
    jwt::{self, Algorithm, Header, SigningKey},
    token::ClientAuth,
};

/// Content of a credentials file.
#[derive(Debug)]
pub(super) enum KeyFile {
    /// Service account with its private key.
    ServiceAccount { email: String, key: Box<SigningKey>, key_id: Option<String>, endpoint: Url },
    /// Refresh token of a user.
    AuthorizedUser { client: ClientAuth, refresh: Secret, endpoint: Url },
}

#[derive(Deserialize)]
struct CredentialFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
}

/// Maximum size in bytes; such files have about two thousand.
const MAX_FILE: u64 = 64 * 1024;
/// Types that refer to further files, accounts or programs.
const INDIRECT_TYPES: [&str; 4] =
    ["external_account", "external_account_authorized_user", "impersonated_service_account", "gdch_service_account"];
const NOT_USED: &str = ", which refers to further files, accounts or programs and is not supported; set \
                        `auth.credentials` to a service account key, or run where the metadata server is reachable";
/// Lifetime of an assertion in seconds, the longest that Google accepts.
const LIFETIME: u64 = 3600;

impl KeyFile {
    /// Reads the first file that exists; a named file that does not exist is an error.
    pub(super) async fn find(places: &CredentialPaths) -> Result<Option<Self>, GrantError> {
        match (places.configured.as_ref().or(places.variable.as_ref()), &places.well_known) {
            (Some(path), _) => Self::read(path).await?.map(Some).ok_or_else(|| unusable(path, "does not exist")),
            (None, Some(path)) => Self::read(path).await,
            (None, None) => Ok(None),
        }
    }

    /// Token endpoint.
    pub(super) fn endpoint(&self) -> &Url {
        match self {
            Self::ServiceAccount { endpoint, .. } | Self::AuthorizedUser { endpoint, .. } => endpoint,
        }
    }

    /// Client authentication of the token request.
    pub(super) fn client(&self) -> &ClientAuth {
        match self {
            Self::ServiceAccount { .. } => &ClientAuth::Anonymous,
            Self::AuthorizedUser { client, .. } => client,
        }
    }

    /// Parameters of the grant for these scopes.
    pub(super) fn grant(&self, scopes: &str) -> Result<Vec<(&'static str, Secret)>, GrantError> {
        match self {
            Self::ServiceAccount { email, key, key_id, endpoint } => {
                let mut claims = Map::new();
                let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
                claim("iss", email.as_str().into());
                claim("scope", scopes.into());
                claim("aud", endpoint.as_str().into());
                claim("iat", now().into());
                claim("exp", (now() + LIFETIME).into());
                let header = Header { kind: Some("JWT"), key_id: key_id.clone(), ..Header::default() };
                let assertion = jwt::sign(key, Algorithm::Rs256, &header, &claims)?;
                Ok(vec![("grant_type", Secret::new(JWT_BEARER)), ("assertion", assertion)])
            }
            // The scopes were fixed when the user agreed, so none are requested.
            Self::AuthorizedUser { refresh, .. } => {
                Ok(vec![("grant_type", Secret::new("refresh_token")), ("refresh_token", refresh.clone())])
            }
        }
    }

    async fn read(path: &Path) -> Result<Option<Self>, GrantError> {
        let bytes = match read_bounded(path).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(path, &format!("cannot be read: {error}"))),
        };
        if MAX_FILE < bytes.len() as u64 {
            return Err(unusable(path, &format!("exceeds {MAX_FILE} bytes")));
        }
        // The parser's message could quote a key.
        let file: CredentialFile =
            serde_json::from_slice(&bytes).map_err(|_| unusable(path, "is not a Google credentials file"))?;
        file.validate(path).map(Some)
    }
}

impl CredentialFile {
    fn validate(self, path: &Path) -> Result<KeyFile, GrantError> {
        let missing = |name: &str| unusable(path, &format!("has no `{name}`"));
        let endpoint = endpoint(path, self.token_uri.as_deref().unwrap_or(TOKEN_ENDPOINT))?;
        match self.kind.as_str() {
            "service_account" => {
                let key = Secret::new(self.private_key.ok_or_else(|| missing("private_key"))?);
                let key = SigningKey::from_pem(&key)
                    .map_err(|error| unusable(path, &format!("has no usable key: {error}")))?;
                let email = self.client_email.ok_or_else(|| missing("client_email"))?;
                Ok(KeyFile::ServiceAccount { email, key: Box::new(key), key_id: self.private_key_id, endpoint })
            }
            "authorized_user" => {
                let id = self.client_id.ok_or_else(|| missing("client_id"))?;
                let secret = Secret::new(self.client_secret.ok_or_else(|| missing("client_secret"))?);
                let refresh = Secret::new(self.refresh_token.ok_or_else(|| missing("refresh_token"))?);
                Ok(KeyFile::AuthorizedUser { client: ClientAuth::Post { id, secret }, refresh, endpoint })
            }
            kind if INDIRECT_TYPES.contains(&kind) => Err(unusable(path, &format!("has the type `{kind}`{NOT_USED}"))),
            _ => Err(unusable(path, "has neither the type `service_account` nor `authorized_user`")),
        }
    }
}

/// Reads one byte more than allowed, so that an oversized file is detected.
async fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(MAX_FILE + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// The token endpoint must use https.
fn endpoint(path: &Path, text: &str) -> Result<Url, GrantError> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.username().is_empty());
    url.ok_or_else(|| unusable(path, "has a `token_uri` that does not use https"))
}

fn unusable(path: &Path, problem: &str) -> GrantError {
    GrantError::Configuration(format!("`{}` {problem}", path.display()))
}
