//! Google's application default credentials: a key file, a person's file, or the machine itself, in Google's own order.
//!
//! Nothing of them goes anywhere but to Google: the file says where, over https; the machine is asked where the operator
//! says.

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
    token::{TokenError, TokenReply, TokenRequest},
};

/// Google's application default credentials.
#[derive(Debug)]
pub struct Google {
    /// Where their file may be.
    pub places: Places,
    /// The way to Google.
    pub fetch: Arc<dyn Fetch>,
    /// The machine that is asked about itself where there is no file.
    pub machine: Machine,
}

/// Where the file may be, in this order. One that is named has to be there.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// What the operator wrote.
    pub configured: Option<PathBuf>,
    /// What `GOOGLE_APPLICATION_CREDENTIALS` says.
    pub variable: Option<PathBuf>,
    /// Where Google's own programs put it.
    pub well_known: Option<PathBuf>,
}

/// A machine of Google's, which knows who it is.
#[derive(Debug)]
pub struct Machine {
    /// Where it answers.
    pub url: Url,
    /// The way there: no other address can be reached on it, and this one without https.
    pub fetch: Arc<dyn Fetch>,
}

/// Who issues these tokens.
pub const ISSUER: &str = "https://accounts.google.com";
/// Where a machine of Google's answers, unless the operator says otherwise.
pub const MACHINE: &str = "http://metadata.google.internal";
/// What is asked for where nothing is said.
const ALL: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOUR: &str = "metadata-flavor";
/// Where Google gives tokens, unless a file says otherwise.
pub(crate) const TOKEN_ENDPOINT: &str = "https://oauth2.googleapis.com/token";
/// A longer reply of the machine is no token.
const MAX_REPLY: usize = 64 * 1024;

impl Places {
    /// What the operator and the variable say, and where Google's own programs put the file in a person's folder.
    ///
    /// `configuration` is `~/.config`, or what Windows calls its application data.
    pub fn new(configured: Option<PathBuf>, variable: Option<PathBuf>, configuration: Option<PathBuf>) -> Self {
        let well_known = configuration.map(|folder| folder.join("gcloud/application_default_credentials.json"));
        Self { configured, variable, well_known }
    }
}

impl Google {
    pub(super) async fn ask(&self, scopes: &Scopes) -> Result<TokenReply, GrantError> {
        let scopes = if scopes.is_empty() { ALL.to_owned() } else { scopes.to_string() };
        let Some(file) = KeyFile::find(&self.places).await? else { return self.machine.ask(&scopes).await };
        let params = file.grant(&scopes)?;
        let request = TokenRequest { endpoint: file.endpoint(), client: file.client(), params, prover: None };
        Ok(request.send(&*self.fetch).await?)
    }
}

#[derive(Deserialize)]
struct Reply {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
}

impl Machine {
    async fn ask(&self, scopes: &str) -> Result<TokenReply, GrantError> {
        let mut url = self.url.clone();
        url.set_path(TOKEN_PATH);
        url.query_pairs_mut().clear().append_pair("scopes", &scopes.replace(' ', ","));
        let malformed =
            |problem: &str| TokenError::Malformed { endpoint: address::shown(&url), problem: problem.to_owned() };
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.as_str().parse().map_err(|_| malformed("its address cannot be carried by HTTP"))?;
        request.headers_mut().insert(FLAVOUR, HeaderValue::from_static("Google"));
        let response = self.fetch.fetch(request).await.map_err(nowhere)?;
        // Whoever else answers at this address is not the machine.
        if response.status() != StatusCode::OK || response.headers().get(FLAVOUR).is_none_or(|name| name != "Google") {
            return Err(malformed(&format!(
                "it answers with HTTP {} as no machine of Google's does",
                response.status().as_u16()
            ))
            .into());
        }
        let body = Some(response.body()).filter(|body| body.len() <= MAX_REPLY);
        let reply = body.and_then(|body| serde_json::from_slice::<Reply>(body).ok());
        Ok(reply.and_then(Reply::checked).ok_or_else(|| malformed("it answers something else"))?)
    }
}

impl Reply {
    fn checked(self) -> Option<TokenReply> {
        let fits = !self.access_token.is_empty() && self.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| TokenReply {
            token: Secret::new(self.access_token),
            kind: self.token_type,
            lasts: self.expires_in.map(Duration::from_secs),
            refresh: None,
            scopes: None,
            issued_kind: None,
            id_token: None,
        })
    }
}

/// What to do is said where there is neither a file nor a machine.
fn nowhere(error: FetchError) -> GrantError {
    match error {
        FetchError::Unreachable { target, reason } => GrantError::Supply(format!(
            "there are no application default credentials: no file, and {target} does not answer ({reason}); name the file \
             in auth.credentials or run `gcloud auth application-default login`"
        )),
        other => TokenError::from(other).into(),
    }
}

#[cfg(test)]
mod tests;
