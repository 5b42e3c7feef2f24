//! Stateless requests: one message back, or a stream that ends with its reader.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

use super::{HttpDownstream, ResponseBody, responses};
use crate::{down::modern, message::Envelope};

/// Queued messages of one request; further ones wait in the exchange, which has its own limits.
const UNREAD: usize = 16;

impl HttpDownstream {
    /// Answers a stateless request; a disconnect cancels it.
    pub(super) async fn answer_modern(
        &self,
        headers: &HeaderMap,
        envelope: &Envelope,
        principal: &Arc<str>,
    ) -> Response<ResponseBody> {
        let mut answer = match modern::ModernReply::begin(&self.downstream, envelope, principal, Some(headers)) {
            Ok(answer) => answer,
            Err(message) => return responses::message(message),
        };
        // If this future is dropped here, the request is cancelled.
        let first = match self.first_message(answer.next()).await {
            Some(Some(message)) if message.is_response => return responses::message(message),
            Some(Some(message)) => Some(message),
            Some(None) => return responses::empty(StatusCode::INTERNAL_SERVER_ERROR),
            None => None,
        };
        let (sender, receiver) = mpsc::channel(UNREAD);
        self.tasks.spawn(async move {
            loop {
                let message = tokio::select! {
                    () = sender.closed() => return,
                    message = answer.next() => message,
                };
                let Some(message) = message else { return };
                if sender.send(message).await.is_err() {
                    return;
                }
            }
        });
        responses::stream(ResponseBody::events(first, receiver, self.downstream.options.keep_alive))
    }
}
