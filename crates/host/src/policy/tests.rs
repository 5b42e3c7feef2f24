//! Deciding, as a table: surfaces, modes, trust, annotations, rules, arguments.

use toolway_config::{Config, Trust, TrustLists, document::Document};
use toolway_wire::json::Raw;

use super::*;
use crate::catalog::filter::Switch;

mod table;

/// A request and what is expected of it. Members that a row does not name have these values.
struct Row {
    caller: Caller,
    surface: Surface,
    kind: CallKind,
    server: &'static str,
    tool: &'static str,
    trust: Trust,
    lists: TrustLists,
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
        lists: TrustLists::NONE,
        annotations: "{}",
        arguments: "{}",
        user: "{}",
        project: "{}",
    }
}

fn subject(server: &str, tool: &str) -> Subject {
    Subject { server: server.parse().unwrap(), kind: CallKind::Tool, raw_name: tool.to_owned() }
}

fn files(policy: &str, path: &str) -> toolway_config::Settings {
    let text = format!(r#"{{"policy": {policy}}}"#);
    Config::of(&Document::of(path.as_ref(), &text).unwrap(), None).unwrap().settings
}

impl Row {
    fn policy(&self) -> Policy {
        let mut settings = files(self.user, "/home/toolway.json");
        let project = files(self.project, "/project/toolway.json").policy.user;
        settings.policy.project = ProjectRules::new(project).unwrap();
        Policy::new(Stance::BySurface, &settings)
    }

    fn input<'a>(&'a self, subject: &'a Subject, arguments: Option<&'a Raw>) -> PolicyInput<'a> {
        let annotations = match self.kind {
            CallKind::Tool => Annotations::of_tool(Some(&Raw::parse(self.annotations).unwrap())),
            kind => Annotations::of_kind(kind, self.tool),
        };
        let (caller, surface, trust) = (&self.caller, self.surface, self.trust);
        let lists = &self.lists;
        let roots: &'static [String] = Box::leak(Box::new(["file:///roots".to_owned()]));
        let reach = Reach { roots, ..Reach::default() };
        PolicyInput { caller, surface, subject, trust, lists, annotations, arguments, reach }
    }

    fn verdict(&self) -> Verdict {
        let subject = Subject { kind: self.kind, ..subject(self.server, self.tool) };
        let arguments = Raw::parse(self.arguments).unwrap();
        self.policy().evaluate(&self.input(&subject, Some(&arguments)))
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
fn a_new_host_is_asked_about_where_writes_decides() {
    const CLOSED: &str = r#"{"readOnlyHint": true, "openWorldHint": false}"#;
    const OPEN: &str = r#"{"readOnlyHint": true, "openWorldHint": true}"#;
    let url = || Row { annotations: READS, arguments: r#"{"url": "https://new.example/?d=1"}"#, ..row() };
    let bare = || Row { arguments: r#"{"q": "new.example/x"}"#, ..url() };
    let client = || Caller::Client("editor".into());
    url().is("ask");
    Row { surface: Surface::Run, ..url() }.is("ask");
    Row { surface: Surface::Console, ..url() }.is("ask");
    Row { kind: CallKind::Prompt, tool: "ask", ..url() }.is("ask");
    Row { caller: client(), surface: Surface::Gateway, ..url() }.is("allow");
    Row { caller: Caller::Terminal, surface: Surface::Call, ..url() }.is("allow");
    Row { caller: Caller::Console, surface: Surface::Console, ..url() }.is("allow");
    let writes = r#"{"rules": [{"match": {"caller": "client"}, "then": "writes"}]}"#;
    Row { caller: client(), surface: Surface::Gateway, user: writes, ..url() }.is("ask");
    Row { caller: client(), surface: Surface::Gateway, project: writes, ..url() }.is("ask");
    Row { user: r#"{"mode": "allow"}"#, ..url() }.is("allow");
    Row { user: r#"{"rules": [{"match": {"caller": "agent"}, "then": "allow"}]}"#, ..url() }.is("allow");
    Row { user: r#"{"hosts": ["new.example"]}"#, ..url() }.is("allow");
    Row { user: r#"{"hosts": ["*.example"]}"#, ..url() }.is("allow");
    Row { user: r#"{"hosts": ["example"]}"#, ..url() }.is("ask");
    Row { trust: Trust::Full, ..url() }.is("allow");
    Row { annotations: CLOSED, ..url() }.is("allow");
    Row { annotations: CLOSED, trust: Trust::Untrusted, ..url() }.is("ask");
    bare().is("allow");
    Row { annotations: OPEN, ..bare() }.is("ask");
    Row { annotations: OPEN, user: r#"{"hosts": ["new.example"]}"#, ..bare() }.is("allow");
    let verdict = url().verdict();
    assert_eq!(verdict.reason.as_deref(), Some("it reaches the new host `new.example`"));
    assert_eq!(verdict.reached.hosts[0].pointer, "/url");
}

#[test]
fn a_template_names_its_own_hosts_and_an_unlisted_resource_is_asked_about() {
    let effect = |uri: &str, resource: ResourceOffer<'_>| {
        let row = Row { kind: CallKind::Resource, ..row() };
        let subject = Subject { kind: CallKind::Resource, ..subject("files", uri) };
        let input = PolicyInput { reach: Reach { resource, ..Reach::default() }, ..row.input(&subject, None) };
        row.policy().evaluate(&input).effect.as_str()
    };
    assert_eq!(effect("https://any.example/x", ResourceOffer::Listed), "allow");
    assert_eq!(effect("notes://one", ResourceOffer::Unlisted), "ask");
    assert_eq!(effect("notes://all/1", ResourceOffer::Template("notes://all/{id}")), "allow");
    assert_eq!(effect("fetch:https://evil.example/", ResourceOffer::Template("fetch:{+url}")), "ask");
    assert_eq!(effect("https://evil.example/x", ResourceOffer::Template("https://{host}/x")), "ask");
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
    for (mode, plain, reads) in [("ask", "ask", "ask"), ("writes", "ask", "allow"), ("allow", "allow", "allow")] {
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
fn a_project_only_makes_the_decision_stricter() {
    let all =
        |then: &str| -> &'static str { Box::leak(format!(r#"{{"rules": [{{"then": "{then}"}}]}}"#).into_boxed_str()) };
    let order = ["allow", "writes", "ask", "deny"];
    let decided = |index: usize| if order[index] == "writes" { "ask" } else { order[index] };
    for (i, user) in order.iter().enumerate() {
        Row { user: all(user), ..row() }.is(decided(i));
        for (j, project) in order.iter().enumerate().skip(1) {
            Row { user: all(user), project: all(project), ..row() }.is(decided(i.max(j)));
        }
    }
    // Without a rule of the user, the default and the mode are made stricter too, never replaced.
    for project in [all("writes"), r#"{"rules": [{"match": {"caller": "agent"}, "then": "writes"}]}"#] {
        Row { surface: Surface::Run, project, ..row() }.is("ask");
        Row { surface: Surface::Run, project, trust: Trust::Untrusted, annotations: READS, ..row() }.is("ask");
        Row { surface: Surface::Run, project, user: r#"{"mode": "ask"}"#, trust: Trust::Full, ..row() }.is("ask");
        Row { surface: Surface::Run, project, user: r#"{"mode": "allow"}"#, ..row() }.is("ask");
    }
    let elsewhere = r#"{"rules": [{"match": {"server": "mail"}, "then": "deny"}]}"#;
    Row { user: all("allow"), project: elsewhere, ..row() }.is("allow");
    Row { user: r#"{"mode": "allow"}"#, project: all("deny"), ..row() }.is("deny");
    let error = ProjectRules::new(files(all("allow"), "/project/toolway.json").policy.user).unwrap_err();
    assert!(error.to_string().starts_with("/project/toolway.json:1: "), "{error}");
}

#[test]
fn mode_ask_turns_every_allow_into_ask() {
    let user = r#"{"mode": "ask", "rules": [{"match": {"tool": "write_*"}, "then": "allow"}, {"then": "writes"}]}"#;
    let verdict = Row { user, ..row() }.verdict();
    assert_eq!((verdict.effect, verdict.lift), (RuleEffect::Ask, Lift::Never));
    assert_eq!(verdict.rule.to_string(), "mode `ask`");
    Row { user, tool: "read", annotations: READS, ..row() }.is("ask");
    Row { user, tool: "read", trust: Trust::Full, ..row() }.is("ask");
    Row { user, caller: Caller::Terminal, surface: Surface::Call, ..row() }.is("ask");
    // The mode of a command wins over the mode of the file.
    let (row, subject) = (Row { user, ..row() }, subject("files", "write_file"));
    let input = row.input(&subject, None);
    assert_eq!(row.policy().with_mode(Some(PolicyMode::Writes)).evaluate(&input).effect, RuleEffect::Allow);
    let allows = Policy::of(Stance::Allow).with_mode(Some(PolicyMode::Ask));
    assert_eq!(allows.evaluate(&input).effect, RuleEffect::Ask);
}

#[test]
fn every_condition_must_hold() {
    let denies = |matches: &str| -> &'static str {
        Box::leak(format!(r#"{{"mode": "allow", "rules": [{{"match": {matches}, "then": "deny"}}]}}"#).into_boxed_str())
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
        Box::leak(format!(r#"{{"mode": "allow", "rules": [{rule}]}}"#).into_boxed_str())
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
        Box::leak(format!(r#"{{"mode": "allow", "rules": [{rule}, {{"then": "allow"}}]}}"#).into_boxed_str())
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
            let user = format!(r#"{{"mode": "allow", "rules": [{rule}]}}"#);
            let verdict = Row { user: Box::leak(user.into_boxed_str()), arguments, ..row() }.verdict();
            assert_eq!(verdict.effect, RuleEffect::Deny, "{then} {condition} {arguments}");
            assert!(
                verdict.reason.is_some_and(|reason| reason.starts_with("the rule cannot be evaluated: the argument"))
            );
        }
    }
}

/// Conditions, and arguments that match in one reading only.
const DOUBTFUL: &[(&str, &str)] = &[
    (r#"{"/path": ["/etc/passwd"]}"#, r#"{"path": "/etc/../etc/passwd"}"#),
    (r#"{"/path": "/etc/*"}"#, r#"{"path": "/tmp/../etc/passwd"}"#),
    (r#"{"/path": "/tmp/*"}"#, r#"{"path": "/tmp/../etc/passwd"}"#),
    (r#"{"/url": "https://a.example/*"}"#, r#"{"url": "https:a.example/x"}"#),
    (r#"{"/url": "https://a.example/*"}"#, r#"{"url": "a.example"}"#),
    (r#"{"/command": "git *"}"#, r#"{"command": "git log; rm -rf ~"}"#),
    (r#"{"/paths/*": "/tmp/*"}"#, r#"{"paths": ["/tmp/a", "/etc/b"]}"#),
];

#[test]
fn an_unclear_value_matches_deny_not_allow_and_makes_nothing_less_strict() {
    let order = ["allow", "writes", "ask", "deny"];
    for (condition, arguments) in DOUBTFUL {
        for (i, then) in order.iter().enumerate() {
            for (j, next) in order.iter().enumerate() {
                let rule = format!(r#"{{"match": {{"arguments": {condition}}}, "then": "{then}"}}"#);
                let user = format!(r#"{{"rules": [{rule}, {{"then": "{next}"}}]}}"#);
                let verdict = Row { user: Box::leak(user.into_boxed_str()), arguments, ..row() }.verdict();
                assert_eq!(verdict.user.effect.as_str(), order[i.max(j)], "{then} {next} {condition} {arguments}");
            }
        }
    }
    let user =
        r#"{"rules": [{"match": {"arguments": {"/url": "https://a.example/*"}}, "then": "deny", "reason": "no"}]}"#;
    let verdict = Row { user, arguments: r#"{"url": "a"}"#, ..row() }.verdict();
    assert_eq!(verdict.reason.as_deref(), Some("no; the argument `/url` is not a URL"));
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
    let user = r#"{"mode": "allow", "rules": [
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
    let user = r#"{"mode": "ask"}"#;
    assert_eq!(Row { user, ..row() }.verdict().rule.to_string(), "mode `ask`");
}

#[test]
fn filters_come_first_and_a_stance_replaces_defaults() {
    let filter = Filter { exclude_tools: vec!["write*".into()], resources: Switch::Off, ..Filter::default() };
    let decide = |stance, kind, name: &str| {
        let subject = Subject { server: "files".parse().unwrap(), kind, raw_name: name.to_owned() };
        let annotations = Annotations::of_kind(kind, name);
        let (caller, surface, trust) = (&Caller::Terminal, Surface::Call, Trust::Read);
        let input = PolicyInput {
            caller,
            surface,
            subject: &subject,
            trust,
            lists: &TrustLists::NONE,
            annotations,
            arguments: None,
            reach: Reach::default(),
        };
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
    assert_eq!(request.remedy().as_deref(), Some("toolway policy allow files.read --caller terminal"));
    let Decision::Ask(request) = decide(Stance::Ask, CallKind::Prompt, "read") else { panic!("approval expected") };
    let remedy = request.remedy().unwrap();
    assert!(remedy.ends_with(" --kind prompt"), "a tool of the same name is not meant: {remedy}");
    for (name, expected) in [
        ("a; rm -rf ~", Some("toolway policy allow 'files.a; rm -rf ~' --caller terminal")),
        ("it's $(x)", Some(r#"toolway policy allow "files.it's "'$(x)' --caller terminal"#)),
        ("a\nb", None),
        ("a\u{1b}[2J", None),
        ("a\u{202e}b", None),
        ("a*", None),
    ] {
        let Decision::Ask(request) = decide(Stance::Ask, CallKind::Tool, name) else { panic!("approval expected") };
        assert_eq!(request.remedy().as_deref(), expected, "{name:?}");
    }
    assert!(
        matches!(decide(Stance::Deny, CallKind::Tool, "read"), Decision::Deny(refusal) if refusal.code() == "denied")
    );
}

#[test]
fn no_saved_approval_lifts_what_is_asked_because_a_definition_has_changed() {
    for user in [r#"{"mode": "allow"}"#, r#"{"mode": "writes"}"#] {
        let row = Row { user, ..row() };
        let subject = subject(row.server, row.tool);
        let input = row.input(&subject, None);
        let decision = row.policy().decide(&input, None, &Filter::default());
        let Decision::Ask(request) = decision.asking_about_drift(&input, "its file is another one") else {
            panic!("approval expected: {user}")
        };
        assert_eq!((request.lift(), request.remedy()), (Lift::Never, None), "{user}");
    }
}

#[test]
fn the_stricter_of_the_mode_for_all_and_the_mode_of_the_client_counts() {
    // The mode for all, that of the client, the decisions about a write and about a read, and the mode in effect.
    const TABLE: &str = "
        -      -      allow allow -
        -      allow  allow allow allow
        -      writes ask   allow writes
        -      ask    ask   ask   ask
        allow  -      allow allow allow
        allow  allow  allow allow allow
        allow  writes ask   allow writes
        allow  ask    ask   ask   ask
        writes -      ask   allow writes
        writes allow  ask   allow writes
        writes writes ask   allow writes
        writes ask    ask   ask   ask
        ask    -      ask   ask   ask
        ask    allow  ask   ask   ask
        ask    writes ask   ask   ask
        ask    ask    ask   ask   ask";
    for line in TABLE.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [all, client, write, read, mode] = words[..] else { panic!("{line}") };
        let policy = with_client(all, client, "[]");
        let subject = subject("files", "write_file");
        let editor = Row { caller: Caller::Client("editor".into()), surface: Surface::Gateway, ..row() };
        let reading = Row { annotations: READS, caller: editor.caller.clone(), surface: Surface::Gateway, ..row() };
        assert_eq!(policy.evaluate(&editor.input(&subject, None)).effect.as_str(), write, "{line}");
        assert_eq!(policy.evaluate(&reading.input(&subject, None)).effect.as_str(), read, "{line}");
        assert_eq!(policy.mode_of(&editor.caller).map_or("-", PolicyMode::as_str), mode, "{line}");
        for other in [Caller::Client("other".into()), Caller::Terminal, Caller::Agent("editor".into())] {
            assert_eq!(policy.mode_of(&other).map_or("-", PolicyMode::as_str), all, "{line}");
        }
    }
}

#[test]
fn the_mode_of_a_client_is_never_looser_than_rules_and_is_named_where_it_decides() {
    let subject = subject("files", "write_file");
    let editor = || Row { caller: Caller::Client("editor".into()), surface: Surface::Gateway, ..row() };
    let verdict = |all: &str, client: &str, then: &str| {
        let policy = with_client(all, client, &format!(r#"[{{"then": "{then}"}}]"#));
        policy.evaluate(&editor().input(&subject, None))
    };
    for (client, then, expected) in [
        ("allow", "deny", "deny"),
        ("allow", "ask", "ask"),
        ("writes", "ask", "ask"),
        ("ask", "deny", "deny"),
        ("ask", "allow", "ask"),
        ("writes", "allow", "allow"),
    ] {
        assert_eq!(verdict("-", client, then).effect.as_str(), expected, "{client}, {then}");
    }
    let asked = verdict("writes", "ask", "allow");
    assert_eq!((asked.rule.to_string().as_str(), asked.lift), ("mode `ask` of client `editor`", Lift::Never));
    assert_eq!(verdict("ask", "ask", "allow").rule.to_string(), "mode `ask`");
    let default = with_client("-", "writes", "[]").evaluate(&editor().input(&subject, None));
    assert_eq!((default.rule.to_string().as_str(), default.lift), ("mode `writes` of client `editor`", Lift::BySaved));
}

/// A policy with these modes for all and for the client `editor`; `-` sets no mode.
fn with_client(all: &str, client: &str, rules: &str) -> Policy {
    let member = |mode: &str| if mode == "-" { String::new() } else { format!(r#""mode": "{mode}""#) };
    let (all, client) = (member(all), member(client));
    let comma = if all.is_empty() { "" } else { "," };
    let text = format!(
        r#"{{"policy": {{{all}{comma} "rules": {rules}}}, "gateway": {{"clients": {{"editor": {{{client}}}}}}}}}"#
    );
    let document = Document::of("/home/toolway.json".as_ref(), &text).unwrap();
    Policy::new(Stance::BySurface, &Config::of(&document, None).unwrap().settings)
}
