//! The entry of a server, looked at again for each token: what a platform says about us is replaced while we run.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolway_auth::grant::{Grant, Workload, supply::Supply};
use toolway_config::{
    Endpoint, Keychain, Secret, ServerConfig,
    server::auth::{self, Auth},
};

use crate::connection::environment::Environment;

/// The entry of a server, whose references are put in once more.
#[derive(Clone, Debug)]
pub(in crate::connection) struct Reread {
    pub(in crate::connection) server: Arc<ServerConfig>,
    pub(in crate::connection) environment: Arc<Environment>,
    pub(in crate::connection) keychain: Arc<dyn Keychain>,
}

impl Reread {
    /// What others say about us is looked up each time: platforms replace it while we run.
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

    fn look(&self) -> Result<Secret, String> {
        let endpoint = self.server.endpoint(&self.environment, &*self.keychain).map_err(|error| error.to_string())?;
        let Endpoint::Http { sign_in, .. } = endpoint else { return Err("it is a program".to_owned()) };
        match sign_in.auth {
            Auth::Grant { grant: auth::Grant::Workload { assertion, .. }, .. } => Ok(assertion),
            Auth::Grant { grant: auth::Grant::Enterprise { id_token, .. }, .. } => Ok(id_token),
            _ => Err("its entry does not say it".to_owned()),
        }
    }
}

impl Supply for Reread {
    fn supply(&self) -> BoxFuture<'_, Result<Secret, String>> {
        let entry = self.clone();
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || entry.look()).await;
            looked.unwrap_or_else(|error| Err(error.to_string()))
        })
    }
}
