//! Requests of servers for the answer of a model: what may change while the user is asked.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_config::{Config, SamplingLevels, ServerName, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    connection::{WantedServer, Way},
    inbox::{ElicitationModes, InboxAnswer, InboxAnswerer, InboxContent, SamplingAnswer},
    record::RecordsError,
    sampling::{
        ModelAnswer, PreparedSample, Sampled, Sampler, SamplingDetails, SamplingEnd, SamplingLedger, SamplingOffer,
        SamplingQuotas, SamplingRequest, SamplingUse, quota::Reservation,
    },
};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::{json::Raw, message::RpcError};
use uuid::Uuid;

/// A model that counts what it is asked.
#[derive(Default)]
struct CountedModel {
    asked: Arc<AtomicUsize>,
}

impl Sampler for CountedModel {
    fn offer(&self, _server: &ServerName) -> SamplingOffer {
        SamplingOffer::Messages
    }

    fn prepare(&self, request: &SamplingRequest, levels: &SamplingLevels) -> Result<PreparedSample, RpcError> {
        let details = SamplingDetails {
            called: request.called.clone(),
            messages: Vec::new(),
            system: None,
            temperature: None,
            stop_sequences: Vec::new(),
            max_tokens: levels.max_tokens().unwrap_or(100).into(),
            input_tokens: 1,
            tools: Vec::new(),
            tool_choice: None,
            model: levels.model().unwrap_or("default").to_owned(),
            reason: "configured".to_owned(),
            quota: Vec::new(),
            answer: None,
        };
        let asked = Arc::clone(&self.asked);
        let send = move || -> BoxFuture<'static, ModelAnswer> {
            asked.fetch_add(1, Ordering::Relaxed);
            let content = json!({ "type": "text", "text": "Blue." });
            let result = json!({ "role": "assistant", "content": content, "model": "m", "stopReason": "endTurn" });
            let sampled =
                Sampled { result: Raw::of(&result), text: "Blue.".to_owned(), stop_reason: "endTurn".to_owned() };
            Box::pin(async { ModelAnswer { tokens: None, answer: Ok(sampled) } })
        };
        Ok(PreparedSample { details, send: Box::new(send) })
    }
}

/// Has room for everything, and notes how requests ended.
#[derive(Default)]
struct RoomyLedger {
    not_sent: AtomicUsize,
}

impl SamplingLedger for RoomyLedger {
    fn reserve(
        &self,
        _wanted: SamplingUse,
        _quotas: SamplingQuotas,
    ) -> BoxFuture<'static, Result<Reservation, RecordsError>> {
        Box::pin(async { Ok(Reservation::Granted(Vec::new())) })
    }

    fn settle(&self, _id: Uuid, end: SamplingEnd) {
        if end == SamplingEnd::NotSent {
            self.not_sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn config(sampling: &str) -> Config {
    let text = format!(r#"{{"sampling": {sampling}}}"#);
    Config::of(&Document::of("/toolway.json".as_ref(), &text).unwrap(), None).unwrap()
}

/// The outcome of a call whose sampling request the user allows after the settings have changed, and how often the model was
/// asked. Unless it was asked, the reservation was given back.
async fn changed(before: &str, after: &str) -> (CallOutcome, usize) {
    let model = CountedModel::default();
    let asked = Arc::clone(&model.asked);
    let ledger = Arc::new(RoomyLedger::default());
    let server = Arc::new(ConformanceServer::new());
    let mut builder = TestHost::new().wanted(WantedServer::new(name("paints"), Way::InProcess(server)));
    builder = builder.config(config(before));
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    builder.ports.sampler = Arc::new(model);
    builder.ports.sampling = ledger.clone();
    let host = builder.start().await;
    host.ready("paints").await;
    let arguments = Raw::of(&json!({ "prompt": "Which colour?" }));
    let call = CallRequest::tool(Caller::Terminal, "paints__test_sampling".parse().unwrap(), Some(arguments));
    let answering = async {
        let mut changes = host.host.inbox().changes();
        let item = loop {
            match host.host.inbox().list().pop() {
                Some(item) => break item,
                None => changes.changed().await.unwrap(),
            }
        };
        assert!(matches!(item.content, InboxContent::Sampling(_)), "{item:?}");
        host.host.reload(&config(after)).unwrap();
        host.host.inbox().answer(&item.id, InboxAnswer::Sampling(SamplingAnswer::Once)).unwrap();
    };
    let work = async { tokio::join!(host.host.call(call), answering) };
    let (outcome, ()) = within("the call", work).await;
    let asked = asked.load(Ordering::Relaxed);
    assert_eq!(ledger.not_sent.load(Ordering::Relaxed), 1 - asked, "{before} {after}");
    (outcome, asked)
}

#[tokio::test]
async fn settings_that_change_while_the_user_is_asked_refuse_the_request() {
    let before = r#"{"allow": "ask", "model": "small", "maxTokens": 100, "requestsPerHour": 9, "tokensPerDay": 900}"#;
    let refusals = [
        (r#""small""#, r#""large""#, "its settings changed while the user was asked"),
        (r#""maxTokens": 100"#, r#""maxTokens": 50"#, "its settings changed while the user was asked"),
        (r#""maxTokens": 100"#, r#""maxTokens": 200"#, "its settings changed while the user was asked"),
        (r#""requestsPerHour": 9"#, r#""requestsPerHour": 8"#, "its settings changed while the user was asked"),
        (r#""tokensPerDay": 900"#, r#""tokensPerDay": 800"#, "its settings changed while the user was asked"),
        (r#""ask""#, r#""never""#, "`sampling.allow` is `never`"),
    ];
    for (setting, changed_to, why) in refusals {
        let after = before.replace(setting, changed_to);
        let (outcome, asked) = changed(before, &after).await;
        assert_eq!(asked, 0, "{after}: {outcome}");
        let text = outcome.result().map(ToString::to_string).unwrap_or_else(|| outcome.to_string());
        assert!(text.contains(&format!("sampling for `paints` was refused: {why}")), "{after}: {text}");
    }
    for after in [before.to_owned(), before.replace(r#""ask""#, r#""always""#)] {
        let (outcome, asked) = changed(before, &after).await;
        assert_eq!(asked, 1, "{after}: {outcome}");
        assert!(outcome.result().unwrap().to_string().contains("Blue."), "{after}: {outcome}");
    }
}
