//! Dials a caller connection on first use, with backoff after failures.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use serde_json::json;
use tokio::time::Instant;
use toolway_wire::up::{EraChoice, Peer};

use super::{
    ConnectionPool, DialContext, ServerReach,
    caller_connection::{CallerConnection, Established},
    dial_backoff::DialDecision,
    disconnected,
};
use crate::{
    connection::{
        client_features::{ClientFeatures, ClientRoots},
        dial::{DialError, DialOutcome, SessionChoice},
        state::NotConnected,
        wanted::{Lists, WantedServer},
    },
    record::{AuditNote, kind},
    whose_move::WhoseMove,
};

impl ConnectionPool {
    /// Dials a connection; calls that wait for the same connection get the same result.
    pub(super) async fn dial(
        &self,
        connection: &Arc<CallerConnection>,
        context: &DialContext<'_>,
    ) -> Result<Established, NotConnected> {
        if let Some(taken_over) = self.take_over(connection, context) {
            return Ok(taken_over);
        }
        loop {
            let (decision, last) = {
                let mut state = self.state.lock();
                state.dial_backoff.set_delays(context.wanted.reconnect.delays());
                (state.dial_backoff.decide(Instant::now()), state.dial_backoff.last())
            };
            match decision {
                // Another call tried and failed.
                _ if connection.ended.is_cancelled() => {
                    return Err(connection.failure.get().cloned().or(last).unwrap_or_else(disconnected));
                }
                DialDecision::Dial => break,
                DialDecision::Wait(pause) => tokio::time::sleep(pause).await,
                DialDecision::Refuse(why) => return self.fail(connection, why),
            }
        }
        let DialContext { wanted, shared, account, listing, .. } = context;
        let era = era_of(shared, wanted, connection.key.reach);
        let wanted = WantedServer { era, lists: Lists::Ignored, ..WantedServer::clone(wanted) };
        let key = &connection.key;
        // The roots of a local caller are configured.
        let client = key.caller.client().map(|_| ClientRoots {
            sessions: Arc::clone(&self.context.client_sessions),
            caller: key.caller.clone(),
            session: key.session.clone(),
            offer: key.profile.roots,
        });
        let declared = Some(key.profile.capabilities());
        let features = ClientFeatures { declared, client, ..self.shared_features() };
        let observers = (connection.stderr_tail.clone(), connection.monitor.clone());
        let session = match &key.session {
            None => SessionChoice::OfCaller(key.caller.label()),
            Some(_) => SessionChoice::Unstored,
        };
        let dialling = self.context.dialer.connect(
            &wanted,
            connection.key.caller.client(),
            Arc::new(features),
            observers,
            session,
        );
        let dialling =
            self.context.starting.run(connection.monitor.next_start(), AssertUnwindSafe(dialling).catch_unwind());
        let DialOutcome { redactor, peer } = tokio::select! {
            dialled = dialling => dialled.unwrap_or_else(|_| DialOutcome::failed(DialError::panicked())),
            () = connection.ended.cancelled() => return Err(disconnected()),
        };
        match peer {
            Ok((peer, _)) if key.reach == ServerReach::WithSession && !peer.carries_server_requests() => {
                peer.close().await;
                let why = "the server has no session in which it could send requests";
                self.fail(connection, NotConnected::known(why, WhoseMove::Supervisor))
            }
            Err(error) if key.reach == ServerReach::WithSession => {
                tracing::debug!(server = %self.server, %error, "no session beside the stateless connection");
                // The caller uses the shared connection.
                self.fail(connection, NotConnected::after(&error, &redactor))
            }
            Ok((peer, own)) => {
                // Received from now on, so that no change during the listing is missed.
                let notices = peer.notices();
                // A listing obtained with a user's sign-in must not be shown to others.
                let late = match account.is_impersonal() && own.is_impersonal() {
                    true => self.discover(&peer, connection.key.profile, listing()).await,
                    false => None,
                };
                self.note(connection, &json!({ "state": "ready" }));
                let following = self.follow(&peer, connection, notices, late);
                Ok(Established::new(peer, redactor, following))
            }
            Err(error) => {
                let why = NotConnected::after(&error, &redactor);
                let caller = &connection.key.caller;
                tracing::warn!(server = %self.server, %caller, error = why.because.as_str(), "cannot connect for a caller");
                self.note(connection, &json!({ "state": "failed", "error": why.because.as_str() }));
                // A missing or useless sign-in of one caller must not delay other callers.
                if !error.concerns_sign_in() {
                    self.state.lock().dial_backoff.fail(why.clone(), Instant::now());
                }
                self.fail(connection, why)
            }
        }
    }

    /// Notes a connection of a caller in the audit log.
    fn note(&self, connection: &CallerConnection, details: &serde_json::Value) {
        let note = AuditNote::of_server(kind::CONNECTION, &self.server, details.clone());
        self.context.note(note.with_caller(&connection.key.caller));
    }

    /// Removes a connection that could not be dialled; the next call creates another.
    fn fail(&self, connection: &Arc<CallerConnection>, why: NotConnected) -> Result<Established, NotConnected> {
        // Stored before the connection ends, so that calls waiting for it see the reason.
        let why = connection.failure.get_or_init(|| why).clone();
        self.state.lock().remove(connection);
        Err(why)
    }
}

fn era_of(shared: &Peer, wanted: &WantedServer, reach: ServerReach) -> EraChoice {
    match (wanted.era, reach) {
        (EraChoice::Auto, ServerReach::WithSession) => EraChoice::Legacy,
        (EraChoice::Auto, ServerReach::Stateless) => EraChoice::Modern,
        (EraChoice::Auto, ServerReach::AsShared) => shared.protocol().choice(),
        (chosen, _) => chosen,
    }
}
