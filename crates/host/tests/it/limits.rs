//! Limits of servers, tools and clients: exact under concurrent callers, all or none, and given back by calls not sent.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolway_config::{Config, LimitLevel, document::Document};
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest, Caller, Target, TaskHandling, TaskOperation},
    connection::{ServerAddress, WantedServer, Way},
    policy::{CallDays, DayTaken, DayUse, LimitEnd, LimitKey, LimitReached, MemoryCallDays, Refusal},
    record::{CallState, Delivery, RecordsError},
};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder, name},
};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome},
    task::TaskDetail,
    up::EraChoice,
};
use uuid::Uuid;

fn files() -> FixtureServer {
    let say = Behaviour::Say("a result of some bytes");
    FixtureServer::new("files")
        .tool("read", "Read")
        .tool("write_a", "Write")
        .tool_that("say", "Say", say)
        .tool_that("wait", "Wait", Behaviour::Wait)
        .tool_that("greet", "Greet", Behaviour::Greet)
}

fn config(text: &Value) -> Config {
    let document = Document::of("/x/toolway.json".as_ref(), &text.to_string()).unwrap();
    Config::of(&document, None).unwrap()
}

/// The limits of a server as they are written.
fn limits(written: &Value) -> LimitLevel {
    let entry = json!({ "mcpServers": { "x": { "command": "x", "limits": written } } });
    config(&entry).servers.values().next().unwrap().limits.clone()
}

/// The limits of a client as they are written.
fn clients(written: &Value) -> Config {
    config(&json!({ "gateway": { "clients": written } }))
}

fn limited(server: &FixtureServer, written: &Value) -> TestHostBuilder {
    let wanted = WantedServer::new(name("files"), Way::InProcess(server.service()));
    TestHost::new().wanted(WantedServer { limits: limits(written), ..wanted })
}

async fn started(builder: TestHostBuilder) -> TestHost {
    let host = builder.start().await;
    host.ready("files").await;
    host
}

fn of(host: &TestHost, caller: &str, tool: &str) -> CallRequest {
    CallRequest { caller: Caller::Client(caller.into()), ..host.request(tool, None) }
}

/// The limit that refused a call; `None` if it succeeded.
fn refused_by(outcome: &CallOutcome) -> Option<&LimitReached> {
    match outcome {
        CallOutcome::Refused(Refusal::Limit(reached)) => Some(reached),
        CallOutcome::Answered(_) => None,
        other => panic!("{other}"),
    }
}

async fn succeeded_of_64(host: &TestHost, tool: &str) -> usize {
    let calls = (0..64).map(|_| host.host.call(host.request(tool, None)));
    let outcomes = join_all(calls).await;
    outcomes.iter().filter(|outcome| refused_by(outcome).is_none()).count()
}

/// What is used, by limit.
async fn used(host: &TestHost) -> BTreeMap<String, u64> {
    let uses = host.host.limit_uses().await.unwrap();
    uses.into_iter().map(|used| (format!("{} of {}", used.key.as_str(), used.scope), used.used)).collect()
}

/// Days of a clock that is set.
struct SetDays {
    now: Mutex<SystemTime>,
    days: MemoryCallDays,
}

impl CallDays for SetDays {
    fn now(&self) -> SystemTime {
        *self.now.lock()
    }

    fn take(&self, wanted: DayUse) -> BoxFuture<'static, Result<DayTaken, RecordsError>> {
        self.days.take(wanted)
    }

    fn give_back(&self, call: Uuid) {
        self.days.give_back(call);
    }

    fn used(&self, at: SystemTime) -> BoxFuture<'static, Result<BTreeMap<String, u64>, RecordsError>> {
        self.days.used(at)
    }
}

