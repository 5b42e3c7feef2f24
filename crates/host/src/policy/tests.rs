//! Deciding, as a table: surfaces, modes, trust, annotations, rules, arguments.

use toolway_config::{Config, document::Document};
use toolway_wire::json::Raw;

use super::*;
use crate::catalog::filter::Switch;

/// A request and what is expected of it. Members that a row does not name have these values.
struct Row {
    caller: Caller,
    surface: Surface,
    kind: CallKind,
    server: &'static str,
    tool: &'static str,
    trust: Trust,
    annotations: &'static str,
    arguments: &'static str,
    /// `policy` of the user's file.
    user: &'static str,
    /// `policy` of the project's file.
    project: &'static str,
}

fn row() -> Row {
    Row {
        caller: Caller::Agent("a".into()),
        surface: Surface::Chat,
        kind: CallKind::Tool,
        server: "files",
        tool: "write_file",
        trust: Trust::Read,
        annotations: "{}",
        arguments: "{}",
        user: "{}",
        project: "{}",
    }
}

fn files(policy: &str, path: &str) -> toolway_config::PolicySettings {
    let text = format!(r#"{{"policy": {policy}}}"#);
    Config::of(&Document::of(path.as_ref(), &text).unwrap(), None).unwrap().settings.policy
}

impl Row {
    fn policy(&self) -> Policy {
        let mut settings = files(self.user, "/home/toolway.json");
        settings.files.extend(files(self.project, "/project/toolway.json").files);
        Policy::new(Stance::BySurface, &settings)
    }

    fn verdict(&self) -> Verdict {
        let server = self.server.parse().unwrap();
        let subject = Subject { server, kind: self.kind, raw_name: self.tool.to_owned() };
        let annotations = match self.kind {
            CallKind::Tool => Annotations::of_tool(Some(&Raw::parse(self.annotations).unwrap())),
            kind => Annotations::of_kind(kind, self.tool),
        };
        let arguments = Raw::parse(self.arguments).unwrap();
        let (caller, surface, trust) = (&self.caller, self.surface, self.trust);
        let input = PolicyInput { caller, surface, subject: &subject, trust, annotations, arguments: Some(&arguments) };
        self.policy().evaluate(&input)
    }

    #[track_caller]
    fn is(&self, expected: &str) {
        assert_eq!(self.verdict().effect.as_str(), expected);
    }
}

const READS: &str = r#"{"readOnlyHint": true}"#;
const DESTROYS: &str = r#"{"destructiveHint": true}"#;

#[test]
fn defaults_depend_on_the_surface() {
    let client = || Caller::Client("editor".into());
    Row { caller: Caller::Terminal, surface: Surface::Call, ..row() }.is("allow");
    Row { caller: Caller::Terminal, surface: Surface::Call, annotations: DESTROYS, ..row() }.is("allow");
    Row { caller: Caller::Terminal, surface: Surface::Call, trust: Trust::Untrusted, ..row() }.is("allow");
    Row { surface: Surface::Chat, ..row() }.is("ask");
    Row { surface: Surface::Chat, annotations: READS, ..row() }.is("allow");
    Row { surface: Surface::Run, ..row() }.is("ask");
    Row { surface: Surface::Run, annotations: READS, ..row() }.is("allow");
    Row { caller: client(), surface: Surface::Gateway, ..row() }.is("allow");
    Row { caller: client(), surface: Surface::Gateway, annotations: DESTROYS, ..row() }.is("allow");
    Row { caller: Caller::Console, surface: Surface::Console, ..row() }.is("allow");
    Row { surface: Surface::Console, ..row() }.is("ask");
    Row { surface: Surface::Console, annotations: READS, ..row() }.is("allow");
    Row { caller: Caller::Program, surface: Surface::Library, ..row() }.is("allow");
}

#[test]
fn writes_asks_unless_the_server_is_trusted_and_the_tool_reads() {
    for (trust, annotations, expected) in [
        (Trust::Untrusted, "{}", "ask"),
        (Trust::Untrusted, READS, "ask"),
        (Trust::Untrusted, DESTROYS, "ask"),
        (Trust::Read, "{}", "ask"),
        (Trust::Read, READS, "allow"),
        (Trust::Read, DESTROYS, "ask"),
        (Trust::Full, "{}", "allow"),
        (Trust::Full, READS, "allow"),
        (Trust::Full, DESTROYS, "allow"),
    ] {
        Row { trust, annotations, ..row() }.is(expected);
        Row { trust, annotations, surface: Surface::Run, ..row() }.is(expected);
    }
}

#[test]
fn resources_and_prompts_read() {
    Row { kind: CallKind::Resource, tool: "file:///a", ..row() }.is("allow");
    Row { kind: CallKind::Prompt, tool: "review", ..row() }.is("allow");
    Row { kind: CallKind::Resource, tool: "file:///a", trust: Trust::Untrusted, ..row() }.is("ask");
    Row { kind: CallKind::Method, tool: "completion/complete", ..row() }.is("allow");
    Row { kind: CallKind::Method, tool: "resources/list", ..row() }.is("allow");
    Row { kind: CallKind::Method, tool: "admin/reset", ..row() }.is("ask");
    Row { kind: CallKind::Method, tool: "resources/delete", ..row() }.is("ask");
    Row { kind: CallKind::Method, tool: "prompts/delete/list", ..row() }.is("ask");
}

#[test]
fn modes_replace_the_default_of_every_surface() {
    for (mode, plain, reads) in
        [("interactive", "ask", "ask"), ("restricted", "ask", "allow"), ("full", "allow", "allow")]
    {
        let user: &'static str = Box::leak(format!(r#"{{"mode": "{mode}"}}"#).into_boxed_str());
        for surface in Surface::ALL {
            Row { surface, user, ..row() }.is(plain);
            Row { surface, user, annotations: READS, ..row() }.is(reads);
        }
    }
}

#[test]
fn the_first_matching_rule_of_a_file_decides() {
    let user = r#"{"rules": [
        {"match": {"tool": "write_*"}, "then": "allow"},
        {"match": {"server": "files"}, "then": "deny"}]}"#;
    Row { user, ..row() }.is("allow");
    Row { user, tool: "move_file", ..row() }.is("deny");
    Row { user, server: "mail", tool: "send", ..row() }.is("ask");
}

