//! Waiting for servers to be heard: what they list, for the first time.

use std::{future::Future, time::Duration};

use toolway_config::{ServerName, server::Start};

use super::Host;
use crate::connection::{Connection, Phase, ServerStatus};

impl Host {
    /// Waits until every server that is wanted at once has been listed or has failed, and no longer than `patience`.
    /// Gives those that are not there.
    pub async fn gather(&self, patience: Duration) -> Vec<ServerStatus> {
        let at_once = |connection: &Connection| connection.wanted().start == Start::AtOnce;
        let connections: Vec<_> = self.connections().into_iter().filter(at_once).collect();
        // Whoever is late is named by its state.
        drop(tokio::time::timeout(patience, all_heard(&connections)).await);
        self.inner.show(&connections).await;
        let absent = |status: &ServerStatus| !matches!(status.phase, Phase::Ready | Phase::Disabled);
        connections.iter().map(Connection::status).filter(absent).collect()
    }

    /// Waits, no longer than `patience`, for those of these servers that are being connected for the first time and of
    /// which nothing is known, not even from an earlier run. None where there is nobody to wait for.
    pub fn first_heard(
        &self,
        of: impl Fn(&ServerName) -> bool,
        patience: Duration,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let catalog = self.catalog();
        let unknown = |connection: &Connection| {
            let name = connection.name();
            of(name) && catalog.listing_of(name).is_none() && connection.is_beginning()
        };
        let connections: Vec<_> = self.connections().into_iter().filter(unknown).collect();
        let inner = self.inner.clone();
        (!connections.is_empty()).then_some(async move {
            drop(tokio::time::timeout(patience, all_heard(&connections)).await);
            inner.show(&connections).await;
        })
    }
}

async fn all_heard(connections: &[Connection]) {
    let heard = connections.iter().map(|connection| async move {
        connection.settled().await;
        connection.heard().await;
    });
    futures_util::future::join_all(heard).await;
}
