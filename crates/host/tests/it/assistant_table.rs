//! Deciding about calls of assistants through a whole host, as a table: approval, policy, trust, hints, saved answers, and
//! the presence of an approver.

use std::sync::Arc;

use serde_json::json;
use toolway_config::{Approval, Config, ProjectRules, Trust, TrustLists, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    connection::{WantedServer, Way},
    policy::{ApprovalAnswer, ApprovalTerm, AssistantApproval, AssistantPolicy, Surface},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name},
};
use toolway_wire::json::Raw;

/// Columns: surface; configured approval, `;` stored approval (`-`: none) with `+TOOL` for trusted tools; tool; trust of the
/// server (with `folder`); the user's policy (`mode MODE`, effects for all calls); the project's; saved answer; the approver's answer (`-`:
/// no person can approve); outcome; whether the approver was asked.
const TABLE: &str = "
# Without a mode and rules the approval takes the place of the default.
chat | always-ask                  | read  | full        | -           | -    | -      | yes | sent        | asked
chat | always-ask                  | read  | full        | -           | -    | -      | -   | no_approver | asked
chat | always-ask                  | write | read        | -           | -    | -      | no  | declined    | asked
run  | always-ask                  | read  | full        | -           | -    | -      | -   | no_approver | asked
run  | always-ask+files.*          | read  | full        | -           | -    | -      | -   | no_approver | asked
page | always-ask                  | read  | read        | -           | -    | -      | yes | sent        | asked
chat | trusted-only                | write | full        | -           | -    | -      | -   | sent        | quiet
chat | trusted-only                | read  | read        | -           | -    | -      | -   | no_approver | asked
chat | trusted-only                | read  | read        | -           | -    | -      | yes | sent        | asked
run  | trusted-only                | read  | read        | -           | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read        | -           | -    | -      | -   | sent        | quiet
run  | trusted-only+files.write    | read  | read        | -           | -    | -      | -   | no_approver | asked
run  | trusted-only+files.wri*     | write | read        | -           | -    | -      | -   | sent        | quiet
run  | trusted-only+*.write        | write | read        | -           | -    | -      | -   | sent        | quiet
run  | trusted-only+files.writ     | write | read        | -           | -    | -      | -   | no_approver | asked
run  | trusted-only+files.Write    | write | read        | -           | -    | -      | -   | no_approver | asked
run  | trusted-only+file.write     | write | read        | -           | -    | -      | -   | no_approver | asked
page | trusted-only+files.write    | write | read        | -           | -    | -      | -   | sent        | quiet
chat | auto                        | write | read        | -           | -    | -      | -   | sent        | quiet
run  | auto                        | write | untrusted   | -           | -    | -      | -   | sent        | quiet
page | auto                        | write | read        | -           | -    | -      | -   | sent        | quiet
# A server may be trusted by its name only if its name is the user's.
run  | trusted-only+files.write    | write | untrusted   | -           | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read folder | -           | -    | -      | -   | no_approver | asked
run  | trusted-only                | write | full folder | -           | -    | -      | -   | sent        | quiet
# Never looser than the mode.
chat | auto                        | write | read        | mode ask    | -    | -      | no  | declined    | asked
chat | auto                        | read  | full        | mode ask    | -    | always | no  | declined    | asked
run  | auto                        | write | read        | mode writes | -    | -      | -   | no_approver | asked
run  | auto                        | read  | read        | mode writes | -    | -      | -   | sent        | quiet
run  | auto                        | write | read        | mode allow  | -    | -      | -   | sent        | quiet
run  | trusted-only+files.write    | write | read        | mode ask    | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read        | mode writes | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | full        | mode writes | -    | -      | -   | sent        | quiet
run  | trusted-only                | read  | read        | mode writes | -    | -      | -   | no_approver | asked
run  | trusted-only                | write | read        | mode allow  | -    | -      | -   | no_approver | asked
run  | always-ask                  | read  | full        | mode allow  | -    | -      | -   | no_approver | asked
run  | always-ask                  | read  | full        | mode writes | -    | -      | -   | no_approver | asked
# Never looser than the rules of both files.
run  | auto                        | write | full        | ask         | -    | -      | -   | no_approver | asked
run  | auto                        | write | full        | deny        | -    | -      | -   | denied      | quiet
run  | auto                        | write | read        | writes      | -    | -      | -   | no_approver | asked
run  | auto                        | write | full        | -           | ask  | -      | -   | no_approver | asked
run  | auto                        | write | full        | allow       | deny | -      | -   | denied      | quiet
run  | trusted-only+files.write    | write | read        | ask         | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read        | deny        | -    | -      | -   | denied      | quiet
run  | trusted-only+files.write    | write | read        | writes      | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read        | -           | deny | -      | -   | denied      | quiet
run  | always-ask                  | write | full        | deny        | -    | -      | -   | denied      | quiet
# A rule that allows does not make an assistant looser.
run  | trusted-only                | write | read        | allow       | -    | -      | -   | no_approver | asked
run  | trusted-only+files.write    | write | read        | allow       | -    | -      | -   | sent        | quiet
run  | always-ask                  | read  | full        | allow       | -    | -      | -   | no_approver | asked
run  | auto                        | write | read        | allow       | -    | -      | -   | sent        | quiet
# Saved answers lift what a trusted-only assistant asks about where a person is present, and nothing of always-ask.
chat | trusted-only                | write | read        | -           | -    | always | no  | sent        | quiet
run  | trusted-only                | write | read        | -           | -    | always | -   | no_approver | asked
chat | always-ask                  | write | read        | -           | -    | always | no  | declined    | asked
chat | always-ask                  | write | read        | -           | -    | always | yes | sent        | asked
chat | always-ask                  | write | full        | allow       | -    | always | no  | declined    | asked
chat | auto                        | write | read        | ask         | -    | always | no  | sent        | quiet
chat | auto                        | write | read        | -           | -    | never  | yes | denied      | quiet
chat | trusted-only+files.write    | write | read        | -           | -    | never  | yes | denied      | quiet
chat | trusted-only                | write | full        | -           | -    | never  | yes | denied      | quiet
chat | always-ask                  | write | read        | -           | -    | never  | yes | denied      | quiet
# A conversation that goes on: the stricter of what is stored and what is configured.
chat | auto;always-ask             | read  | full        | -           | -    | -      | no  | declined    | asked
chat | always-ask;auto             | read  | full        | -           | -    | -      | no  | declined    | asked
chat | always-ask;auto             | write | read        | -           | -    | always | no  | declined    | asked
run  | auto;trusted-only           | write | read        | -           | -    | -      | -   | no_approver | asked
run  | trusted-only;auto           | write | read        | -           | -    | -      | -   | no_approver | asked
run  | auto;auto                   | write | read        | -           | -    | -      | -   | sent        | quiet
run  | trusted-only+files.write;trusted-only             | write | read | - | - | - | -   | no_approver | asked
run  | trusted-only;trusted-only+files.write             | write | read | - | - | - | -   | no_approver | asked
run  | trusted-only+files.write;trusted-only+files.write | write | read | - | - | - | -   | sent        | quiet
# An assistant that is no longer configured allows nothing that is not allowed without it.
run  | -;auto                      | write | read        | -           | -    | -      | -   | no_approver | asked
run  | -;auto                      | read  | read        | -           | -    | -      | -   | sent        | quiet
run  | -;auto                      | write | read        | mode allow  | -    | -      | -   | sent        | quiet
run  | -;trusted-only+files.write  | write | read        | -           | -    | -      | -   | no_approver | asked
run  | -;trusted-only              | read  | read        | -           | -    | -      | -   | no_approver | asked
run  | -;always-ask                | read  | full        | mode allow  | -    | -      | -   | no_approver | asked
";

