//! Server requests outside the client's own requests, sent on the standing stream of its session.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;

use super::DownstreamSession;
use crate::{
    down::accent::{self, OutgoingMessage},
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::{
        ClientCapabilities, Id, compose,
        splice::{self, Edit},
    },
};

/// Asks the client of a session; does not keep the session alive.
struct StandingRequests {
    session: Weak<DownstreamSession>,
    capabilities: ClientCapabilities,
}

/// An open server request; dropping it before the answer cancels it at the client.
struct OpenRequest {
    session: Weak<DownstreamSession>,
    id: Id,
}

impl DownstreamSession {
    /// The handshake is complete: the service may send requests from now on.
    pub(super) fn announce_to_service(self: &Arc<Self>) {
        let client = StandingRequests { session: Arc::downgrade(self), capabilities: self.caller.capabilities.clone() };
        drop(accent::catch_panic(|| self.downstream.service.on_session_ready(&self.caller, Arc::new(client))));
    }

    /// The client announced that its roots changed.
    pub(super) fn forward_roots_changed(&self) {
        drop(accent::catch_panic(|| self.downstream.service.on_roots_changed(&self.caller)));
    }

    fn send_standing(&self, message: OutgoingMessage) -> bool {
        self.standing_writer.lock().as_ref().is_some_and(|standing| standing.try_send(message))
    }
}

impl ServerRequestHandler for StandingRequests {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities.clone()
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let Some(session) = self.session.upgrade() else { return Answer::Unavailable };
            if self.capabilities.lacks(&request.method, request.params.as_ref()).is_some() {
                return Answer::Unavailable;
            }
            let (id, answer) = session.register_server_request();
            let open = OpenRequest { session: Weak::clone(&self.session), id };
            let message = compose::request(&open.id, &request.method, request.params.as_ref(), &[]);
            let (sent, timeout) = (session.send_standing(OutgoingMessage::request(message)), session.answer_timeout());
            // Not held while waiting: the session may end.
            drop(session);
            if !sent {
                return Answer::Unavailable;
            }
            match tokio::time::timeout(timeout, answer).await {
                Ok(answered) => answered.unwrap_or(Answer::Unavailable),
                Err(_) => Answer::too_late(&request.method),
            }
        })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else { return };
        if session.forget_server_request(&self.id) {
            let reason = splice::object([("reason", &Raw::of("no answer in time"))]);
            let edit = [Edit::Set("requestId", self.id.raw())];
            let message = compose::notification("notifications/cancelled", Some(&reason), &edit);
            session.send_standing(OutgoingMessage::notification(message));
        }
    }
}
