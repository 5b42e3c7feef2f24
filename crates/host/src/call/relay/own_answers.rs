//! Our own answers to requests of a server during a call: by the ports of the host, by our model, or from the configuration.
//! Which requests the client of the call gets instead is decided here too.

use std::{sync::Arc, task::Context};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_wire::{
    exchange::{Answer, ServerRequest, ServerRequestHandler, ServerRequestId},
    message::ClientCapabilities,
};

use super::{Relay, RelayStage};
use crate::{
    call::CallRequest,
    connection::{Connection, client_features::ClientFeatures},
    host::Inner,
    inbox::waiting,
    roots::book::declares_roots,
    sampling::{SamplingOffer, answering::SamplingDesk},
};

/// The request that our model may answer.
const SAMPLING: &str = "sampling/createMessage";
/// An answer of ours that is being made.
pub(super) struct OwnAnswer {
    pub(super) request: ServerRequestId,
    pub(super) making: BoxFuture<'static, ()>,
}

impl Relay {
    /// Whether our model answers a request: the client of the call did not declare sampling, and so the server was told of
    /// ours.
    pub(super) fn is_answered_here(&self, request: &ServerRequest) -> bool {
        let caller = &self.request.caller;
        let RelayStage::InFlight(sent, _) = &self.stage else { return false };
        if self.host.answers_in_inbox(&self.request, request) {
            return true;
        }
        if request.details.method != SAMPLING || caller.client().is_none() {
            return false;
        }
        let is_undeclared = |declared: &ClientCapabilities| declared.lacks(SAMPLING, None).is_some();
        let told = || self.host.context.sampling_for(&sent.connection.wanted(), caller, SamplingOffer::Nothing);
        self.request.capabilities.as_ref().is_none_or(is_undeclared) && told() != SamplingOffer::Nothing
    }

    /// Answers a request that the client does not get.
    pub(super) fn answer_here(&mut self, request: ServerRequest, context: &mut Context<'_>) {
        let id = request.details.id;
        let mut making: BoxFuture<'static, ()> = Box::pin(answer(self.client_features(), request));
        if making.as_mut().poll(context).is_pending() {
            self.own_answers.push(OwnAnswer { request: id, making });
        }
    }

    /// The client features that the ports of the host offer to the server of this call.
    pub(super) fn client_features(&self) -> Option<ClientFeatures> {
        match &self.stage {
            RelayStage::InFlight(sent, _) => Some(self.features_of(&sent.connection)),
            RelayStage::Preparing(_)
            | RelayStage::OpeningUrls(_)
            | RelayStage::Recording(..)
            | RelayStage::Cancelled
            | RelayStage::Ended => None,
        }
    }

    /// The client features that the ports of the host offer to the server of a connection in this call.
    pub(super) fn features_of(&self, connection: &Connection) -> ClientFeatures {
        let origin = self.request.origin(self.id);
        let desk = SamplingDesk {
            host: Arc::clone(&self.host),
            connection: connection.clone(),
            mode: self.request.mode,
            assistant: self.request.assistant.clone(),
            attendance: self.request.attendance,
            called: self.request.target.name().to_owned(),
            person_wait: self.person_wait.clone(),
        };
        let features = self.host.context.features(connection.name());
        let urls = Some(Arc::clone(&self.urls));
        ClientFeatures { origin: Some(origin), sampling: Some(Box::new(desk)), urls, ..features }
    }
}

impl Inner {
    /// Whether a form or URL waits in the inbox, because the client of the call answers none.
    pub(super) fn answers_in_inbox(&self, call: &CallRequest, request: &ServerRequest) -> bool {
        let is_declared = call.capabilities.as_ref().is_some_and(waiting::answers_forms);
        request.details.method == "elicitation/create" && !is_declared && self.context.waits_in_inbox(&call.caller)
    }

    /// Answers `roots/list` from the configuration, unless the caller declared roots; then its answer is bounded and
    /// completed. Returns the request if it is still to be answered.
    pub(super) fn roots_answered(
        &self,
        call: &CallRequest,
        server: &ServerName,
        request: ServerRequest,
    ) -> Option<ServerRequest> {
        if request.details.method != "roots/list" {
            return Some(request);
        }
        let declared = call.capabilities.as_ref().or(self.context.declared.as_ref());
        let client = call.caller.client();
        match (declared.is_some_and(declares_roots), client) {
            (true, Some(client)) => {
                let roots = Arc::clone(&self.context.roots);
                let client = client.to_owned();
                Some(request.adapted(Box::new(move |answer| roots.complete(&client, answer))))
            }
            (true, None) => Some(request),
            (false, _) if self.context.roots.roots(server, client).is_empty() => Some(request),
            (false, _) => {
                request.answer(Answer::Given(self.context.roots.list(server, client)));
                None
            }
        }
    }
}

pub(super) async fn answer(features: Option<ClientFeatures>, request: ServerRequest) {
    let answer = match features {
        Some(features) => features.answer(request.details.clone()).await,
        None => Answer::Unavailable,
    };
    request.answer(answer);
}