/// One line.
struct Row {
    surface: Surface,
    assistant: Arc<AssistantPolicy>,
    tool: &'static str,
    trust: Trust,
    folder: Option<Trust>,
    config: Config,
    saved: &'static str,
    approver: ApprovalAnswer,
    outcome: &'static str,
    asked: bool,
}

fn approval(text: &str) -> Option<AssistantApproval> {
    let mut parts = text.split('+');
    let approval = parts.next().filter(|word| *word != "-").map(|word| Approval::parse(word).unwrap())?;
    Some(AssistantApproval { approval, trusted_tools: parts.map(|tool| tool.parse().unwrap()).collect() })
}

fn config(user: &str, project: &str) -> Config {
    let read = |text: &str| {
        let policy = match text.split_once(' ') {
            Some(("mode", mode)) => json!({ "mode": mode }),
            _ if text == "-" => json!({}),
            _ => json!({ "rules": [{ "then": text }] }),
        };
        let text = json!({ "policy": policy }).to_string();
        Config::of(&Document::of("/toolway.json".as_ref(), &text).unwrap(), None).unwrap()
    };
    let mut config = read(user);
    config.settings.policy.project = ProjectRules::new(read(project).settings.policy.user).unwrap();
    config
}

fn row(line: &'static str) -> Row {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [surface, approvals, tool, trust, user, project, saved, approver, outcome, asked] = columns[..] else {
        panic!("{line}")
    };
    let surface = if surface == "page" { Surface::Console } else { Surface::parse(surface).unwrap() };
    let mut approvals = approvals.split(';');
    let configured = approvals.next().and_then(approval);
    let stored = approvals.next().and_then(approval);
    let (trust, folder) = trust.split_once(' ').map_or((trust, false), |(trust, _)| (trust, true));
    let trust = Trust::parse(trust).unwrap();
    Row {
        surface,
        assistant: Arc::new(AssistantPolicy { name: "helper".into(), configured, stored }),
        tool,
        trust,
        folder: folder.then_some(trust),
        config: config(user, project),
        saved,
        approver: match approver {
            "yes" => ApprovalAnswer::approved("test"),
            "no" => ApprovalAnswer::declined(None, "test"),
            _ => ApprovalAnswer::Unavailable,
        },
        outcome,
        asked: asked == "asked",
    }
}

