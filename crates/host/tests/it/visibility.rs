//! Servers hidden from a caller, and servers that require sign-in.

use serde_json::json;
use toolway_config::server::{Standing, Start};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, CallerContext, Completion, CompletionOf, Target, VisibleServers},
    catalog::Origin,
    connection::{Phase, StopReason, WantedServer, Way},
    policy::{ApprovalAnswer, Stance},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    odd::http::{OddHttp, Reply},
    test_host::{TestHost, name, within},
};
use toolway_wire::json::Raw;

use crate::fixtures;

fn eve() -> CallerContext {
    let visible: VisibleServers = [name("seen")].into_iter().collect();
    CallerContext { visible, ..CallerContext::from(&Caller::Client("eve".into())) }
}

fn origin(server: &str, raw_name: &str) -> Origin {
    Origin { server: name(server), raw_name: raw_name.to_owned() }
}

async fn locked() -> OddHttp {
    OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer")).await.unwrap()
}

async fn called(host: &TestHost, target: Target) -> CallOutcome {
    let CallerContext { caller, visible, .. } = eve();
    host.call_of(CallRequest { visible, ..CallRequest::new(caller, target) }).await
}

async fn completed(host: &TestHost, of: CompletionOf) -> CallOutcome {
    let (argument, value) = ("who".to_owned(), "A".to_owned());
    let completion = Completion { caller_context: eve(), of, argument, value, known: None };
    within("a completion", host.host.complete(completion)).await.map_or_else(|outcome| outcome, CallOutcome::Answered)
}

/// Every kind of request to a server of this name with the items of the fixture `files`.
async fn all(host: &TestHost, server: &str) -> Vec<String> {
    let mut outcomes = Vec::new();
    for tool in ["secret", "secre", "x"] {
        let public = format!("{server}__{tool}").parse().unwrap();
        outcomes.push(called(host, Target::Tool(public)).await);
    }
    let public = || format!("{server}__hello").parse().unwrap();
    outcomes.push(called(host, Target::Prompt(public())).await);
    outcomes.push(called(host, Target::ToolOf(origin(server, "secret"))).await);
    outcomes.push(called(host, Target::PromptOf(origin(server, "hello"))).await);
    outcomes.push(called(host, Target::ResourceOf(origin(server, "files://one"))).await);
    outcomes.push(called(host, Target::Resource(format!("toolway+{server}:files://one"))).await);
    let method = "tools/call".to_owned();
    outcomes.push(called(host, Target::Method { server: name(server), method }).await);
    outcomes.push(completed(host, CompletionOf::Prompt(public())).await);
    outcomes.push(completed(host, CompletionOf::PromptOf(origin(server, "hello"))).await);
    outcomes.push(completed(host, CompletionOf::TemplateOf(origin(server, "files://one"))).await);
    let resources = [Target::Resource(format!("toolway+{server}:x://y")), Target::ResourceOf(origin(server, "x://y"))];
    for resource in resources {
        outcomes.push(within("a subscription", host.host.subscribe(eve(), resource)).await.map(drop).unwrap_err());
    }
    outcomes.push(within("tasks", host.host.tasks(eve(), &name(server), None)).await.map(drop).unwrap_err());
    outcomes.push(within("a ping", host.host.ping(eve(), &name(server))).await.unwrap_err());
    outcomes.into_iter().map(|outcome| outcome.to_string().replace(server, "SERVER")).collect()
}

#[tokio::test]
async fn hidden_server_is_refused_like_an_unknown_one() {
    let (files, locked) = (FixtureServer::new("files").tool("secret", "Tell it"), locked().await);
    let in_process = |server: &str| WantedServer::new(name(server), Way::InProcess(files.service()));
    let host = TestHost::with(&FixtureServer::new("seen").tool("echo", "Give it back"), "seen")
        .wanted(in_process("ready"))
        .wanted(WantedServer { start: Start::WhenNeeded, ..in_process("lazy") })
        .wanted(WantedServer { standing: Standing::Disabled, ..in_process("off") })
        .wanted(fixtures::address("locked", &locked.url()))
        .start()
        .await;
    host.ready("seen").await;
    host.ready("ready").await;
    host.until("locked", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    let absent = all(&host, "none").await;
    assert!(absent.iter().all(|said| said.starts_with("refused: unknown ")), "{absent:?}");
    for server in ["ready", "lazy", "off", "locked"] {
        assert_eq!(all(&host, server).await, absent, "{server}");
    }
    // By a URI alone, which does not name the server.
    let [listed, unlisted] = ["files://one", "files://two"].map(|uri| Target::Resource(uri.to_owned()));
    assert_eq!(called(&host, listed).await.to_string(), "refused: unknown resource `files://one`");
    assert_eq!(called(&host, unlisted).await.to_string(), "refused: unknown resource `files://two`");
    for method in ["tools/call", "prompts/get", "resources/read", "completion/complete", "ping"] {
        assert!(files.seen(method).is_empty(), "{method}");
    }
    assert_eq!(host.status("lazy").phase, Phase::Stopped(StopReason::NotNeededYet), "the server was not started");
    assert!(host.records().iter().all(|record| record.state == CallState::Refused && record.server.is_none()));
}

#[tokio::test]
async fn approval_is_not_requested_before_sign_in() {
    let locked = locked().await;
    let host = TestHost::new()
        .wanted(fixtures::address("seen", &locked.url()))
        .asking(ApprovalAnswer::approved("test"))
        .start()
        .await;
    host.until("seen", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    let said = all(&host, "seen").await;
    for said in &said {
        assert_eq!(said, "failed: `SERVER` is not connected: sign-in required");
    }
    assert_eq!(host.asked(), [] as [&str; 0]);
}

#[tokio::test]
async fn rule_applies_before_sign_in() {
    let locked = locked().await;
    let mut builder = TestHost::new().wanted(fixtures::address("seen", &locked.url()));
    builder.options.stance = Stance::Deny;
    let host = builder.start().await;
    host.until("seen", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    let params = Some(Raw::of(&json!({})));
    let request = CallRequest { arguments: params, ..host.request("seen__x", None) };
    assert_eq!(host.call_of(request).await.to_string(), "refused: denied by policy");
}