#[tokio::test(start_paused = true)]
async fn of_64_concurrent_calls_exactly_the_50_of_the_minute_are_sent() {
    let files = files();
    let host = started(limited(&files, &json!({ "callsPerMinute": 50 }))).await;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 50);
    assert_eq!(files.seen("tools/call").len(), 50);
    let outcome = host.call("files__read").await;
    let reached = refused_by(&outcome).unwrap();
    assert_eq!((reached.key, reached.end), (LimitKey::CallsPerMinute, LimitEnd::In(Duration::from_millis(1_200))));
    assert_eq!(
        outcome.to_string(),
        "refused: limit `callsPerMinute` of server `files`: its 50 calls per minute are used; try again in 2 s"
    );
    let record = host.records().pop().unwrap();
    assert_eq!((record.state, record.outcome), (CallState::Refused, Some(Delivery::NotSent)));
    tokio::time::advance(Duration::from_millis(1_200)).await;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 1, "one more each time a 50th of a minute has passed");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 50);
}

#[tokio::test]
async fn of_64_concurrent_calls_exactly_the_50_of_the_day_are_sent() {
    let files = files();
    let host = started(limited(&files, &json!({ "callsPerDay": 50 }))).await;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 50);
    assert_eq!(files.seen("tools/call").len(), 50);
    let outcome = host.call("files__read").await;
    let reached = refused_by(&outcome).unwrap();
    assert_eq!((reached.key, reached.most), (LimitKey::CallsPerDay, 50));
    assert!(outcome.to_string().contains("T00:00:00.000Z (in "), "{outcome}");
}

#[tokio::test]
async fn a_day_begins_at_midnight_utc_and_a_call_gives_back_to_the_day_from_which_it_took() {
    let files = files();
    let mut builder = limited(&files, &json!({ "callsPerDay": 2 }));
    let midnight = UNIX_EPOCH + Duration::from_secs(20_000 * 24 * 60 * 60);
    let before = midnight - Duration::from_millis(1);
    let days = Arc::new(SetDays { now: Mutex::new(before), days: MemoryCallDays::default() });
    builder.ports.call_days = days.clone();
    let host = started(builder).await;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 2);
    let outcome = host.call("files__read").await;
    assert_eq!(refused_by(&outcome).unwrap().end, LimitEnd::In(Duration::from_millis(1)));
    *days.now.lock() = midnight;
    assert_eq!(succeeded_of_64(&host, "files__read").await, 2);
    assert_eq!(days.used(before).await.unwrap(), BTreeMap::new(), "the day that has ended counts no more");

    // Taken before midnight, given back after it: the new day is not touched.
    let call = Uuid::now_v7();
    let early = DayUse { call, at: before, counts: vec![] };
    assert_eq!(days.take(early).await.unwrap(), DayTaken::Granted);
    days.give_back(call);
    assert_eq!(days.used(midnight).await.unwrap(), BTreeMap::from([("server:files".to_owned(), 2)]));
}

#[tokio::test]
async fn calls_at_the_same_time_are_refused_at_once_and_their_places_are_free_again_however_they_end() {
    let files = files();
    let host = started(limited(&files, &json!({ "tools": { "wait": { "concurrent": 2 } } }))).await;
    let mut running: Vec<_> = (0..64).map(|_| Box::pin(host.host.call(host.request("files__wait", None)))).collect();
    let mut refused = 0;
    for call in &mut running {
        refused += u32::from(futures_util::poll!(call).is_ready());
    }
    assert_eq!(refused, 62);
    let states = host.records().iter().map(|record| record.state).collect::<Vec<_>>();
    assert_eq!(states, [CallState::Refused; 62]);
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded, "other tools are not limited");
    let outcome = host.call("files__wait").await;
    assert_eq!(
        outcome.to_string(),
        "refused: limit `concurrent` of tools `wait` of server `files`: 2 calls are running at the same time; try again \
         when one has ended"
    );
    drop(running);
    assert_eq!(used(&host).await, BTreeMap::from([("concurrent of tools `wait` of server `files`".to_owned(), 0)]));
}