impl Row {
    fn request(&self) -> CallRequest {
        let arguments = Raw::of(&json!({ "path": "/etc/hosts" }));
        let tool = format!("files__{}", self.tool).parse().unwrap();
        let call = CallRequest::tool(Caller::Agent("a".into()), tool, Some(arguments));
        CallRequest { surface: self.surface, ..call }
    }
}

#[tokio::test]
async fn every_row_decides_as_the_table_says() {
    let lines: Vec<_> = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(60 <= lines.len(), "{} rows", lines.len());
    for line in lines {
        let row = row(line);
        let server = FixtureServer::new("files").tool("write", "Write");
        let server = server.annotated("read", &json!({ "readOnlyHint": true }), Behaviour::Echo);
        let lists = TrustLists { folder: row.folder, ..TrustLists::NONE };
        let wanted = WantedServer::new(name("files"), Way::InProcess(server.service()));
        let wanted = WantedServer { trust: row.trust, trust_lists: Arc::new(lists), ..wanted };
        let host = TestHost::new().config(config("ask", "-")).wanted(wanted).start().await;
        host.ready("files").await;
        if row.saved != "-" {
            host.answering(match row.saved {
                "always" => ApprovalAnswer::approved_for(ApprovalTerm::Always, "test"),
                _ => ApprovalAnswer::never("test"),
            });
            // As a user would: without an assistant, which may ask always.
            drop(host.host.call(CallRequest { surface: Surface::Chat, ..row.request() }).await);
        }
        host.host.reload(&row.config).unwrap();
        host.ready("files").await;
        let before = host.asked().len();
        let sent_before = server.seen("tools/call").len();
        host.answering(row.approver.clone());
        let assistant = Some(Arc::clone(&row.assistant));
        let outcome = host.host.call(CallRequest { assistant, ..row.request() }).await;
        let word = match &outcome {
            CallOutcome::Answered(_) => "sent",
            CallOutcome::Refused(refusal) => refusal.code(),
            other => panic!("{line}: {other}"),
        };
        assert_eq!((word, host.asked().len() > before), (row.outcome, row.asked), "{line}: {outcome}");
        assert_eq!(server.seen("tools/call").len() - sent_before, usize::from(word == "sent"), "{line}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_assistant_and_the_command_that_would_allow_the_call_if_one_does() {
    let said = async |line: &'static str| {
        let row = row(line);
        let server = FixtureServer::new("files").tool("write", "Write");
        let wanted = WantedServer::new(name("files"), Way::InProcess(server.service()));
        let host = TestHost::new().config(row.config.clone());
        let host = host.wanted(WantedServer { trust: row.trust, ..wanted }).start().await;
        host.ready("files").await;
        host.answering(ApprovalAnswer::Unavailable);
        let assistant = Some(Arc::clone(&row.assistant));
        host.host.call(CallRequest { assistant, ..row.request() }).await.message().unwrap().as_str().to_owned()
    };
    let trusted = said("run | trusted-only | write | read | - | - | - | - | - | -").await;
    assert!(trusted.contains("(approval `trusted-only` of assistant `helper`)"), "{trusted}");
    assert!(trusted.ends_with("allow it with `toolway assistants set helper --trust-tool files.write`"), "{trusted}");
    for line in [
        "run | always-ask | write | read | - | - | - | - | - | -",
        "run | trusted-only | write | untrusted | - | - | - | - | - | -",
        "run | trusted-only;trusted-only | write | read | - | - | - | - | - | -",
        "run | trusted-only | write | read | ask | - | - | - | - | -",
    ] {
        let refused = said(line).await;
        assert!(!refused.contains("allow it with"), "{line}: {refused}");
    }
    let rule = said("run | auto | write | read | ask | - | - | - | - | -").await;
    assert!(rule.ends_with("`toolway policy allow files.write --caller agent`"), "{rule}");
}
