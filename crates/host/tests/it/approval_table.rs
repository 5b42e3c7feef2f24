//! Deciding through a whole host, as a table: policy, caller, trust, saved approvals and the presence of an approver.

use toolway_config::{Config, Trust, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    connection::{WantedServer, Way},
    policy::{ApprovalAnswer, ApprovalTerm, Surface},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name},
};

/// What was answered for this tool before.
#[derive(Clone, Copy, Debug)]
enum Saved {
    Nothing,
    /// An approval of a call with the same path.
    Always,
    /// An approval of a call with another path.
    AlwaysElsewhere,
    /// A refusal of a call with the same path.
    Never,
    /// A refusal of a call with another path.
    NeverElsewhere,
}

/// The approver.
#[derive(Clone, Copy, Debug)]
enum Approver {
    Absent,
    Yes,
    No,
}

use Approver::{Absent, No, Yes};
use Saved::{Always, AlwaysElsewhere, Never, NeverElsewhere, Nothing};

const NONE: &str = "{}";
const ASK: &str = r#"{"rules": [{"then": "ask"}]}"#;
const WRITES: &str = r#"{"rules": [{"then": "writes"}]}"#;
const ALLOW: &str = r#"{"rules": [{"then": "allow"}]}"#;
const DENY: &str = r#"{"rules": [{"then": "deny"}]}"#;
const ASK_AGENTS: &str = r#"{"rules": [{"match": {"caller": "agent"}, "then": "ask"}]}"#;
const ASK_ETC: &str = r#"{"rules": [{"match": {"arguments": {"/path": "/etc/*"}}, "then": "ask"}]}"#;
const MODE_ASK: &str = r#"{"mode": "ask"}"#;
const ASK_AND_ALLOW: &str = r#"{"mode": "ask", "rules": [{"then": "allow"}]}"#;
const MODE_WRITES: &str = r#"{"mode": "writes"}"#;
const MODE_ALLOW: &str = r#"{"mode": "allow"}"#;

