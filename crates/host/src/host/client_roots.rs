//! Roots that change while the host runs: those that clients of a gateway supply over HTTP, and those of the configuration of a
//! command that goes on.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::{Config, ServerName};

use toolway_wire::budget::Kept;

use super::Host;
use crate::{
    call::Caller,
    record::{AuditNote, kind},
    roots::{ClientRootList, GivenRoot, Root, SuppliedRoots, SupplyError, book::RootsChange, supplied},
};

/// How often the configuration is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the configuration if it has changed since the last time. It may read files.
pub type ChangedConfig = dyn Fn() -> Option<Config> + Send + Sync;

impl Host {
    /// Uses changed roots of the configuration until the host is shut down. Nothing else of it is applied.
    pub fn follow_roots(&self, changed: Arc<ChangedConfig>) {
        let host = Arc::downgrade(&self.inner);
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(stop.run_until_cancelled_owned(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                let read = Arc::clone(&changed);
                let Ok(config) = tokio::task::spawn_blocking(move || read()).await else { return };
                let Some(inner) = host.upgrade() else { return };
                if let Some(config) = config {
                    Self { inner }.reload_roots(&config);
                }
            }
        }));
    }

    fn reload_roots(&self, config: &Config) {
        let Ok(plan) = self.plan(config) else { return };
        let change = self.inner.context.roots.configure(&config.settings, &plan.wanted);
        if change == RootsChange::default() {
            return;
        }
        self.apply_roots(&change);
        let servers: Vec<&str> = change.announced.iter().chain(&change.reconnected).map(ServerName::as_str).collect();
        let details = json!({ "change": "roots", "servers": servers });
        self.note(AuditNote {
            kind: kind::CONFIGURATION,
            caller: None,
            server: None,
            subject: None,
            call: None,
            details,
        });
    }

    /// The roots that a server is told of, with what gives them. Reads the file system where clients supply some.
    pub fn roots_of(&self, server: &ServerName) -> Vec<GivenRoot> {
        self.inner.context.roots.given(server)
    }

    /// The roots that a client supplied and that are passed on to servers.
    pub async fn client_roots(&self, client: &str) -> Vec<Root> {
        let roots = Arc::clone(&self.inner.context.roots);
        let client = client.to_owned();
        // Symbolic links are resolved.
        tokio::task::spawn_blocking(move || roots.supplied_by(&client)).await.unwrap_or_default()
    }

    /// Replaces the roots that a client supplies, without those that are not passed on, and tells the servers on its
    /// connections.
    pub async fn set_client_roots(&self, client: &str, roots: Vec<Root>) -> Result<SuppliedRoots, SupplyError> {
        supplied::check(&roots)?;
        let book = Arc::clone(&self.inner.context.roots);
        let divided = {
            let book = Arc::clone(&book);
            tokio::task::spawn_blocking(move || book.admitted(roots)).await
        };
        let divided = divided.map_err(|_| SupplyError::OverBudget)?;
        let memory = self.inner.memory().of_principal(client).keeping(Kept::Session);
        let charge = memory.charge(supplied::bytes(&divided.kept)).map_err(|_| SupplyError::OverBudget)?;
        let list = ClientRootList { client: client.to_owned(), roots: divided.kept.clone() };
        // Until the end: the list that is stored last is the one in memory.
        let _turn = book.turn_of(client).acquire_owned().await.map_err(|_| SupplyError::OverBudget)?;
        self.inner.context.ports.client_roots.put(list).await.map_err(SupplyError::Store)?;
        book.report_supplied(client, divided.dropped.len());
        if book.supply(client, divided.kept.clone(), charge) {
            self.announce_roots_changed(&Caller::Client(client.into()), None);
        }
        Ok(divided)
    }

    /// Reads the roots that clients supplied to an earlier process.
    pub(super) async fn load_client_roots(&self) {
        let lists = match self.inner.context.ports.client_roots.load().await {
            Ok(lists) => lists,
            Err(error) => return tracing::error!(%error, "the roots of clients cannot be read"),
        };
        for ClientRootList { client, roots } in lists {
            let memory = self.inner.memory().of_principal(&client).keeping(Kept::Session);
            match memory.charge(supplied::bytes(&roots)) {
                Ok(charge) => drop(self.inner.context.roots.supply(&client, roots, charge)),
                Err(_) => tracing::warn!(client, "the stored roots of a client exceed the memory budget"),
            }
        }
    }

    /// Forgets what a client supplied that has ended.
    pub(super) fn forget_client_roots(&self, caller: &Caller) {
        let Some(client) = caller.client() else { return };
        if !self.inner.context.roots.forget_supplied(client) {
            return;
        }
        let store = Arc::clone(&self.inner.context.ports.client_roots);
        let book = Arc::clone(&self.inner.context.roots);
        let client = client.to_owned();
        self.inner.tasks.spawn(async move {
            let _turn = book.turn_of(&client).acquire_owned().await;
            // None, unless the name has been given to another client meanwhile.
            let roots = book.supplied_list(&client);
            if let Err(error) = store.put(ClientRootList { client: client.clone(), roots }).await {
                tracing::error!(client, %error, "the roots of a client that has ended are not removed");
            }
        });
    }
}
