//! Google's application default credentials: a key file, a user's file, or the metadata server of the machine, in
//! Google's order.
//!
//! They are sent to Google only: to the https endpoint in the file, or to the metadata server that the operator
//! configures.

mod file;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use serde::Deserialize;
use toolway_config::Secret;
use url::Url;

use self::file::KeyFile;
use super::GrantError;
use crate::{
    address,
    fetch::{Fetch, FetchError},
    scope::Scopes,
    token::{TokenError, TokenRequest, TokenResponse},
};

/// Google's application default credentials.
#[derive(Debug)]
pub struct Google {
    /// Locations of the credentials file.
    pub places: CredentialPaths,
    /// Dialer to Google.
    pub fetch: Arc<dyn Fetch>,
    /// Metadata server that is used if there is no file.
    pub machine: GoogleMetadataServer,
}

/// Locations of the credentials file, in order of precedence. A named file must exist.
#[derive(Clone, Debug, Default)]
pub struct CredentialPaths {
    /// Path from the configuration.
    pub configured: Option<PathBuf>,
    /// Value of `GOOGLE_APPLICATION_CREDENTIALS`.
    pub variable: Option<PathBuf>,
    /// Default path of Google's tools.
    pub well_known: Option<PathBuf>,
}

/// The metadata server of a Google Cloud machine.
#[derive(Debug)]
pub struct GoogleMetadataServer {
    /// URL of the metadata server.
    pub url: Url,
    /// Dialer that reaches this host only, over http.
    pub fetch: Arc<dyn Fetch>,
}

/// Issuer of these tokens.
pub const ISSUER: &str = "https://accounts.google.com";
/// Default URL of the metadata server.
pub const METADATA_URL: &str = "http://metadata.google.internal";
/// Scope that is requested if none is configured.
const DEFAULT_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOR_HEADER: &str = "metadata-flavor";
/// Default token endpoint of Google.
pub(crate) const TOKEN_ENDPOINT: &str = "https://oauth2.googleapis.com/token";
/// Maximum length of a metadata server response in bytes.
const MAX_REPLY: usize = 64 * 1024;

impl CredentialPaths {
    /// Locations from the configuration, the environment variable and the default of Google's tools.
    ///
    /// `configuration` is `~/.config`, or the application data directory on Windows.
    pub fn new(configured: Option<PathBuf>, variable: Option<PathBuf>, configuration: Option<PathBuf>) -> Self {
        let well_known = configuration.map(|folder| folder.join("gcloud/application_default_credentials.json"));
        Self { configured, variable, well_known }
    }
}

impl Google {
    pub(super) async fn request_token(&self, scopes: &Scopes) -> Result<TokenResponse, GrantError> {
        let scopes = if scopes.is_empty() { DEFAULT_SCOPE.to_owned() } else { scopes.to_string() };
        let Some(file) = KeyFile::find(&self.places).await? else { return self.machine.request_token(&scopes).await };
        let params = file.grant(&scopes)?;
        let request = TokenRequest { endpoint: file.endpoint(), client: file.client(), params, prover: None };
        Ok(request.send(&*self.fetch).await?)
    }
}

#[derive(Deserialize)]
struct MetadataToken {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

impl GoogleMetadataServer {
    async fn request_token(&self, scopes: &str) -> Result<TokenResponse, GrantError> {
        let mut url = self.url.clone();
        url.set_path(TOKEN_PATH);
        url.query_pairs_mut().clear().append_pair("scopes", &scopes.replace(' ', ","));
        let malformed =
            |problem: &str| TokenError::Malformed { endpoint: address::redacted(&url), problem: problem.to_owned() };
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.as_str().parse().map_err(|_| malformed("the URL is invalid"))?;
        request.headers_mut().insert(FLAVOR_HEADER, HeaderValue::from_static("Google"));
        let response = self.fetch.fetch(request).await.map_err(nowhere)?;
        // Only the metadata server answers with this header.
        if response.status() != StatusCode::OK
            || response.headers().get(FLAVOR_HEADER).is_none_or(|name| name != "Google")
        {
            return Err(malformed(&format!(
                "HTTP {}, not an answer of a Google metadata server",
                response.status().as_u16()
            ))
            .into());
        }
        let body = Some(response.body()).filter(|body| body.len() <= MAX_REPLY);
        let reply = body.and_then(|body| serde_json::from_slice::<MetadataToken>(body).ok());
        Ok(reply.and_then(MetadataToken::checked).ok_or_else(|| malformed("not a token response"))?)
    }
}

impl MetadataToken {
    fn checked(self) -> Option<TokenResponse> {
        let fits = !self.access_token.is_empty() && self.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| TokenResponse {
            token: Secret::new(self.access_token),
            kind: self.token_type,
            expires_in: self.expires_in.map(Duration::from_secs),
            refresh: None,
            scopes: None,
            issued_kind: None,
            id_token: None,
        })
    }
}

/// Explains what to do if there is neither a file nor a metadata server.
fn nowhere(error: FetchError) -> GrantError {
    match error {
        FetchError::Unreachable { target, reason } => GrantError::Configuration(format!(
            "no application default credentials found: there is no file, and `{target}` does not answer ({reason}); \
             set `auth.credentials` or run `gcloud auth application-default login`"
        )),
        other => TokenError::from(other).into(),
    }
}

#[cfg(test)]
mod tests;
