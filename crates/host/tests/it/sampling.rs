//! Requests of servers for the answer of a model: what may change while the user is asked.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
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
    task::{AnsweredBy, KeptBy, SettledCall, StoredTask, TaskLog, TaskRow},
};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    odd::{
        compliant::{self, SupportedEras},
        http::{OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{json::Raw, message::RpcError, time::Micros};
use uuid::Uuid;

use crate::fixtures::address;

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

/// The log of a process that finds one task that an earlier process left.
struct LeftTask {
    row: TaskRow,
    /// Whether its end was written.
    ended: watch::Sender<bool>,
}

impl TaskLog for LeftTask {
    fn write(&self, _: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        Box::pin(async { Ok(true) })
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        let row = self.row.clone();
        Box::pin(async { Ok(vec![row]) })
    }

    fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        Box::pin(async { Ok(None) })
    }

    fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn release(&self, _: Uuid) {}

    fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        self.ended.send_replace(true);
        Box::pin(async { Ok(()) })
    }
}

/// A server with one task, which asks for an answer of a model, and ends with any answer to that.
async fn asking_task() -> OddHttp {
    let is_answered = AtomicBool::new(false);
    let odd = OddHttp::start(move |seen| {
        let say = |result: &Value| Reply::json(200, &compliant::answered(seen.id(), result));
        let mut task = json!({ "taskId": "sisyphus", "createdAt": "2026-01-01T00:00:00Z", "pollIntervalMs": 20,
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 3_600_000, "resultType": "complete" });
        match seen.method() {
            "server/discover" => {
                let mut discovered = compliant::discovered(&[compliant::MODERN]);
                discovered["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
                say(&discovered)
            }
            "tasks/update" => {
                is_answered.store(true, Ordering::SeqCst);
                say(&json!({ "resultType": "complete" }))
            }
            "tasks/get" if is_answered.load(Ordering::SeqCst) => {
                task["status"] = json!("completed");
                task["result"] = json!({ "content": [{ "type": "text", "text": "painted" }] });
                say(&task)
            }
            "tasks/get" => {
                let message = json!({ "role": "user", "content": { "type": "text", "text": "Which colour?" } });
                let params = json!({ "messages": [message], "maxTokens": 20 });
                task["status"] = json!("input_required");
                task["inputRequests"] = json!({ "colour": { "method": "sampling/createMessage", "params": params } });
                say(&task)
            }
            _ => compliant_http(SupportedEras::Modern, seen),
        }
    });
    odd.await.unwrap()
}

/// How often our model is asked by a task of this caller that an earlier process left.
async fn asked_by_left_task(caller: &str, config: &str) -> usize {
    let odd = asking_task().await;
    let model = CountedModel::default();
    let asked = Arc::clone(&model.asked);
    let row = TaskRow {
        remote_id: "sisyphus".to_owned(),
        server: "jobs".to_owned(),
        tool: "jobs__odd".to_owned(),
        caller: caller.to_owned(),
        conversation: Some("c".to_owned()),
        ..TaskRow::begun(Uuid::now_v7(), KeptBy::Server, AnsweredBy::Host)
    };
    let id = row.id;
    let ended = watch::Sender::new(false);
    let mut has_ended = ended.subscribe();
    let text = Document::of("/toolway.json".as_ref(), config).unwrap();
    let mut builder = TestHost::new().wanted(address("jobs", &odd.url())).config(Config::of(&text, None).unwrap());
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    builder.ports.sampler = Arc::new(model);
    builder.ports.sampling = Arc::new(RoomyLedger::default());
    builder.ports.tasks = Arc::new(LeftTask { row, ended });
    let host = builder.start().await;
    host.ready("jobs").await;
    assert!(host.host.adopt_task(id).await.unwrap());
    within("the end of the task", has_ended.wait_for(|ended| *ended)).await.unwrap();
    asked.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_task_that_is_adopted_does_not_pass_by_a_mode_that_its_call_may_have_forbidden() {
    let asks = r#"{"policy": {"mode": "allow"}, "sampling": {"allow": "ask"}}"#;
    for caller in ["agent", "console", "terminal", "program"] {
        assert_eq!(asked_by_left_task(caller, asks).await, 0, "{caller}");
    }
    assert_eq!(asked_by_left_task("client:ada", asks).await, 1, "a client chooses no mode");
    let always = r#"{"policy": {"mode": "allow"}, "sampling": {"allow": "always"}}"#;
    assert_eq!(asked_by_left_task("agent", always).await, 1, "no question is left out");
    let never = r#"{"policy": {"mode": "allow"}, "sampling": {"allow": "never"}}"#;
    assert_eq!(asked_by_left_task("client:ada", never).await, 0);
}
