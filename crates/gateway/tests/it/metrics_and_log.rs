//! Metrics and access log, and what they must not contain.

use std::{io::Write, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::{Config, document::Document};
use toolway_gateway::{
    access::{Access, KeyFile},
    records::{AccessLog, LogFormat, Records},
};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    connection::Phase,
    record::CallLog,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    odd::http::{OddHttp, Reply},
    test_host::{TestHost, name, within},
};

use crate::{raw_client::RawClient, test_gateway::TestGateway};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("echo", "Give it back")
        .tool_that("fail", "Fail", Behaviour::Fail)
        .tool_that("refuse", "Refuse", Behaviour::Refuse)
        .tool_that("wait", "Wait", Behaviour::Wait)
        .tool_that("greet", "Greet", Behaviour::Greet)
}

async fn metrics(raw_client: &RawClient) -> String {
    raw_client.at("/metrics").get().await.text().await
}

#[track_caller]
fn says(metrics: &str, line: &str) {
    assert!(metrics.lines().any(|said| said == line), "{line}\n{metrics}");
}

#[tokio::test]
async fn calls_are_counted_by_server_kind_and_state() {
    let files = files();
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    let caller = gateway.raw_client("/mcp", Some(gateway.key.as_ref().unwrap().expose()));
    for tool in ["files__echo", "files__echo", "files__fail", "files__refuse", "files__nothing", "x"] {
        caller.ask("tools/call", json!({ "name": tool, "arguments": {} })).await;
    }
    caller.ask("prompts/get", json!({ "name": "files__hello" })).await;
    let _session = caller.clone().start_session().await;
    caller.ask("tools/call", json!({ "name": "files__greet" })).await;
    let _waiting = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn({
        let caller = caller.clone();
        async move { caller.ask("tools/call", json!({ "name": "files__wait" })).await }
    }));
    within("the call", files.until_received("tools/call", 6)).await;

    let text = metrics(&caller).await;
    says(&text, r#"toolway_calls_total{server="files",kind="tool",state="succeeded"} 2"#);
    says(&text, r#"toolway_calls_total{server="files",kind="prompt",state="succeeded"} 1"#);
    says(&text, r#"toolway_calls_total{server="files",kind="tool",state="tool-error"} 1"#);
    says(&text, r#"toolway_call_duration_seconds_bucket{le="+Inf",server="files"} 5"#);
    says(&text, r#"toolway_call_duration_seconds_count{server="files"} 5"#);
    says(&text, r#"toolway_server_ready{server="files"} 1"#);
    says(&text, r#"toolway_servers{state="ready"} 1"#);
    says(&text, "toolway_sessions 1");
    says(&text, "toolway_parked_calls 1");
    assert!(text.contains("\ntoolway_calls_under_way "), "{text}");
    assert!(!text.contains("toolway_calls_under_way 0"), "{text}");
    assert!(text.contains(r#"toolway_http_requests_total{route="/mcp",code="2xx"}"#), "{text}");
    says(&text, r#"mcp_tool_executions_total{server="files",tool="echo",status="success"} 2"#);
    // Text from a caller is never a label.
    assert!(!text.contains("nothing"), "{text}");
}

#[tokio::test]
async fn reads_that_an_earlier_result_answers_are_counted() {
    let files = files().keeping(60_000, "private");
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    let minute = Duration::from_secs(60);
    let read = || CallRequest { max_age: minute, ..CallRequest::read(Caller::Agent("one".into()), "files://one") };
    for _ in 0..3 {
        assert!(matches!(gateway.host.call_of(read()).await, CallOutcome::Answered(_)));
    }
    let caller = gateway.raw_client("/mcp", Some(gateway.key.as_ref().unwrap().expose()));
    // A client's own read is always sent.
    caller.ask("resources/read", json!({ "uri": "files://one" })).await;
    let text = metrics(&caller).await;
    says(&text, r#"mcp_resource_cache_hits_total{server="files"} 2"#);
    says(&text, r#"mcp_resources_read_total{server="files"} 4"#);
    assert_eq!(files.seen("resources/read").len(), 2);
}

#[tokio::test]
async fn key_sees_only_the_metrics_of_its_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let all = file.add("operator", None, None).unwrap();
    let one = file.add("editor", None, Some(std::iter::once("mail".parse().unwrap()).collect())).unwrap();
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let builder = TestHost::with(&files(), "files").server("mail", &mail);
    let gateway = TestGateway::open_to(builder, access, None).await;
    gateway.host.ready("files").await;
    gateway.host.ready("mail").await;
    let (operator, editor) =
        (gateway.raw_client("/mcp", Some(all.expose())), gateway.raw_client("/mcp", Some(one.expose())));
    operator.ask("tools/call", json!({ "name": "files__echo" })).await;
    operator.ask("tools/call", json!({ "name": "mail__send" })).await;
    assert!(metrics(&operator).await.contains(r#"server="files""#));
    let text = metrics(&editor).await;
    says(&text, r#"toolway_calls_total{server="mail",kind="tool",state="succeeded"} 1"#);
    for hidden in ["files", "toolway_sessions", "toolway_http_requests_total"] {
        assert!(!text.contains(hidden), "{hidden}\n{text}");
    }
}

#[tokio::test]
async fn connections_refusals_and_catalog_sizes_are_in_the_metrics() {
    let odd = OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer")).await.unwrap();
    let text =
        json!({ "mcpServers": { "closed": { "url": odd.url(), "auth": { "kind": "bearer", "token": "t0ken" } } } });
    let document = Document::of(Path::new("/etc/toolway.json"), &text.to_string()).unwrap();
    let builder = TestHost::with(&files(), "files").config(Config::of(&document, None).unwrap());
    let gateway = TestGateway::with(builder).await;
    gateway.host.ready("files").await;
    gateway.host.until("closed", |phase| matches!(phase, Phase::Failed { .. })).await;
    let caller = gateway.raw_client("/mcp", Some(gateway.key.as_ref().unwrap().expose()));
    let text = metrics(&caller).await;
    says(&text, r#"toolway_connection_attempts_total{server="files"} 1"#);
    says(&text, r#"toolway_connection_failures_total{server="files"} 0"#);
    says(&text, r#"toolway_connection_failures_total{server="closed"} 1"#);
    says(&text, r#"toolway_authorization_failures_total{server="files"} 0"#);
    assert!(!text.contains(r#"toolway_authorization_failures_total{server="closed"} 0"#), "{text}");
    says(&text, r#"toolway_token_refreshes_total{server="closed",outcome="failed"} 0"#);
    says(&text, r#"toolway_catalog_items{server="files",kind="tool"} 5"#);
    assert!(!text.contains(r#"toolway_catalog_items{server="closed""#), "{text}");
}

#[tokio::test]
async fn each_state_of_a_server_is_logged() {
    let buffer = Buffer::default();
    let log = Arc::new(AccessLog::to(Box::new(buffer.clone()), LogFormat::Text).unwrap());
    let records = Arc::new(Records::with_log(log));
    let (access, key) = Access::with_keys(None).unwrap();
    let gateway = TestGateway::recorded(TestHost::with(&files(), "files"), access, key, Arc::clone(&records)).await;
    gateway.host.ready("files").await;
    let states = || async {
        records.flush().await;
        let text = buffer.text();
        text.lines()
            .filter_map(|line| Some(line.split_once("server name=files state=")?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    let until = async |expected: &[&str]| {
        let reached = async {
            while states().await.iter().map(|state| state.split(' ').next().unwrap()).ne(expected.iter().copied()) {
                tokio::task::yield_now().await;
            }
        };
        within(&format!("{expected:?}"), reached).await;
    };
    until(&["\"ready\""]).await;
    // A state that ends at once is seen as well.
    gateway.host.host.disconnect(&name("files")).await.unwrap();
    gateway.host.host.connect(&name("files")).await.unwrap();
    until(&["\"ready\"", "\"stopped\"", "\"connecting\"", "\"ready\""]).await;
}

async fn access_log(form: LogFormat) -> String {
    let buffer = Buffer::default();
    let records = Arc::new(Records::with_log(Arc::new(AccessLog::to(Box::new(buffer.clone()), form).unwrap())));
    let (access, key) = Access::with_keys(None).unwrap();
    let gateway = TestGateway::recorded(TestHost::with(&files(), "files"), access, key, Arc::clone(&records)).await;
    gateway.host.ready("files").await;
    let key = gateway.key.as_ref().unwrap().expose();
    let caller = gateway.raw_client("/mcp", Some(key));
    let secret = json!({ "password": "hunter2" });
    caller.ask("tools/call", json!({ "name": "files__echo", "arguments": secret })).await;
    // The error of the server repeats the arguments.
    caller.ask("tools/call", json!({ "name": "files__refuse", "arguments": secret })).await;
    gateway.raw_client("/servers?key=tw_secret", Some("tw_guess")).get().await;
    caller.at("/servers/none/mcp").get().await;
    records.flush().await;
    let text = buffer.text();
    for hidden in ["hunter2", "password", "tw_", key] {
        assert!(!text.contains(hidden), "{hidden}\n{text}");
    }
    text
}

#[tokio::test]
async fn log_has_a_line_per_call_and_refused_request_without_arguments_and_keys() {
    let text = access_log(LogFormat::Text).await;
    let lines = text.lines().map(|line| line.split_once(' ').unwrap().1);
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("server ")).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[0].starts_with(
            r#"call caller=@first kind=tool name="files__echo" server=files state=succeeded server_requests=0 sent_after_ms="#
        ),
        "{text}"
    );
    assert!(lines[1].contains(r#"name="files__refuse" server=files state="#), "{text}");
    assert!(
        lines[2].starts_with(r#"refused caller=- peer=127.0.0.1 method="GET" path="/servers" status=401 took_ms="#),
        "{text}"
    );
    assert!(
        lines[3]
            .starts_with(r#"refused caller=@first peer=127.0.0.1 method="GET" path="/servers/none/mcp" status=404"#),
        "{text}"
    );
}

#[tokio::test]
async fn json_log_has_one_object_per_line() {
    let text = access_log(LogFormat::Json).await;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: Vec<Value> = lines.filter(|line| line["event"] != "server").collect();
    assert_eq!((&lines[0]["event"], &lines[0]["caller"]), (&"call".into(), &"@first".into()));
    assert_eq!((&lines[0]["server"], &lines[0]["state"]), (&"files".into(), &"succeeded".into()));
    assert!(22 <= lines[0]["argumentBytes"].as_u64().unwrap(), "{text}");
    assert!(0.0 < lines[0]["tookMilliseconds"].as_f64().unwrap(), "{text}");
    assert_eq!(
        (&lines[2]["event"], &lines[2]["status"], &lines[2]["caller"]),
        (&"refused".into(), &401.into(), &Value::Null)
    );
}

#[tokio::test]
async fn blocked_log_does_not_delay_calls() {
    struct Stuck;
    impl Write for Stuck {
        fn write(&mut self, _text: &[u8]) -> std::io::Result<usize> {
            std::thread::sleep(Duration::from_secs(2));
            Err(std::io::Error::other("gone"))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let records = Arc::new(Records::with_log(Arc::new(AccessLog::to(Box::new(Stuck), LogFormat::Text).unwrap())));
    let (access, key) = Access::with_keys(None).unwrap();
    let gateway = TestGateway::recorded(TestHost::with(&files(), "files"), access, key, records).await;
    gateway.host.ready("files").await;
    let caller = gateway.raw_client("/mcp", Some(gateway.key.as_ref().unwrap().expose()));
    let began = std::time::Instant::now();
    for _ in 0..20 {
        caller.ask("tools/call", json!({ "name": "files__echo" })).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Twenty calls that wait for the log would take forty seconds.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
