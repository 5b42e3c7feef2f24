//! The inbox: what waits for a person, who may answer, and how it ends.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, json};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use toolway_host::{
    call::{CallRequest, Caller},
    inbox::{AnswerError, ElicitationAnswer, ElicitationModes, InboxAnswer, InboxAnswerer, InboxContent, InboxItem},
    policy::{ApprovalAnswer, ApprovalTerm, Stance, Surface},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder, within},
};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    json::Raw,
    limit::Limits,
    up::EraChoice,
};

fn open_inbox(server: &FixtureServer) -> TestHostBuilder {
    let mut builder = TestHost::with(server, "files");
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    builder
}

/// Waits for the next item.
async fn item(host: &TestHost) -> Arc<InboxItem> {
    let inbox = host.host.inbox();
    let mut changes = inbox.changes();
    let waits = async {
        loop {
            if let Some(item) = inbox.list().pop() {
                return item;
            }
            changes.changed().await.unwrap();
        }
    };
    within("an item", waits).await
}

fn approved() -> InboxAnswer {
    InboxAnswer::Approval(ApprovalAnswer::approved("test"))
}

#[tokio::test]
async fn approval_request_shows_the_arguments_and_the_rule_and_is_answered_once() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let mut builder = open_inbox(&server);
    builder.options.stance = Stance::Ask;
    let host = builder.start().await;
    host.ready("files").await;
    let answer = async {
        let item = item(&host).await;
        let InboxContent::Approval(details) = &item.content else { panic!("{item:?}") };
        assert_eq!(details.arguments.as_ref().unwrap().to_string(), r#"{"path":"a.txt"}"#);
        assert_eq!(details.rule.to_string(), "default of the program: ask");
        assert!(details.remedy.as_ref().unwrap().contains("files.write "), "{:?}", details.remedy);
        assert!(item.call.is_some() && item.caller == Some(Caller::Terminal));
        let wrong = InboxAnswer::Elicitation(ElicitationAnswer::Decline);
        let error = host.host.inbox().answer(&item.id, wrong).unwrap_err();
        assert_eq!(error, AnswerError::WrongKind { id: item.id.clone(), kind: "approval" });
        host.host.inbox().answer(&item.id, approved()).unwrap();
        let error = host.host.inbox().answer(&item.id, approved()).unwrap_err();
        assert_eq!(error, AnswerError::NotWaiting(item.id.clone()));
    };
    let (outcome, ()) = tokio::join!(host.call_with("files__write", Some(json!({ "path": "a.txt" }))), answer);
    assert_eq!(outcome.state(), CallState::Succeeded);
    assert!(host.host.inbox().list().is_empty());
}

#[tokio::test]
async fn waiting_item_blocks_only_its_own_call_and_leaves_when_the_call_is_dropped() {
    let server = FixtureServer::new("files").tool("write", "Write").tool_that("greet", "Greet", Behaviour::Greet);
    let host = open_inbox(&server).start().await;
    host.ready("files").await;
    let waiting = host.host.open(CallRequest::tool(Caller::Terminal, "files__greet".parse().unwrap(), None));
    let waiting = tokio::runtime::Handle::current().spawn(waiting.outcome());
    let asked = item(&host).await;
    assert_eq!(host.call("files__write").await.state(), CallState::Succeeded);
    waiting.abort();
    waiting.await.unwrap_err();
    assert!(host.host.inbox().find(&asked.id).is_none());
}