/// Policy, caller (`terminal`, `chat`, `run`, `client`), trust, saved answer, approver; then the outcome, and whether
/// the approver was asked.
type Row = (&'static str, &'static str, Trust, Saved, Approver, &'static str, bool);

const TABLE: &[Row] = &[
    // Defaults of the surfaces.
    (NONE, "terminal", Trust::Read, Nothing, Absent, "sent", false),
    (NONE, "terminal", Trust::Untrusted, Nothing, Absent, "sent", false),
    (NONE, "client", Trust::Read, Nothing, Absent, "sent", false),
    (NONE, "chat", Trust::Read, Nothing, Absent, "no_approver", true),
    (NONE, "chat", Trust::Read, Nothing, Yes, "sent", true),
    (NONE, "chat", Trust::Read, Nothing, No, "declined", true),
    (NONE, "chat", Trust::Full, Nothing, Absent, "sent", false),
    (NONE, "chat", Trust::Untrusted, Nothing, Yes, "sent", true),
    (NONE, "run", Trust::Read, Nothing, Absent, "no_approver", true),
    (NONE, "run", Trust::Full, Nothing, Absent, "sent", false),
    // Saved approvals lift `ask`, saved refusals end it.
    (NONE, "chat", Trust::Read, Always, Absent, "sent", false),
    (NONE, "chat", Trust::Read, Never, Yes, "denied", false),
    // Where no person is present, a rule is needed.
    (NONE, "run", Trust::Read, Always, Absent, "no_approver", true),
    (NONE, "run", Trust::Read, Never, Absent, "denied", false),
    (ASK, "terminal", Trust::Read, Always, Absent, "sent", false),
    (ASK, "client", Trust::Read, Always, Absent, "sent", false),
    (ASK, "client", Trust::Read, Never, Yes, "denied", false),
    // A saved approval covers the same path, a saved refusal all arguments.
    (NONE, "chat", Trust::Read, AlwaysElsewhere, Yes, "sent", true),
    (NONE, "chat", Trust::Read, AlwaysElsewhere, No, "declined", true),
    (NONE, "chat", Trust::Read, AlwaysElsewhere, Absent, "no_approver", true),
    (NONE, "run", Trust::Read, AlwaysElsewhere, Absent, "no_approver", true),
    (NONE, "chat", Trust::Full, AlwaysElsewhere, Absent, "sent", false),
    (ASK, "terminal", Trust::Read, AlwaysElsewhere, No, "declined", true),
    (ASK, "client", Trust::Read, AlwaysElsewhere, Yes, "sent", true),
    (ASK_ETC, "terminal", Trust::Read, AlwaysElsewhere, No, "declined", true),
    (ASK_ETC, "terminal", Trust::Read, Always, Absent, "sent", false),
    (MODE_ASK, "run", Trust::Full, AlwaysElsewhere, Absent, "no_approver", true),
    (DENY, "chat", Trust::Full, AlwaysElsewhere, Yes, "denied", false),
    (NONE, "chat", Trust::Read, NeverElsewhere, Yes, "denied", false),
    (ASK, "client", Trust::Read, NeverElsewhere, Yes, "denied", false),
    // A saved refusal refuses what is allowed, too.
    (ALLOW, "chat", Trust::Read, Never, Absent, "denied", false),
    (ALLOW, "run", Trust::Full, Never, Absent, "denied", false),
    (NONE, "terminal", Trust::Read, Never, Absent, "denied", false),
    (NONE, "client", Trust::Full, NeverElsewhere, Absent, "denied", false),
    (MODE_ALLOW, "run", Trust::Full, NeverElsewhere, Absent, "denied", false),
    (WRITES, "run", Trust::Full, Never, Absent, "denied", false),
    // A deny wins over everything.
    (DENY, "terminal", Trust::Full, Always, Yes, "denied", false),
    (DENY, "chat", Trust::Full, Always, Yes, "denied", false),
    (DENY, "run", Trust::Full, Always, Yes, "denied", false),
    (DENY, "client", Trust::Full, Always, Yes, "denied", false),
    // Rules replace defaults.
    (ASK, "terminal", Trust::Full, Nothing, Absent, "no_approver", true),
    (ASK, "terminal", Trust::Full, Nothing, Yes, "sent", true),
    (ASK, "client", Trust::Read, Nothing, No, "declined", true),
    (WRITES, "client", Trust::Read, Nothing, Yes, "sent", true),
    (WRITES, "client", Trust::Full, Nothing, Absent, "sent", false),
    (ALLOW, "run", Trust::Untrusted, Nothing, Absent, "sent", false),
    (ASK_AGENTS, "chat", Trust::Full, Nothing, No, "declined", true),
    (ASK_AGENTS, "terminal", Trust::Read, Nothing, Absent, "sent", false),
    (ASK_ETC, "terminal", Trust::Full, Nothing, No, "declined", true),
    (ASK_ETC, "chat", Trust::Full, Nothing, Yes, "sent", true),
    // Modes replace defaults.
    (MODE_ASK, "terminal", Trust::Full, Nothing, Yes, "sent", true),
    (MODE_ASK, "client", Trust::Full, Nothing, Absent, "no_approver", true),
    // Mode `ask` asks about every call, whatever was saved.
    (MODE_ASK, "run", Trust::Full, Always, Absent, "no_approver", true),
    (MODE_ASK, "chat", Trust::Full, Always, Yes, "sent", true),
    (MODE_ASK, "chat", Trust::Full, Never, Yes, "denied", false),
    (ASK_AND_ALLOW, "terminal", Trust::Full, Nothing, No, "declined", true),
    (MODE_WRITES, "terminal", Trust::Read, Nothing, No, "declined", true),
    (MODE_WRITES, "client", Trust::Full, Nothing, Absent, "sent", false),
    (MODE_ALLOW, "chat", Trust::Untrusted, Nothing, Absent, "sent", false),
    (MODE_ALLOW, "run", Trust::Untrusted, Never, Absent, "denied", false),
];

fn request(caller: &str, path: &str) -> CallRequest {
    let (caller, surface) = match caller {
        "terminal" => (Caller::Terminal, Surface::Call),
        "chat" => (Caller::Agent("a".into()), Surface::Chat),
        "run" => (Caller::Agent("a".into()), Surface::Run),
        _ => (Caller::Client("editor".into()), Surface::Gateway),
    };
    let arguments = toolway_wire::json::Raw::of(&serde_json::json!({ "path": path, "text": "new" }));
    CallRequest { surface, ..CallRequest::tool(caller, "files__write".parse().unwrap(), Some(arguments)) }
}

/// Path of the call that a row decides.
const PATH: &str = "/etc/hosts";

fn config(policy: &str) -> Config {
    let text = format!(r#"{{"policy": {policy}}}"#);
    Config::of(&Document::of("/toolway.json".as_ref(), &text).unwrap(), None).unwrap()
}

async fn host(server: &FixtureServer, policy: &str, trust: Trust) -> TestHost {
    let wanted = WantedServer::new(name("files"), Way::InProcess(server.service()));
    let host = TestHost::new().config(config(policy)).wanted(WantedServer { trust, ..wanted }).start().await;
    host.ready("files").await;
    host
}

/// Saves an answer as a user would: by giving it.
async fn save(host: &TestHost, caller: &str, path: &str, answer: ApprovalAnswer) {
    host.host.reload(&config(ASK)).unwrap();
    host.answering(answer);
    drop(host.host.call(request(caller, path)).await);
}

#[tokio::test]
async fn every_row_decides_as_the_table_says() {
    for row @ (policy, caller, trust, saved, approver, expected, asked) in TABLE {
        let server = FixtureServer::new("files").tool("write", "Write");
        let host = host(&server, policy, *trust).await;
        let always = |by: &str| ApprovalAnswer::approved_for(ApprovalTerm::Always, by);
        let never = || ApprovalAnswer::never("test");
        match saved {
            Nothing => {}
            Always => save(&host, caller, PATH, always("test")).await,
            AlwaysElsewhere => save(&host, caller, "/tmp/notes", always("test")).await,
            Never => save(&host, caller, PATH, never()).await,
            NeverElsewhere => save(&host, caller, "/tmp/notes", never()).await,
        }
        host.host.reload(&config(policy)).unwrap();
        host.ready("files").await;
        let (before, sent_before) = (host.asked().len(), server.seen("tools/call").len());
        host.answering(match approver {
            Absent => ApprovalAnswer::Unavailable,
            Yes => ApprovalAnswer::approved("test"),
            No => ApprovalAnswer::declined(None, "test"),
        });
        let outcome = host.host.call(request(caller, PATH)).await;
        let word = match &outcome {
            CallOutcome::Answered(_) => "sent",
            CallOutcome::Refused(refusal) => refusal.code(),
            other => panic!("{row:?}: {other}"),
        };
        assert_eq!((word, host.asked().len() > before), (*expected, *asked), "{row:?}");
        assert_eq!(server.seen("tools/call").len() - sent_before, usize::from(word == "sent"), "{row:?}");
    }
}

#[test]
fn the_tables_have_at_least_eighty_rows() {
    let rules = include_str!("../../src/policy/tests.rs").matches(".is(\"").count();
    assert!(TABLE.len() + rules >= 80, "{} + {rules}", TABLE.len());
}
