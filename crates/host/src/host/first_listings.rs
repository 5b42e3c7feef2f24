//! Waiting for servers to be heard: what they list, for the first time.

use std::{future::Future, sync::Arc, time::Duration};

use toolway_config::{ServerName, server::Start};

use super::{Host, Inner};
use crate::{
    call::OnBehalf,
    connection::{Connection, Hearing, Phase, ServerStatus, lines::Asker},
};

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

    /// Whether nothing is known of one of these servers that is switched on: what it will list is missing from a catalog.
    pub fn lacks_any(&self, of: impl Fn(&ServerName) -> bool) -> bool {
        let catalog = self.catalog();
        let lacks = |connection: &Connection| {
            of(connection.name()) && catalog.listing_of(connection.name()).is_none() && !connection.is_disabled()
        };
        self.connections().iter().any(lacks)
    }

    /// Waits, no longer than `patience`, for those of these servers that are being connected for the first time and of
    /// which nothing is known, not even from an earlier run; and for what others list to this caller, where that may not
    /// be what they list to everybody. What was heard a moment ago for the first time is in the catalog then, whatever
    /// its pace. None where there is nothing to wait for.
    pub fn first_heard(
        &self,
        on_behalf: OnBehalf,
        of: impl Fn(&ServerName) -> bool,
        patience: Duration,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let catalog = self.catalog();
        let unknown = |connection: &Connection| {
            catalog.listing_of(connection.name()).is_none() && (connection.is_beginning() || connection.was_heard())
        };
        let mut connections = self.connections();
        connections.retain(|connection| of(connection.name()));
        let (beginning, known): (Vec<_>, Vec<_>) = connections.into_iter().partition(unknown);
        let asker = Asker::of(&on_behalf);
        let unheard: Vec<_> = known.into_iter().filter(|connection| connection.is_unheard_by(asker)).collect();
        let inner = Arc::clone(&self.inner);
        (!beginning.is_empty() || !unheard.is_empty()).then_some(async move {
            let own = unheard.into_iter().map(|connection| inner.own_heard(connection, on_behalf.clone()));
            let all = futures_util::future::join(all_heard(&beginning), futures_util::future::join_all(own));
            drop(tokio::time::timeout(patience, all).await);
            inner.show(&beginning).await;
        })
    }
}

impl Inner {
    /// Finds out what a server lists to a caller; goes on with it also when whoever waits for this has left. One does so
    /// for all of a profile, the others only wait: there are no more tasks than profiles, however many lists are asked for.
    async fn own_heard(&self, connection: Connection, on_behalf: OnBehalf) {
        let trying = match connection.hearing(Asker::of(&on_behalf)) {
            Hearing::Known => return,
            Hearing::ByOthers(key) => return connection.heard_by_others(&key).await,
            Hearing::Ours(trying) => trying,
        };
        let (stop, patience) = (self.stop.clone(), self.slots.patience());
        let hearing = self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection.hear(Asker::of(&on_behalf), patience, trying) => {}
            }
        });
        // Whoever panics has found out nothing.
        drop(hearing.await);
    }
}

async fn all_heard(connections: &[Connection]) {
    let heard = connections.iter().map(|connection| async move {
        connection.settled().await;
        connection.heard().await;
    });
    futures_util::future::join_all(heard).await;
}