/// Waiting calls with the largest and deepest arguments: their rows exist once, are bounded and charged, and a list of
/// the items shares them.
#[tokio::test]
async fn four_waiting_calls_with_nasty_arguments_do_not_make_lists_compute() {
    let server = FixtureServer::new("files").tool("write", "Write").tool("read", "Read");
    let mut builder = open_inbox(&server);
    builder.options.stance = Stance::Ask;
    let host = builder.start().await;
    host.ready("files").await;
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let wide = json!({ "a": vec![vec![vec![1; 20]; 20]; 20], "path": "x".repeat(40_000) });
    let nasty = [
        format!(r#"{{"a":{nested}}}"#),
        format!(r#"{{"a":[{}1]}}"#, format!("{nested},").repeat(5_000)),
        wide.to_string(),
        json!({ "text": "\u{1b}]".repeat(100_000) }).to_string(),
    ];
    let calls = nasty.map(|text| {
        let arguments = toolway_wire::json::Raw::parse(text).unwrap();
        let request = CallRequest::tool(Caller::Terminal, "files__write".parse().unwrap(), Some(arguments));
        tokio::runtime::Handle::current().spawn(host.host.open(request).outcome())
    });
    let inbox = host.host.inbox();
    let mut changes = inbox.changes();
    while inbox.list().len() < calls.len() {
        within("an item", changes.changed()).await.unwrap();
    }
    let rows = || -> Vec<_> {
        let rows = |item: &Arc<InboxItem>| match &item.content {
            InboxContent::Approval(details) => Arc::clone(&details.rows),
            _ => panic!("{item:?}"),
        };
        inbox.list().iter().map(rows).collect()
    };
    let first = rows();
    assert!(first.iter().zip(rows()).all(|(one, other)| Arc::ptr_eq(one, &other)));
    assert_eq!(first.iter().filter(|rows| rows.len() == 1 && rows[0].whole.is_some()).count(), 3);
    calls.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn parsed_form_is_charged_to_the_server_while_it_waits() {
    let server = FixtureServer::new("files").tool_that("greet", "Greet", Behaviour::Greet);
    let mut builder = open_inbox(&server);
    let memory = MemoryBudget::new(1_000_000);
    builder.options.limits = Limits { memory: memory.clone(), ..Limits::default() };
    let host = builder.start().await;
    host.ready("files").await;
    let before = memory.used();
    let greet = || CallRequest::tool(Caller::Terminal, "files__greet".parse().unwrap(), None);
    let waiting = tokio::runtime::Handle::current().spawn(host.host.open(greet()).outcome());
    let asked = item(&host).await;
    let InboxContent::Form { form, .. } = &asked.content else { panic!("{asked:?}") };
    let kept = memory.used() - before;
    assert!(size_of_val(form.fields.as_slice()) < kept, "{kept}");
    host.host.inbox().answer(&asked.id, InboxAnswer::Elicitation(ElicitationAnswer::Decline)).unwrap();
    drop(within("the call", waiting).await.unwrap());
    assert!(memory.used() <= before);

    // A form that does not fit is not answered, and the call ends.
    let kept_before = memory.used();
    let _rest = memory.of_server("files").charge(500_000 - kept_before - kept / 2).unwrap();
    let outcome = within("the call", host.host.open(greet()).outcome()).await;
    assert!(host.host.inbox().list().is_empty());
    drop(outcome);
}

#[tokio::test]
async fn form_of_a_server_takes_valid_values_only() {
    let server = FixtureServer::new("files").tool_that("greet", "Greet", Behaviour::Greet);
    let host = open_inbox(&server).start().await;
    host.ready("files").await;
    let answer = async {
        let item = item(&host).await;
        assert_eq!(item.summary(), "`files` asks for values: Who are you?");
        let accept = |content: serde_json::Value| {
            let content: Map<_, _> = content.as_object().cloned().unwrap();
            host.host.inbox().answer(&item.id, InboxAnswer::Elicitation(ElicitationAnswer::Accept(content)))
        };
        let error = accept(json!({ "name": 3 })).unwrap_err();
        assert_eq!(error.to_string(), "invalid values: `name`: must be text");
        accept(json!({ "name": "Ada" })).unwrap();
    };
    let (outcome, ()) = tokio::join!(host.call("files__greet"), answer);
    assert!(outcome.result().unwrap().to_string().contains("Ada"), "{outcome}");
}

#[tokio::test(start_paused = true)]
async fn item_that_is_not_answered_expires_and_the_call_is_refused() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let mut builder = open_inbox(&server);
    builder.options.stance = Stance::Ask;
    let host = builder.start().await;
    host.ready("files").await;
    let request = CallRequest::tool(Caller::Terminal, "files__write".parse().unwrap(), None);
    let outcome = host.host.call(request).await;
    assert!(outcome.to_string().contains("no approver is available"), "{outcome}");
    assert!(host.host.inbox().list().is_empty() && server.seen("tools/call").is_empty());
}

#[tokio::test]
async fn never_is_remembered_and_asks_no_more() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let mut builder = open_inbox(&server);
    builder.options.stance = Stance::Ask;
    let host = builder.start().await;
    host.ready("files").await;
    let request = || CallRequest {
        surface: Surface::Chat,
        ..CallRequest::tool(Caller::Agent("a".into()), "files__write".parse().unwrap(), None)
    };
    let answer = async {
        let never = ApprovalAnswer::Declined {
            why: Some("not here".to_owned()),
            term: ApprovalTerm::Always,
            by: "test".to_owned(),
        };
        host.host.inbox().answer(&item(&host).await.id, InboxAnswer::Approval(never)).unwrap();
    };
    let (outcome, ()) = tokio::join!(host.host.call(request()), answer);
    assert!(outcome.to_string().contains("approval declined: not here"), "{outcome}");
    let again = within("a refusal", host.host.call(request())).await;
    let message = again.message().unwrap().as_str().to_owned();
    let id = message.strip_prefix("denied by policy (saved approval ").and_then(|rest| rest.split(')').next());
    let id = id.unwrap_or_else(|| panic!("{message}"));
    assert!(message.ends_with(&format!("; `toolway trust remove {id}` removes it")), "{message}");
}

#[tokio::test]
async fn one_caller_leaves_places_in_the_inbox_to_others() {
    let server = FixtureServer::new("files").tool("write", "Write");
    let mut builder = open_inbox(&server);
    builder.options.stance = Stance::Ask;
    let host = builder.start().await;
    host.ready("files").await;
    let open = |client: &str, number: usize| {
        let arguments = Raw::of(&json!({ "path": number }));
        let caller = Caller::Client(client.into());
        host.host.open(CallRequest::tool(caller, "files__write".parse().unwrap(), Some(arguments))).outcome()
    };
    let many: Vec<_> =
        (0..60).map(|number| AbortOnDropHandle::new(Handle::current().spawn(open("mallory", number)))).collect();
    let of = |client: &str| {
        let caller = Some(Caller::Client(client.into()));
        host.host.inbox().list().iter().filter(|item| item.caller == caller).count()
    };
    let finished = || many.iter().filter(|call| call.is_finished()).count();
    within("refused calls", async {
        while finished() < 10 || of("mallory") < 50 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((of("mallory"), finished()), (50, 10));
    let _bob = AbortOnDropHandle::new(Handle::current().spawn(open("bob", 1)));
    within("an item of another caller", async {
        while of("bob") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn large_items_of_one_caller_are_bounded_in_bytes() {
    let server = FixtureServer::new("files").tool_that("greet", "Greet", Behaviour::Greet);
    let mut builder = open_inbox(&server);
    let memory = MemoryBudget::new(1_000_000);
    builder.options.limits = Limits { memory: memory.clone(), ..Limits::default() };
    // With a session, clients without capabilities have connections on which the server asks nothing.
    builder.options.servers.iter_mut().for_each(|server| server.era = EraChoice::Modern);
    let host = builder.start().await;
    host.ready("files").await;
    // The share of the caller is used up, that of the server is not.
    let _rest = memory.of_principal("mallory").charge(500_000).unwrap();
    let greet = |client: &str| CallRequest::tool(Caller::Client(client.into()), "files__greet".parse().unwrap(), None);
    drop(within("the call", host.host.open(greet("mallory")).outcome()).await);
    assert!(host.host.inbox().list().is_empty());
    let _bob = AbortOnDropHandle::new(Handle::current().spawn(host.host.open(greet("bob")).outcome()));
    assert_eq!(item(&host).await.caller, Some(Caller::Client("bob".into())));
    assert!(1_000 < memory.used_by(Kept::Inbox));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_requires_a_url_is_sent_again_after_it_was_opened() {
    // Nothing announces the completion: the wait is 30 seconds if nothing was opened, else the life of the item.
    let minutes = Duration::from_secs(600);
    let answers = [
        (ElicitationAnswer::Accept(Map::new()), Duration::from_secs(30), CallState::Succeeded),
        (ElicitationAnswer::Opened, minutes, CallState::Succeeded),
        (ElicitationAnswer::Decline, Duration::ZERO, CallState::Failed),
    ];
    for (answer, waited, state) in answers {
        let server = FixtureServer::new("files").tool_that("connect", "Connect", Behaviour::Connect);
        let host = open_inbox(&server).with_sessions().start().await;
        host.ready("files").await;
        let answering = async {
            let item = item(&host).await;
            assert!(matches!(&item.content, InboxContent::Url { url, .. } if url == "https://a.example/"), "{item:?}");
            host.host.inbox().answer(&item.id, InboxAnswer::Elicitation(answer)).unwrap();
            Instant::now()
        };
        let call = CallRequest::tool(Caller::Terminal, "files__connect".parse().unwrap(), None);
        let (outcome, answered) = tokio::join!(host.host.open(call).outcome(), answering);
        assert_eq!(outcome.state(), state, "{outcome:?}");
        let took = answered.elapsed();
        assert!(waited <= took && took < waited + Duration::from_secs(5), "{took:?}");
        assert_eq!(server.seen("tools/call").len(), if state == CallState::Succeeded { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_call_that_waits_for_its_url_can_be_cancelled() {
    let server = FixtureServer::new("files").tool_that("connect", "Connect", Behaviour::Connect);
    let host = open_inbox(&server).with_sessions().start().await;
    host.ready("files").await;
    let mut relay = host.host.open(CallRequest::tool(Caller::Terminal, "files__connect".parse().unwrap(), None));
    tokio::select! {
        event = relay.next() => panic!("{event:?}"),
        _item = item(&host) => {}
    }
    relay.cancel("enough");
    assert_eq!(within("the end", relay.outcome()).await.state(), CallState::Cancelled);
    assert!(host.host.inbox().list().is_empty());
}