#[tokio::test]
async fn a_call_takes_from_all_limits_or_from_none() {
    let files = files();
    let written = json!({
        "callsPerMinute": 10, "callsPerDay": 5,
        "tools": { "write_*": { "callsPerDay": 2 }, "*_a": { "callsPerMinute": 3 } },
    });
    let of_clients =
        json!({ "ada": { "limits": { "callsPerDay": 1, "tools": { "files.read": { "concurrent": 1 } } } } });
    let host = started(limited(&files, &written).config(clients(&of_clients))).await;
    let call = async |caller: &str, tool: &str| host.call_of(of(&host, caller, tool)).await;
    assert!(refused_by(&call("ada", "files__write_a").await).is_none());
    let by_client = call("ada", "files__write_a").await;
    assert_eq!(refused_by(&by_client).unwrap().scope.to_string(), "client `ada`");
    assert!(refused_by(&call("ben", "files__write_a").await).is_none());
    let by_pattern = call("ben", "files__write_a").await;
    assert_eq!(refused_by(&by_pattern).unwrap().scope.to_string(), "tools `write_*` of server `files`");
    assert!(refused_by(&call("ben", "files__read").await).is_none());
    assert_eq!(
        used(&host).await,
        BTreeMap::from([
            ("callsPerDay of client `ada`".to_owned(), 1),
            ("concurrent of tools `files.read` of client `ada`".to_owned(), 0),
            ("callsPerMinute of server `files`".to_owned(), 3),
            ("callsPerDay of server `files`".to_owned(), 3),
            ("callsPerDay of tools `write_*` of server `files`".to_owned(), 2),
            ("callsPerMinute of tools `*_a` of server `files`".to_owned(), 2),
        ]),
        "what was refused is not counted anywhere"
    );
}

#[tokio::test]
async fn a_call_that_is_not_sent_counts_in_no_limit() {
    let address = ServerAddress::http("http://127.0.0.1:9/mcp".parse().unwrap());
    let wanted = WantedServer::new(name("gone"), Way::Address(address));
    let level = limits(&json!({ "callsPerMinute": 2, "callsPerDay": 2, "concurrent": 2 }));
    let host = TestHost::new().wanted(WantedServer { limits: level, ..wanted }).start().await;
    for _ in 0..5 {
        let target = Target::Method { server: name("gone"), method: "tools/call".to_owned() };
        let arguments = Some(toolway_wire::json::Raw::of(&json!({ "name": "read" })));
        let outcome = host.call_of(CallRequest { arguments, ..CallRequest::new(Caller::Terminal, target) }).await;
        assert_eq!(outcome.state(), CallState::Failed, "{outcome}");
    }
    assert!(used(&host).await.values().all(|used| *used == 0), "{:?}", used(&host).await);
    assert!(host.records().iter().all(|record| record.outcome == Some(Delivery::NotSent)));
}