#[test]
fn the_strictest_file_counts_and_a_deny_cannot_be_lifted() {
    let all =
        |then: &str| -> &'static str { Box::leak(format!(r#"{{"rules": [{{"then": "{then}"}}]}}"#).into_boxed_str()) };
    let order = ["allow", "writes", "ask", "deny"];
    for (i, user) in order.iter().enumerate() {
        for (j, project) in order.iter().enumerate() {
            let strictest = order[i.max(j)];
            let expected = if strictest == "writes" { "ask" } else { strictest };
            Row { user: all(user), project: all(project), ..row() }.is(expected);
        }
    }
    // A rule of one file counts alone where the other has none that matches.
    let elsewhere = r#"{"rules": [{"match": {"server": "mail"}, "then": "deny"}]}"#;
    Row { user: all("allow"), project: elsewhere, ..row() }.is("allow");
    Row { user: r#"{"mode": "full"}"#, project: all("deny"), ..row() }.is("deny");
}

#[test]
fn every_condition_must_hold() {
    let denies = |matches: &str| -> &'static str {
        Box::leak(format!(r#"{{"mode": "full", "rules": [{{"match": {matches}, "then": "deny"}}]}}"#).into_boxed_str())
    };
    let client = || Caller::Client("editor".into());
    Row { user: denies(r#"{"caller": "agent"}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"caller": "client"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"caller": "client"}"#), caller: client(), ..row() }.is("deny");
    Row { user: denies(r#"{"caller": "client:editor"}"#), caller: client(), ..row() }.is("deny");
    Row { user: denies(r#"{"caller": "client:other"}"#), caller: client(), ..row() }.is("allow");
    Row { user: denies(r#"{"caller": "client:ed*"}"#), caller: client(), ..row() }.is("deny");
    Row { user: denies(r#"{"caller": ["terminal", "agent"]}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"surface": "run"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"surface": ["run", "chat"]}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"server": "fil*"}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"server": "mail"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"tool": "*_file"}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"tool": "write"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"kind": "prompt"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"kind": ["tool", "prompt"]}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"readOnly": true}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"readOnly": true}"#), annotations: READS, ..row() }.is("deny");
    Row { user: denies(r#"{"destructive": true}"#), ..row() }.is("deny");
    Row { user: denies(r#"{"destructive": false}"#), annotations: READS, ..row() }.is("deny");
    Row { user: denies(r#"{"openWorld": false}"#), annotations: r#"{"openWorldHint": false}"#, ..row() }.is("deny");
    Row { user: denies(r#"{"openWorld": false}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"trust": "untrusted"}"#), ..row() }.is("allow");
    Row { user: denies(r#"{"trust": "untrusted"}"#), trust: Trust::Untrusted, ..row() }.is("deny");
    Row { user: denies(r#"{"server": "files", "tool": "read_file"}"#), ..row() }.is("allow");
}

#[test]
fn arguments_are_matched_by_pointer() {
    let denies = |arguments: &str| -> &'static str {
        let rule = format!(r#"{{"match": {{"arguments": {arguments}}}, "then": "deny"}}"#);
        Box::leak(format!(r#"{{"mode": "full", "rules": [{rule}]}}"#).into_boxed_str())
    };
    for (wanted, arguments, expected) in [
        (r#"{"/path": "/etc/*"}"#, r#"{"path": "/etc/passwd"}"#, "deny"),
        (r#"{"/path": "/etc/*"}"#, r#"{"path": "\/etc\/passwd"}"#, "deny"),
        (r#"{"/path": "/etc/*"}"#, r#"{"path": "/tmp/a"}"#, "allow"),
        (r#"{"/path": "/etc/*"}"#, r#"{}"#, "allow"),
        (r#"{"/path": "/etc/*"}"#, r#"{"path": 7}"#, "allow"),
        (r#"{"/path": "/etc/*"}"#, r#"{"path": null}"#, "allow"),
        (r#"{"/path": "/etc/*"}"#, "null", "allow"),
        (r#"{"/path": "/etc/*"}"#, r#"{"Path": "/tmp/a"}"#, "allow"),
        (r#"{"/path": "/etc/*"}"#, r#"{"p\u0061th": "/etc/passwd"}"#, "deny"),
        (r#"{"/count": "7*"}"#, r#"{"count": 72}"#, "deny"),
        (r#"{"/force": "t*"}"#, r#"{"force": true}"#, "deny"),
        (r#"{"/a/b": "x"}"#, r#"{"a": {"b": "x"}}"#, "deny"),
        (r#"{"/list/1": "x"}"#, r#"{"list": ["y", "x"]}"#, "deny"),
        (r#"{"/a~1b": "x"}"#, r#"{"a/b": "x"}"#, "deny"),
        (r#"{"/mode": ["w", "a"]}"#, r#"{"mode": "a"}"#, "deny"),
        (r#"{"/mode": ["w", "a"]}"#, r#"{"mode": "r"}"#, "allow"),
        (r#"{"/force": [true]}"#, r#"{"force": true}"#, "deny"),
        (r#"{"/count": [3]}"#, r#"{"count": 3.0}"#, "deny"),
        (r#"{"/count": [3]}"#, r#"{"count": null}"#, "allow"),
        (r#"{"/count": ["all"]}"#, r#"{"count": 10}"#, "allow"),
        (r#"{"/count": {"min": 10}}"#, r#"{"count": 10}"#, "deny"),
        (r#"{"/count": {"min": 10}}"#, r#"{"count": 9}"#, "allow"),
        (r#"{"/count": {"min": 1, "max": 5}}"#, r#"{"count": 6}"#, "allow"),
        (r#"{"/count": {"min": 1, "max": 5}}"#, "{}", "allow"),
        (r#"{"/count": {"max": 5}}"#, r#"{"count": null}"#, "allow"),
        (r#"{"/path": "/etc/*", "/force": [true]}"#, r#"{"path": "/etc/a", "force": false}"#, "allow"),
    ] {
        Row { user: denies(wanted), arguments, ..row() }.is(expected);
    }
}

#[test]
fn a_rule_that_cannot_be_evaluated_refuses() {
    let rule = |then: &str, arguments: &str| -> &'static str {
        let rule = format!(r#"{{"match": {{"tool": "write_*", "arguments": {arguments}}}, "then": "{then}"}}"#);
        Box::leak(format!(r#"{{"mode": "full", "rules": [{rule}, {{"then": "allow"}}]}}"#).into_boxed_str())
    };
    let (range, path) = (r#"{"/count": {"max": 5}}"#, r#"{"/path": "/etc/*"}"#);
    for then in ["allow", "writes", "ask", "deny"] {
        Row { user: rule(then, range), arguments: r#"{"count": "3"}"#, ..row() }.is("deny");
        Row { user: rule(then, range), arguments: r#"{"count": [3]}"#, ..row() }.is("deny");
        Row { user: rule(then, path), arguments: r#"{"path": "/tmp/a", "path": "/etc/passwd"}"#, ..row() }.is("deny");
    }
    // Where another condition does not hold, it need not be evaluated.
    Row { user: rule("deny", range), arguments: r#"{"count": "3"}"#, tool: "read", ..row() }.is("allow");
    let both = r#"{"/count": {"max": 5}, "/path": "/etc/*"}"#;
    Row { user: rule("deny", both), arguments: r#"{"count": "3", "path": "/tmp/a"}"#, ..row() }.is("allow");
    let verdict = Row { user: rule("allow", range), arguments: r#"{"count": "3"}"#, ..row() }.verdict();
    let reason = verdict.reason.unwrap();
    assert_eq!(reason, "the rule cannot be evaluated: the argument `/count` is not a number");
}

/// A condition, and arguments that one server reads as a match and another does not.
const UNCLEAR: &[(&str, &str)] = &[
    (r#"{"/path": "/etc/*"}"#, r#"{"path": ["/etc/passwd"]}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"path": {"value": "/etc/passwd"}}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"path": []}"#),
    (r#"{"/path": ["/etc/passwd"]}"#, r#"{"path": ["/etc/passwd"]}"#),
    (r#"{"/path": ["/etc/passwd"]}"#, r#"{"path": "/etc/../etc/passwd"}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"path": "/tmp/../etc/passwd"}"#),
    (r#"{"/path": "/tmp/*"}"#, r#"{"path": "/tmp/../etc/passwd"}"#),
    (r#"{"/path": "*passwd*"}"#, r#"{"path": "/etc/passwd\ud800"}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"Path": "/etc/passwd"}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"path": "/tmp/a", "PATH": "/etc/passwd"}"#),
    (r#"{"/edit/path": "/etc/*"}"#, r#"{"edit": [{"path": "/etc/passwd"}]}"#),
    (r#"{"/edit/path": "/etc/*"}"#, r#"{"edit": "{\"path\": \"/etc/passwd\"}"}"#),
    (r#"{"/path": "/etc/*"}"#, r#""{\"path\": \"/etc/passwd\"}""#),
    (r#"{"/path": "/etc/*"}"#, r#"[{"path": "/etc/passwd"}]"#),
    (r#"{"/count": [3]}"#, r#"{"count": "3"}"#),
    (r#"{"/count": ["3"]}"#, r#"{"count": 3}"#),
    (r#"{"/count": "7"}"#, r#"{"count": 7.0}"#),
    (r#"{"/force": [true]}"#, r#"{"force": "yes"}"#),
    (r#"{"/force": [true]}"#, r#"{"force": 1}"#),
];

#[test]
fn arguments_that_servers_read_differently_pass_no_rule() {
    for (condition, arguments) in UNCLEAR {
        for then in ["allow", "ask", "deny"] {
            let rule = format!(r#"{{"match": {{"arguments": {condition}}}, "then": "{then}"}}"#);
            let user = format!(r#"{{"mode": "full", "rules": [{rule}]}}"#);
            let verdict = Row { user: Box::leak(user.into_boxed_str()), arguments, ..row() }.verdict();
            assert_eq!(verdict.effect, RuleEffect::Deny, "{then} {condition} {arguments}");
            assert!(
                verdict.reason.is_some_and(|reason| reason.starts_with("the rule cannot be evaluated: the argument"))
            );
        }
    }
}

#[test]
fn resources_are_matched_by_what_their_uri_resolves_to() {
    let user = r#"{"rules": [{"match": {"kind": "resource", "tool": "file:///etc/*"}, "then": "deny"}]}"#;
    let resource = || Row { kind: CallKind::Resource, user, ..row() };
    for tool in ["file:///etc/passwd", "file:///tmp/../etc/passwd", "FILE:///etc/passwd", "file:///%65tc/passwd"] {
        Row { tool, ..resource() }.is("deny");
    }
    Row { tool: "file:///tmp/a", ..resource() }.is("allow");
}

#[test]
fn annotations_of_an_untrusted_server_match_no_rule() {
    let user = r#"{"mode": "full", "rules": [
        {"match": {"destructive": true}, "then": "deny"},
        {"match": {"openWorld": true}, "then": "ask"}]}"#;
    let annotations = r#"{"readOnlyHint": true, "openWorldHint": false}"#;
    Row { user, annotations, ..row() }.is("allow");
    Row { user, annotations, trust: Trust::Untrusted, ..row() }.is("deny");
    let user = r#"{"rules": [{"match": {"readOnly": true}, "then": "allow"}]}"#;
    Row { user, annotations, ..row() }.is("allow");
    Row { user, annotations, trust: Trust::Untrusted, ..row() }.is("ask");
}

#[test]
fn a_rule_may_name_a_tool_with_its_server() {
    for tool in ["write_file", "files__write_file", "files.write_file", "files__write_*"] {
        let user = format!(r#"{{"rules": [{{"match": {{"tool": "{tool}"}}, "then": "deny"}}]}}"#);
        let user: &'static str = Box::leak(user.into_boxed_str());
        Row { user, ..row() }.is("deny");
        Row { user, tool: "read_file", ..row() }.is("ask");
    }
    let user = r#"{"rules": [{"match": {"tool": "files__write_file"}, "then": "deny"}]}"#;
    Row { user, server: "mail", ..row() }.is("ask");
}

#[test]
fn the_rule_is_named_by_file_and_line_or_as_a_default() {
    let user = "{\"rules\": [\n{\"match\": {\"tool\": \"write_*\"}, \"then\": \"deny\", \"reason\": \"not here\"}]}";
    let verdict = Row { user, ..row() }.verdict();
    assert_eq!(verdict.rule.to_string(), "rule at /home/toolway.json:2");
    assert_eq!(verdict.reason.as_deref(), Some("not here"));
    assert_eq!(row().verdict().rule.to_string(), "default of `chat`: writes");
    let user = r#"{"mode": "interactive"}"#;
    assert_eq!(Row { user, ..row() }.verdict().rule.to_string(), "mode `interactive`");
}

#[test]
fn filters_come_first_and_a_stance_replaces_defaults() {
    let filter = Filter { exclude_tools: vec!["write*".into()], resources: Switch::Off, ..Filter::default() };
    let decide = |stance, kind, name: &str| {
        let subject = Subject { server: "files".parse().unwrap(), kind, raw_name: name.to_owned() };
        let annotations = Annotations::of_kind(kind, name);
        let (caller, surface, trust) = (&Caller::Terminal, Surface::Call, Trust::Read);
        let input = PolicyInput { caller, surface, subject: &subject, trust, annotations, arguments: None };
        Policy::of(stance).decide(&input, None, &filter)
    };
    assert!(matches!(decide(Stance::BySurface, CallKind::Tool, "read"), Decision::Allow(_)));
    for (kind, name, key) in
        [(CallKind::Tool, "write_all", "excludeTools"), (CallKind::Resource, "file:///x", "resources: false")]
    {
        let Decision::Deny(refusal) = decide(Stance::Ask, kind, name) else { panic!("refused") };
        assert_eq!(refusal.code(), "filtered_out");
        let said = refusal.to_string();
        assert!(said.ends_with(&format!("of `files` is excluded by `{key}` of its entry")), "{said}");
    }
    let Decision::Ask(request) = decide(Stance::Ask, CallKind::Tool, "read") else { panic!("approval expected") };
    assert_eq!(request.to_string(), "may terminal use the tool `read` of `files`?");
    assert_eq!(request.remedy(), r#"{"match":{"caller":"terminal","server":"files","tool":"read"},"then":"allow"}"#);
    let Decision::Ask(request) = decide(Stance::Ask, CallKind::Prompt, "read") else { panic!("approval expected") };
    assert!(request.remedy().contains(r#""kind":"prompt""#), "a tool of the same name is not meant");
    assert!(
        matches!(decide(Stance::Deny, CallKind::Tool, "read"), Decision::Deny(refusal) if refusal.code() == "denied")
    );
}
