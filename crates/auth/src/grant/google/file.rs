//! The file of application default credentials: a service account's key, or what a person agreed to.

use std::{io, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use toolway_config::Secret;
use url::Url;

use super::{Places, TOKEN_ENDPOINT};
use crate::{
    credential::now,
    grant::{GrantError, JWT_BEARER},
    jwt::{self, Algorithm, Header, SigningKey},
    token::ClientAuth,
};

/// What a file holds.
#[derive(Debug)]
pub(super) enum KeyFile {
    /// A program's own account.
    ServiceAccount { email: String, key: Box<SigningKey>, key_id: Option<String>, endpoint: Url },
    /// What a person agreed to.
    Person { client: ClientAuth, refresh: Secret, endpoint: Url },
}

#[derive(Deserialize)]
struct Form {
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

/// Such files have about two thousand bytes.
const MAX_FILE: u64 = 64 * 1024;
/// Files that name further places, accounts or programs to ask, which nobody was shown.
const ELSEWHERE: [&str; 4] =
    ["external_account", "external_account_authorized_user", "impersonated_service_account", "gdch_service_account"];
const NOT_USED: &str = ", which names others that would have to be asked and is not used here; name a service account's key in \
                        auth.credentials, or run where the metadata server answers";
/// As long as Google takes it.
const LASTS: u64 = 3600;

impl KeyFile {
    /// The first that is there; one that is named and is not there is an error.
    pub(super) async fn find(places: &Places) -> Result<Option<Self>, GrantError> {
        match (places.configured.as_ref().or(places.variable.as_ref()), &places.well_known) {
            (Some(path), _) => Self::read(path).await?.map(Some).ok_or_else(|| unusable(path, "is not there")),
            (None, Some(path)) => Self::read(path).await,
            (None, None) => Ok(None),
        }
    }

    /// Where its tokens come from.
    pub(super) fn endpoint(&self) -> &Url {
        match self {
            Self::ServiceAccount { endpoint, .. } | Self::Person { endpoint, .. } => endpoint,
        }
    }

    /// Who asks.
    pub(super) fn client(&self) -> &ClientAuth {
        match self {
            Self::ServiceAccount { .. } => &ClientAuth::Anonymous,
            Self::Person { client, .. } => client,
        }
    }

    /// The grant for these scopes.
    pub(super) fn grant(&self, scopes: &str) -> Result<Vec<(&'static str, Secret)>, GrantError> {
        match self {
            Self::ServiceAccount { email, key, key_id, endpoint } => {
                let mut claims = Map::new();
                let mut claim = |name: &str, value: Value| claims.insert(name.to_owned(), value);
                claim("iss", email.as_str().into());
                claim("scope", scopes.into());
                claim("aud", endpoint.as_str().into());
                claim("iat", now().into());
                claim("exp", (now() + LASTS).into());
                let header = Header { kind: Some("JWT"), key_id: key_id.clone(), ..Header::default() };
                let assertion = jwt::sign(key, Algorithm::Rs256, &header, &claims)?;
                Ok(vec![("grant_type", Secret::new(JWT_BEARER)), ("assertion", assertion)])
            }
            // What the person agreed to cannot be widened here, so no scope is named.
            Self::Person { refresh, .. } => {
                Ok(vec![("grant_type", Secret::new("refresh_token")), ("refresh_token", refresh.clone())])
            }
        }
    }

    async fn read(path: &Path) -> Result<Option<Self>, GrantError> {
        let bytes = match bounded(path).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(path, &format!("cannot be read: {error}"))),
        };
        if MAX_FILE < bytes.len() as u64 {
            return Err(unusable(path, "is longer than any credentials"));
        }
        // The reader's own words could quote a key.
        let form: Form =
            serde_json::from_slice(&bytes).map_err(|_| unusable(path, "holds no credentials of Google's"))?;
        form.checked(path).map(Some)
    }
}

impl Form {
    fn checked(self, path: &Path) -> Result<KeyFile, GrantError> {
        let missing = |name: &str| unusable(path, &format!("has no {name}"));
        let endpoint = endpoint(path, self.token_uri.as_deref().unwrap_or(TOKEN_ENDPOINT))?;
        match self.kind.as_str() {
            "service_account" => {
                let key = Secret::new(self.private_key.ok_or_else(|| missing("private_key"))?);
                let key =
                    SigningKey::from_pem(&key).map_err(|error| unusable(path, &format!("holds no key: {error}")))?;
                let email = self.client_email.ok_or_else(|| missing("client_email"))?;
                Ok(KeyFile::ServiceAccount { email, key: Box::new(key), key_id: self.private_key_id, endpoint })
            }
            "authorized_user" => {
                let id = self.client_id.ok_or_else(|| missing("client_id"))?;
                let secret = Secret::new(self.client_secret.ok_or_else(|| missing("client_secret"))?);
                let refresh = Secret::new(self.refresh_token.ok_or_else(|| missing("refresh_token"))?);
                Ok(KeyFile::Person { client: ClientAuth::Post { id, secret }, refresh, endpoint })
            }
            kind if ELSEWHERE.contains(&kind) => Err(unusable(path, &format!("is of the kind `{kind}`{NOT_USED}"))),
            _ => Err(unusable(path, "is neither a service account's key nor a person's (`authorized_user`)")),
        }
    }
}

/// One byte more than is taken, so that a longer file is known to be one.
async fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    tokio::fs::File::open(path).await?.take(MAX_FILE + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// Only over https, wherever the file says.
fn endpoint(path: &Path, text: &str) -> Result<Url, GrantError> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https" && url.username().is_empty());
    url.ok_or_else(|| unusable(path, "has a token_uri that is not https"))
}

fn unusable(path: &Path, problem: &str) -> GrantError {
    GrantError::Supply(format!("{} {problem}", path.display()))
}