#[tokio::test]
async fn arguments_that_are_too_large_are_not_sent_and_a_result_that_is_too_large_is_withheld() {
    let files = files();
    let written = json!({ "callsPerDay": 9, "bytesPerCall": 1_000, "tools": { "say": { "bytesPerCall": 40 } } });
    let host = started(limited(&files, &written)).await;
    let large = json!({ "text": "x".repeat(2_000) });
    let outcome = host.call_with("files__read", Some(large.clone())).await;
    let reached = refused_by(&outcome).unwrap();
    assert_eq!((reached.key, reached.bytes, reached.end), (LimitKey::ArgumentBytes, 2_011, LimitEnd::Never));
    assert!(files.seen("tools/call").is_empty());
    assert_eq!(host.call_with("files__read", Some(json!({ "text": "x" }))).await.state(), CallState::Succeeded);
    let outcome = host.call("files__say").await;
    assert!(outcome.to_string().contains("the call was made, and its result is withheld"), "{outcome}");
    assert!(!outcome.to_string().contains("a result of some bytes"));
    let record = host.records().pop().unwrap();
    assert_eq!((record.state, record.outcome), (CallState::Failed, Some(Delivery::Answered)));
    assert_eq!(used(&host).await["callsPerDay of server `files`"], 2, "it was sent, and counts");
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_and_is_cancelled_at_its_server() {
    let files = files();
    let host = started(limited(&files, &json!({ "deadline": "2s", "concurrent": 1 }))).await;
    let began = tokio::time::Instant::now();
    let outcome = host.call("files__wait").await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(outcome.to_string(), "timed-out: no answer within 2s (`limits.deadline`)");
    let record = host.records().pop().unwrap();
    assert_eq!((record.state, record.outcome), (CallState::TimedOut, Some(Delivery::Unknown)));
    files.left(1).await;
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded, "its place is free");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_call_that_waits_for_a_slot_without_sending_it() {
    let files = files();
    let mut builder = limited(&files, &json!({ "tools": { "read": { "deadline": "2s", "callsPerDay": 3 } } }));
    builder.options.calls = toolway_host::policy::CallLimits { per_server: 1, ..Default::default() };
    let host = started(builder).await;
    let mut running = Box::pin(host.host.call(host.request("files__wait", None)));
    assert!(futures_util::poll!(&mut running).is_pending());
    let outcome = host.call("files__read").await;
    assert_eq!(outcome.state(), CallState::TimedOut, "{outcome}");
    assert_eq!(host.records().pop().unwrap().outcome, Some(Delivery::NotSent));
    assert!(used(&host).await.values().all(|used| *used == 0), "it gives back what it took");
    assert!(futures_util::poll!(&mut running).is_pending(), "another tool has no deadline");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_person_takes_to_answer_is_not_part_of_the_deadline() {
    let files = files();
    let host = started(limited(&files, &json!({ "deadline": "2s" }))).await;
    let capabilities = json!({ "elicitation": { "form": {} } });
    let request = CallRequest {
        capabilities: Some(toolway_wire::message::ClientCapabilities(toolway_wire::json::Raw::of(&capabilities))),
        ..host.request("files__greet", None)
    };
    let mut relay = host.host.open(request);
    let asked = loop {
        match relay.next().await {
            Some(toolway_wire::exchange::ExchangeEvent::ServerRequest(asked)) => break asked,
            Some(toolway_wire::exchange::ExchangeEvent::Ended(outcome)) => panic!("{outcome}"),
            Some(_) => {}
            None => panic!("the call ended"),
        }
    };
    tokio::time::sleep(Duration::from_secs(60)).await;
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    asked.answer(toolway_wire::exchange::Answer::Given(toolway_wire::json::Raw::of(&answer)));
    let outcome = relay.outcome().await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_limits_and_what_was_taken_counts_on() {
    let files = files();
    let of_ada = |per_minute: u32, per_day: u32| {
        clients(&json!({ "ada": { "limits": { "callsPerMinute": per_minute, "callsPerDay": per_day } } }))
    };
    let host = started(TestHost::with(&files, "files").config(of_ada(10, 2))).await;
    let call = async || host.call_of(of(&host, "ada", "files__read")).await;
    let limit = |outcome: &CallOutcome| refused_by(outcome).map(|reached| reached.key);
    assert_eq!((limit(&call().await), limit(&call().await)), (None, None));
    assert_eq!(limit(&call().await), Some(LimitKey::CallsPerDay));
    host.host.reload(&of_ada(3, 9)).unwrap();
    assert_eq!((limit(&call().await), limit(&call().await)), (None, Some(LimitKey::CallsPerMinute)));
    host.host.reload(&of_ada(9, 3)).unwrap();
    assert_eq!(limit(&call().await), Some(LimitKey::CallsPerDay));
    host.host.reload(&clients(&json!({}))).unwrap();
    assert_eq!(limit(&call().await), None, "without limits nothing is counted");
    assert!(used(&host).await.is_empty());
}

#[tokio::test]
async fn a_detached_task_has_no_place_among_the_calls_at_the_same_time() {
    let server = Arc::new(ConformanceServer::new());
    let level = limits(&json!({ "concurrent": 1, "callsPerDay": 3 }));
    let wanted = WantedServer::new(name("jobs"), Way::InProcess(server));
    let host = TestHost::new().wanted(WantedServer { limits: level, ..wanted }).start().await;
    host.ready("jobs").await;
    let begin = async |task| {
        let request = host.request("jobs__long_job", Some(json!({ "seconds": 600 })));
        host.host.call(CallRequest { task, ..request }).await
    };
    for _ in 0..2 {
        let outcome = begin(TaskHandling::Background).await;
        assert!(matches!(outcome, CallOutcome::HandedOff(_)), "{outcome}");
    }
    let mut waiting = Box::pin(begin(TaskHandling::Await));
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    let outcome = begin(TaskHandling::Background).await;
    assert_eq!(refused_by(&outcome).unwrap().key, LimitKey::Concurrent, "a task that is waited for has its place");
}

#[tokio::test]
async fn the_result_of_a_task_is_withheld_like_that_of_a_call() {
    let server = Arc::new(ConformanceServer::new());
    let level = limits(&json!({ "tools": { "long_job": { "bytesPerCall": 30 } } }));
    let wanted = WantedServer::new(name("jobs"), Way::InProcess(server));
    let host = TestHost::new().wanted(WantedServer { limits: level, ..wanted }).start().await;
    host.ready("jobs").await;
    for seconds in [0.0, 0.2] {
        let request = host.request("jobs__long_job", Some(json!({ "seconds": seconds })));
        let caller = request.caller.clone();
        let outcome = host.host.call(CallRequest { task: TaskHandling::HandOver, ..request }).await;
        let CallOutcome::HandedOff(task) = outcome else { panic!("{outcome}") };
        // As a client does that polls its task.
        let tasks =
            host.host.tasks_for(TaskOperation::Get, (&caller).into(), &name("jobs"), Some(&task.id)).await.unwrap();
        let answered = tasks.tasks().follow(&task.id, ExchangeTimeouts::call()).outcome().await;
        let Outcome::Refused(error) = answered else { panic!("{answered:?}") };
        let data = error.data().unwrap().to_string();
        assert!(data.contains("limit_exceeded") && data.contains("bytesPerCall"), "{data}");
        let read = tasks.tasks().get(&task.id, TaskDetail::Full).await;
        assert!(!format!("{read:?}").contains("Computed for"), "{read:?}");
    }
    // As `call --detach` does, whose task the host follows.
    let request = host.request("jobs__long_job", Some(json!({ "seconds": 0 })));
    let outcome = host.host.call(CallRequest { task: TaskHandling::Background, ..request }).await;
    assert!(matches!(outcome, CallOutcome::HandedOff(_)), "{outcome}");
    let is_withheld = || {
        let state = |record: &Arc<toolway_host::record::CallRecord>| record.state;
        host.records().iter().any(|record| state(record) == CallState::Failed)
    };
    toolway_testkit::test_host::within("the end of the task", async {
        while !is_withheld() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_result_that_is_withheld_is_not_given_from_the_cache_either() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let listed = |uri: &str| json!({ "uri": uri, "name": "note" });
        let contents = |uri: &str, bytes: usize| json!([{ "uri": uri, "text": "x".repeat(bytes) }]);
        let server = files()
            .keeping(60_000, "private")
            .resource(listed("files://large"), contents("files://large", 2_000))
            .resource(listed("files://small"), contents("files://small", 700));
        let wanted = WantedServer::new(name("files"), Way::InProcess(server.service()));
        let wanted = WantedServer { limits: limits(&json!({ "bytesPerCall": 1_000 })), era, ..wanted };
        let host = started(TestHost::new().wanted(wanted)).await;
        let read = async |uri: &str| {
            let read = CallRequest::read(Caller::Agent("a".into()), uri);
            host.call_of(CallRequest { max_age: Duration::from_secs(60), ..read }).await
        };
        for _ in 0..3 {
            assert!(matches!(read("files://large").await, CallOutcome::Failed(CallError::Limit(_))));
        }
        assert_eq!(server.seen("resources/read").len(), 3, "what is withheld is not kept");
        for _ in 0..2 {
            assert!(matches!(read("files://small").await, CallOutcome::Answered(_)));
        }
        assert_eq!(server.seen("resources/read").len(), 4);
        assert!(host.records().last().unwrap().from_cache);
    }
}

#[tokio::test]
async fn a_limit_that_was_lowered_withholds_what_is_in_the_cache() {
    let listed = json!({ "uri": "files://note", "name": "note" });
    let server = files()
        .keeping(60_000, "private")
        .resource(listed, json!([{ "uri": "files://note", "text": "x".repeat(700) }]));
    let host = started(limited(&server, &json!({ "callsPerDay": 100 }))).await;
    let read = async || {
        let read = CallRequest::read(Caller::Client("ada".into()), "files://note");
        host.call_of(CallRequest { max_age: Duration::from_secs(60), ..read }).await
    };
    assert!(matches!(read().await, CallOutcome::Answered(_)));
    host.host.reload(&clients(&json!({ "ada": { "limits": { "bytesPerCall": 100 } } }))).unwrap();
    let outcome = read().await;
    assert!(matches!(outcome, CallOutcome::Failed(CallError::Limit(_))), "{outcome}");
    assert_eq!(server.seen("resources/read").len(), 1, "it was found in the cache");
}

#[tokio::test]
async fn methods_of_a_servers_own_count_whatever_their_names() {
    let files = files();
    let host = started(limited(&files, &json!({ "callsPerDay": 2 }))).await;
    let send = async |method: &str| {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        host.call_of(CallRequest::new(Caller::Terminal, target)).await
    };
    let is_limited = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Refused(Refusal::Limit(_)));
    for _ in 0..2 {
        let outcome = send("reports/list").await;
        assert!(!is_limited(&outcome), "{outcome}");
    }
    for method in ["reports/list", "exports/get", "pings/all"] {
        let outcome = send(method).await;
        assert!(is_limited(&outcome), "{method}: {outcome}");
        assert!(files.seen(method).len() < 3, "{method}");
    }
    for method in ["tools/list", "resources/templates/list", "ping"] {
        assert!(!is_limited(&send(method).await), "{method}: lists of the protocol do not count");
    }
}

#[tokio::test]
async fn what_the_cache_answers_takes_nothing_of_the_limits() {
    let listed = json!({ "uri": "files://note", "name": "note" });
    let server =
        files().keeping(60_000, "private").resource(listed, json!([{ "uri": "files://note", "text": "a note" }]));
    let host = started(limited(&server, &json!({ "callsPerDay": 3, "callsPerMinute": 3 }))).await;
    for _ in 0..10 {
        let read = CallRequest::read(Caller::Agent("a".into()), "files://note");
        let outcome = host.call_of(CallRequest { max_age: Duration::from_secs(60), ..read }).await;
        assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
    }
    assert_eq!(server.seen("resources/read").len(), 1);
    assert!(used(&host).await.values().all(|used| *used == 1), "{:?}", used(&host).await);
    for limit in [None, None, Some(LimitKey::CallsPerDay)] {
        let outcome = host.call("files__read").await;
        assert_eq!(refused_by(&outcome).is_some(), limit.is_some(), "{outcome}");
    }
}

#[tokio::test]
async fn the_result_of_a_task_of_which_nothing_is_known_has_the_smallest_bound_that_may_concern_it() {
    let server = Arc::new(ConformanceServer::new());
    let of_ada = |tools: Value| clients(&json!({ "ada": { "limits": { "callsPerDay": 100, "tools": tools } } }));
    let start = async |config: Config| {
        let wanted = WantedServer::new(name("jobs"), Way::InProcess(Arc::<ConformanceServer>::clone(&server)));
        let host = TestHost::new().wanted(wanted).config(config).start().await;
        host.ready("jobs").await;
        host
    };
    let ada = Caller::Client("ada".into());
    let before = start(clients(&json!({}))).await;
    let request = before.request("jobs__long_job", Some(json!({ "seconds": 0.0 })));
    let request = CallRequest { caller: ada.clone(), task: TaskHandling::HandOver, ..request };
    let outcome = before.host.call(request).await;
    let CallOutcome::HandedOff(task) = outcome else { panic!("{outcome}") };
    // A host that has not seen its call, as after a restart.
    for (tools, is_withheld) in [
        (json!({ "jobs.long_*": { "bytesPerCall": 30 } }), true),
        (json!({ "*.dump": { "bytesPerCall": 30 } }), true),
        (json!({ "jobs.dump": { "bytesPerCall": 30 }, "jobs.*": { "bytesPerCall": 30_000 } }), true),
        (json!({ "files.dump": { "bytesPerCall": 30 } }), false),
        (json!({ "jobs.long_job": { "bytesPerCall": 30_000 } }), false),
    ] {
        let after = start(of_ada(tools.clone())).await;
        let tasks =
            after.host.tasks_for(TaskOperation::Get, (&ada).into(), &name("jobs"), Some(&task.id)).await.unwrap();
        let answered = tasks.tasks().follow(&task.id, ExchangeTimeouts::call()).outcome().await;
        assert_eq!(matches!(answered, Outcome::Refused(_)), is_withheld, "{tools}: {answered:?}");
    }
}
