//! Reads the entry of a server again for each token, because platforms replace assertions and ID tokens at run time.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_auth::grant::{Grant, Workload, assertion::AssertionSource};
use toolway_config::{
    Endpoint, Keychain, Secret, ServerConfig,
    server::auth::{self, Auth},
};

use crate::connection::environment::Environment;

/// The entry of a server, whose references are resolved again on each use.
#[derive(Clone, Debug)]
pub(in crate::connection) struct EntryReader {
    pub(in crate::connection) server: Arc<ServerConfig>,
    pub(in crate::connection) environment: Arc<Environment>,
    pub(in crate::connection) keychain: Arc<dyn Keychain>,
}

impl EntryReader {
    /// Makes a grant read its assertion or ID token again for each token.
    pub(super) fn into_grant(self, written: &auth::Grant<Secret>, grant: &mut Grant) {
        match (written, grant) {
            (auth::Grant::Workload { client, audience, .. }, Grant::Workload(workload)) => {
                let text = |text: &Option<Secret>| text.as_ref().map(|text| text.expose().to_owned());
                *workload = Workload::new(Arc::new(self), text(client), text(audience));
            }
            (auth::Grant::Enterprise { .. }, Grant::Enterprise(enterprise)) => enterprise.id_token = Arc::new(self),
            _ => {}
        }
    }

    fn read(&self) -> Result<Secret, String> {
        let endpoint = self.server.endpoint(&self.environment, &*self.keychain).map_err(|error| error.to_string())?;
        let Endpoint::Http { sign_in, .. } = endpoint else {
            return Err("the server is a program, not a URL".to_owned());
        };
        match sign_in.auth {
            Auth::Grant { grant: auth::Grant::Workload { assertion, .. }, .. } => Ok(assertion),
            Auth::Grant { grant: auth::Grant::Enterprise { id_token, .. }, .. } => Ok(id_token),
            _ => Err("the server's entry has no assertion or ID token".to_owned()),
        }
    }
}

impl AssertionSource for EntryReader {
    fn read(&self) -> BoxFuture<'_, Result<Secret, String>> {
        let entry = self.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || entry.read()).await;
            read.unwrap_or_else(|error| Err(error.to_string()))
        })
    }
}
