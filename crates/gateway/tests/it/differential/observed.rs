//! Messages that a client receives from one server: during a request, at its end, and outside of requests.

use std::sync::Arc;

use serde_json::Value;
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{
        ExchangeEvent, ExchangeTimeouts, LogLevel, Outcome, Request, ServerRequestDetails, ServerRequestHandler,
    },
    json::Raw,
    message::splice,
    notice::Notice,
    revision::Era,
    up::Peer,
};

use super::{START_TIMEOUT, traffic::Watched};
use crate::scripted_user::ScriptedUser;

/// A client of one server, with the user that answers server requests.
pub(super) struct Listener {
    pub(super) peer: Peer,
    user: Option<Arc<ScriptedUser>>,
}

/// Events during a request, in order, and its result or error.
pub(super) struct Observed {
    pub(super) meanwhile: Raw,
    pub(super) end: Raw,
}

impl Listener {
    /// A client that receives log messages of all levels.
    pub(super) async fn new(peer: Peer, user: Option<Arc<ScriptedUser>>) -> Self {
        if peer.profile().capabilities.has("logging") {
            within("a log level", peer.set_log_level(LogLevel::Debug)).await.unwrap();
        }
        Self { peer, user }
    }

    pub(super) fn era(&self) -> Era {
        self.peer.profile().revision.era()
    }

    /// Result of the first request.
    pub(super) fn hello(&self) -> Observed {
        Observed { meanwhile: splice::array([]), end: self.peer.profile().raw.clone() }
    }

    pub(super) async fn observe(&self, method: &'static str, params: &Value) -> Observed {
        let mut exchange = self.peer.open(request(method, params), ExchangeTimeouts::call());
        let mut meanwhile = Vec::new();
        let end = loop {
            let happening = tokio::time::timeout(START_TIMEOUT, exchange.next()).await;
            match happening.unwrap_or_else(|_| panic!("{method} takes too long")) {
                Some(ExchangeEvent::Progress(step)) => meanwhile.push(named("progress", &step)),
                Some(ExchangeEvent::Log(line)) => meanwhile.push(named("log", &line)),
                Some(ExchangeEvent::ServerRequest(ask)) => {
                    meanwhile.push(asked(&ask.details));
                    let user = self.user.as_ref().unwrap();
                    let answer = user.answer(ask.details.clone()).await;
                    ask.answer(answer);
                }
                Some(ExchangeEvent::Ended(Outcome::Answered(result))) => break result,
                Some(ExchangeEvent::Ended(Outcome::Refused(error))) => break error.raw().clone(),
                other => panic!("{method}: {other:?}"),
            }
        };
        Observed { meanwhile: splice::array(&meanwhile), end }
    }

    /// Accepted subscription, and the first notification after the trigger.
    pub(super) async fn observe_changes(&self, watched: &Watched) -> Observed {
        let mut listening = within("a subscription", self.peer.listen(watched.wanted.clone())).await.unwrap();
        let accepted = listening.accepted();
        let meanwhile = Raw::of(&(accepted.tools, accepted.prompts, accepted.resources, &accepted.uris));
        let (method, params) = &watched.trigger;
        self.observe(method, params).await;
        let end = match within("a notice", listening.next()).await {
            Some(Notice::Updated { params, .. }) => named("updated", &params),
            Some(Notice::Changed(list)) => Raw::of(list.changed_method()),
            other => panic!("{other:?}"),
        };
        Observed { meanwhile, end }
    }
}

fn request(method: &'static str, params: &Value) -> Request {
    Request::new(method, Some(Raw::of(params))).unwrap().with_progress()
}

/// A server request, with its key if it has one.
fn asked(question: &ServerRequestDetails) -> Raw {
    let (key, method) = (Raw::of(&question.key), Raw::of(&question.method));
    let params = question.params.clone().unwrap_or_else(|| Raw::of(&Value::Null));
    named("ask", &splice::object([("key", &key), ("method", &method), ("params", &params)]))
}

fn named(what: &str, value: &Raw) -> Raw {
    splice::object([(what, value)])
}
