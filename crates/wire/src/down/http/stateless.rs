//! Requests that say all themselves: one message back, or a stream that ends with its reader.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

use super::{ResponseBody, HttpDownstream, reply};
use crate::{down::modern, message::Envelope};

/// Messages of one request that wait for its reader; the next one waits with the exchange, which has bounds of its own.
const UNREAD: usize = 16;

impl HttpDownstream {
    /// Answers a stateless request; whoever hangs up gives it up.
    pub(super) async fn answer_modern(
        &self,
        headers: &HeaderMap,
        envelope: &Envelope,
        principal: &Arc<str>,
    ) -> Response<ResponseBody> {
        let mut answer = match modern::Reply::begin(&self.downstream, envelope, principal, Some(headers)) {
            Ok(answer) => answer,
            Err(said) => return reply::json(said.status, said.message),
        };
        // Let go of here, the reply is dropped and the request cancelled.
        let first = match self.first_word(answer.next()).await {
            Some(Some(said)) if said.last => return reply::json(said.status, said.message),
            Some(Some(said)) => Some(said),
            Some(None) => return reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
            None => None,
        };
        let (sender, receiver) = mpsc::channel(UNREAD);
        self.tasks.spawn(async move {
            loop {
                let said = tokio::select! {
                    () = sender.closed() => return,
                    said = answer.next() => said,
                };
                let Some(said) = said else { return };
                if sender.send(said).await.is_err() {
                    return;
                }
            }
        });
        reply::stream(ResponseBody::events(first, receiver, self.downstream.options.keep_alive))
    }
}
