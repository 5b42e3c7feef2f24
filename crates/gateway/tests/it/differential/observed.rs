//! What a caller hears of one server, as it came: in the middle of a request, at its end, and outside of any.

use std::sync::Arc;

use serde_json::Value;
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{AskHandler, Happening, LogLevel, Outcome, Question, Request, Terms},
    json::Raw,
    message::splice,
    notice::Notice,
    revision::Era,
    up::Peer,
};

use super::{TO_START, traffic::Watched};
use crate::person::Person;

/// A caller of one server, and who answers what it is asked.
pub(super) struct Listener {
    pub(super) peer: Peer,
    person: Option<Arc<Person>>,
}

/// What came of a request: what happened in the middle, in its order, and the result or the error.
pub(super) struct Heard {
    pub(super) meanwhile: Raw,
    pub(super) end: Raw,
}

impl Listener {
    /// A caller who wants to hear every log line.
    pub(super) async fn new(peer: Peer, person: Option<Arc<Person>>) -> Self {
        if peer.profile().capabilities.has("logging") {
            within("a log level", peer.set_log_level(LogLevel::Debug)).await.unwrap();
        }
        Self { peer, person }
    }

    pub(super) fn era(&self) -> Era {
        self.peer.profile().revision.era()
    }

    /// The first answer.
    pub(super) fn hello(&self) -> Heard {
        Heard { meanwhile: splice::array([]), end: self.peer.profile().raw.clone() }
    }

    pub(super) async fn asks(&self, method: &'static str, params: &Value) -> Heard {
        let mut exchange = self.peer.open(request(method, params), Terms::call());
        let mut meanwhile = Vec::new();
        let end = loop {
            let happening = tokio::time::timeout(TO_START, exchange.next()).await;
            match happening.unwrap_or_else(|_| panic!("{method} takes too long")) {
                Some(Happening::Progress(step)) => meanwhile.push(named("progress", &step)),
                Some(Happening::Log(line)) => meanwhile.push(named("log", &line)),
                Some(Happening::Ask(ask)) => {
                    meanwhile.push(asked(&ask.question));
                    let somebody = self.person.as_ref().unwrap();
                    let answer = somebody.answer(ask.question.clone()).await;
                    ask.answer(answer);
                }
                Some(Happening::Ended(Outcome::Answered(result))) => break result,
                Some(Happening::Ended(Outcome::Refused(error))) => break error.raw().clone(),
                other => panic!("{method}: {other:?}"),
            }
        };
        Heard { meanwhile: splice::array(&meanwhile), end }
    }

    /// What is honoured of a wish to hear of changes, and what is heard first when it comes true.
    pub(super) async fn watches(&self, watched: &Watched) -> Heard {
        let mut listening = within("a subscription", self.peer.listen(watched.wanted.clone())).await.unwrap();
        let honoured = listening.honoured();
        let meanwhile = Raw::of(&(honoured.tools, honoured.prompts, honoured.resources, &honoured.uris));
        let (method, params) = &watched.trigger;
        self.asks(method, params).await;
        let end = match within("a notice", listening.next()).await {
            Some(Notice::Updated { params, .. }) => named("updated", &params),
            Some(Notice::Changed(list)) => Raw::of(list.changed_method()),
            other => panic!("{other:?}"),
        };
        Heard { meanwhile, end }
    }
}

fn request(method: &'static str, params: &Value) -> Request {
    Request::new(method, Some(Raw::of(params))).unwrap().with_progress()
}

/// A question with what it is called, where it is called anything.
fn asked(question: &Question) -> Raw {
    let (key, method) = (Raw::of(&question.key), Raw::of(&question.method));
    let params = question.params.clone().unwrap_or_else(|| Raw::of(&Value::Null));
    named("ask", &splice::object([("key", &key), ("method", &method), ("params", &params)]))
}

fn named(what: &str, value: &Raw) -> Raw {
    splice::object([(what, value)])
}
