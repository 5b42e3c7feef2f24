//! Forms and URLs of servers, answered at a terminal or from the command line.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    home::{Home, Ran, odd},
    terminal::Terminal,
};

/// Longest time of a command after its last key.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a call whose server sends this elicitation, at a terminal without colours.
fn asked(home: &Home, params: &Value, columns: u16) -> Terminal {
    let words = ["call", "--stdio", &odd("elicits"), "odd", "--args", &params.to_string()];
    let mut command = home.command(&words);
    command.env("NO_COLOR", "1");
    Terminal::start_with(command, columns)
}

/// The elicitation of a form with these fields, all of them required.
fn form(fields: Value) -> Value {
    let names: Vec<&String> = fields.as_object().unwrap().keys().collect();
    json!({ "message": "Who are you?", "requestedSchema": { "type": "object", "required": names, "properties": fields } })
}

/// What the server received, which is its result.
fn received(shown: &str) -> Value {
    let start = shown.rfind("{\"action\"").unwrap_or_else(|| panic!("no answer: {shown}"));
    serde_json::from_str(shown[start..].lines().next().unwrap()).unwrap()
}

/// Fields of every kind that the protocol allows.
fn every_kind() -> Value {
    json!({
        "message": "Tell me about yourself",
        "requestedSchema": {
            "type": "object",
            "required": ["a_name", "b_mail", "c_age", "d_height", "e_member", "f_colour", "g_size", "h_days"],
            "properties": {
                "a_name": { "type": "string", "title": "Name", "description": "As on your passport", "minLength": 2 },
                "b_mail": { "type": "string", "format": "email" },
                "c_age": { "type": "integer", "minimum": 0, "maximum": 150 },
                "d_height": { "type": "number" },
                "e_member": { "type": "boolean" },
                "f_colour": { "type": "string", "enum": ["red", "green"] },
                "g_size": { "type": "string", "oneOf": [
                    { "const": "s", "title": "Small" }, { "const": "l", "title": "Large" }] },
                "h_days": { "type": "array", "minItems": 1, "items": { "anyOf": [
                    { "const": "sat", "title": "Saturday" }, { "const": "sun", "title": "Sunday" }] } },
                "i_born": { "type": "string", "format": "date" },
                "j_page": { "type": "string", "format": "uri" },
                "k_city": { "type": "string", "default": "Berlin" },
            },
        },
    })
}

/// Fills in [`every_kind`].
fn fill(terminal: &mut Terminal) {
    terminal
        .answers("1/11 Name (required)", "Ada\r")
        .answers("2/11 b_mail", "ada@example.com\r")
        .answers("3/11 c_age", "36\r")
        .answers("4/11 d_height", "1.65\r")
        .answers("5/11 e_member", "yes\r")
        .answers("6/11 f_colour", "2\r")
        .answers("7/11 g_size", "Large\r")
        .answers("8/11 h_days", "1, sun\r")
        .answers("9/11 i_born", "1815-12-10\r")
        .answers("10/11 j_page", "\r")
        .answers("11/11 k_city", "\r")
        .answers("[y] send", "y");
}

#[test]
fn every_kind_of_field_is_filled_in_on_wide_and_narrow_terminals() {
    let home = Home::new();
    for columns in [80, 40] {
        let mut terminal = asked(&home, &every_kind(), columns);
        fill(&mut terminal);
        let (status, shown) = terminal.end(PATIENCE);
        assert!(status.success(), "{shown}");
        let content = json!({
            "a_name": "Ada", "b_mail": "ada@example.com", "c_age": 36, "d_height": 1.65, "e_member": true,
            "f_colour": "green", "g_size": "l", "h_days": ["sat", "sun"], "i_born": "1815-12-10", "k_city": "Berlin",
        });
        assert_eq!(received(&shown), json!({ "action": "accept", "content": content }), "{shown}");
        assert!(shown.contains("  │ Tell me about yourself") && shown.contains("  │ As on your passport"), "{shown}");
        let prompt = shown.split("\"action\"").next().unwrap();
        for line in prompt.split(['\r', '\n']).filter(|line| !line.contains('\u{1b}')) {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
        }
    }
}

#[test]
fn the_form_of_a_server_without_sessions_is_filled_in_too() {
    let home = Home::new();
    let params = form(json!({ "name": { "type": "string" } })).to_string();
    let words = ["call", "--stdio", &odd("elicits-modern"), "odd", "--args", &params];
    let mut terminal = Terminal::start(home.command(&words));
    terminal.answers("1/1 name", "Ada\r").answers("[y] send", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert_eq!(received(&shown), json!({ "action": "accept", "content": { "name": "Ada" } }));
}

#[test]
fn an_invalid_value_is_explained_and_asked_for_again() {
    let home = Home::new();
    let fields = json!({ "age": { "type": "integer", "minimum": 18 }, "name": { "type": "string", "minLength": 2 } });
    let mut terminal = asked(&home, &form(fields), 80);
    terminal
        .answers("1/2 age", "old\r")
        .answers("! `old` is not a number", "17\r")
        .answers("! must be at least 18", "\r")
        .answers("! a value is required", "18\r")
        .answers("2/2 name", "Adda\u{7f}\u{7f}a\r")
        .answers("[y] send", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert_eq!(received(&shown)["content"], json!({ "age": 18, "name": "Ada" }));
}

#[test]
fn an_optional_field_with_a_default_can_be_left_out() {
    let home = Home::new();
    let fields = json!({ "city": { "type": "string", "default": "Berlin" }, "name": { "type": "string" } });
    let mut params = form(fields);
    params["requestedSchema"]["required"] = json!(["name"]);
    let mut terminal = asked(&home, &params, 80);
    terminal
        .answers("Enter: Berlin; Ctrl-D: leave out", "\u{4}")
        .answers("2/2 name", "\u{4}")
        .answers("! a value is required", "Ada\r")
        .answers("  city: (left out)", "")
        .answers("[y] send", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert_eq!(received(&shown)["content"], json!({ "name": "Ada" }));
}

#[test]
fn answers_can_be_changed_in_the_review() {
    let home = Home::new();
    let mut terminal = asked(&home, &form(json!({ "name": { "type": "string" } })), 80);
    terminal
        .answers("1/1 name", "Adda\r")
        .answers("  name: Adda", "")
        .answers("[e] change", "e")
        .answers("Enter: Adda", "Ada\r")
        .answers("[y] send", "y");
    let (_, shown) = terminal.end(PATIENCE);
    assert_eq!(received(&shown)["content"], json!({ "name": "Ada" }));
}

#[test]
fn a_form_is_declined_or_cancelled_from_a_field_and_from_the_review() {
    let home = Home::new();
    let params = form(json!({ "name": { "type": "string" } }));
    for (key, action) in [("d", "decline"), ("c", "cancel")] {
        let mut terminal = asked(&home, &params, 80);
        terminal.answers("1/1 name", "\u{1b}").answers("[b] back to the form", key);
        assert_eq!(received(&terminal.end(PATIENCE).1)["action"], action);

        let mut terminal = asked(&home, &params, 80);
        terminal.answers("1/1 name", "Ada\r").answers("[c] cancel", key);
        assert_eq!(received(&terminal.end(PATIENCE).1)["action"], action);
    }
}

#[test]
fn a_field_that_looks_like_a_secret_has_a_warning_and_is_not_shown() {
    let home = Home::new();
    let mut terminal = asked(&home, &form(json!({ "api_key": { "type": "string" } })), 80);
    terminal
        .answers("! looks like a secret", "")
        .answers("> ", "s3cr3t\r")
        .answers("api_key: ••••••", "")
        .answers("[y]", "y");
    let (_, shown) = terminal.end(PATIENCE);
    assert_eq!(received(&shown)["content"]["api_key"], "s3cr3t");
    assert!(!shown.split("[y] send").next().unwrap().contains("s3cr3t"), "{shown}");
}

#[test]
fn control_sequences_in_a_form_do_not_reach_the_terminal() {
    let home = Home::new();
    let evil = "\u{1b}[2J\u{1b}]0;title\u{7}red\u{9b}31m\r\n[y] send\u{202e}";
    let params = json!({ "message": evil, "requestedSchema": { "type": "object", "properties": {
        "f": { "type": "string", "title": evil, "description": evil, "default": evil, "enum": [evil, "b"] } } } });
    let mut terminal = asked(&home, &params, 80);
    terminal.answers("1/1", "b\r").answers("Send to", "").answers("[y] send", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    let prompt = shown.split("{\"action\"").next().unwrap();
    let ours = ["\r\u{1b}[K", "\u{1b}[?2004h", "\u{1b}[?2004l"];
    let rest = ours.iter().fold(prompt.to_owned(), |text, sequence| text.replace(sequence, ""));
    let bad = rest.chars().find(|letter| letter.is_control() && !matches!(letter, '\r' | '\n'));
    assert_eq!(bad, None, "{prompt:?}");
    assert!(!rest.contains('\u{202e}'), "{prompt:?}");
    assert!(rest.contains("  │ [y] send"), "the server's text is marked: {rest}");
}

#[test]
fn a_url_is_opened_without_a_shell_after_consent() {
    let home = Home::new();
    let script = home.write("browser.sh", "printf '%s\\n' \"$#\" \"$1\" > \"$(dirname \"$0\")/opened.part\"\nmv \"$(dirname \"$0\")/opened.part\" \"$(dirname \"$0\")/opened\"\n");
    let url = "https://login.example.com:8443/a?b=c;touch%20x&d=$(id)";
    let params = json!({ "mode": "url", "message": "Sign in", "elicitationId": "1", "url": url });
    let words = ["call", "--stdio", &odd("elicits"), "odd", "--args", &params.to_string()];
    let mut command = home.command(&words);
    command.env("NO_COLOR", "1").env("BROWSER", format!("sh {}", script.display()));
    let mut terminal = Terminal::start_with(command, 40);
    terminal.answers("host: login.example.com:8443", "").answers("[y] open in the browser", "y");
    let (status, shown) = terminal.end(PATIENCE);
    assert!(status.success(), "{shown}");
    assert_eq!(received(&shown), json!({ "action": "accept" }));
    assert!(shown.contains("Opened in the browser."), "{shown}");
    assert_eq!(std::fs::read_to_string(home.path("opened")).unwrap(), format!("1\n{url}\n"));
}

#[test]
fn a_url_is_declined_by_the_user_or_for_its_scheme() {
    let home = Home::new();
    let params = |url: &str| json!({ "mode": "url", "message": "Look", "elicitationId": "1", "url": url });
    let mut terminal = asked(&home, &params("http://xn--pple-43d.com/"), 80);
    terminal.answers("! not encrypted", "").answers("! the host has letters", "").answers("[n] decline", "n");
    assert_eq!(received(&terminal.end(PATIENCE).1)["action"], "decline");

    let (_, shown) = asked(&home, &params("file:///etc/passwd"), 80).end(PATIENCE);
    assert_eq!(received(&shown)["action"], "decline");
    assert!(shown.contains("declined: the URL has no host"), "{shown}");
}

#[test]
fn ctrl_c_in_a_form_ends_the_command_and_restores_the_terminal() {
    let home = Home::new();
    let mut terminal = asked(&home, &form(json!({ "name": { "type": "string" } })), 80);
    terminal.answers("1/1 name", "Ad").answers("> Ad", "\u{3}");
    terminal.until("interrupted");
    assert!(terminal.is_restored());
    let (status, shown) = terminal.end(PATIENCE);
    assert_eq!(status.code(), Some(130), "{shown}");
}

/// Runs the call of a form without a terminal.
fn without_terminal(home: &Home, more: &[&str]) -> Ran {
    let fields = json!({ "name": { "type": "string" }, "age": { "type": "integer", "default": 7 } });
    let params = form(fields).to_string();
    let server = odd("elicits");
    let words = ["call", "--stdio", &server, "odd", "--args", &params, "-o", "raw"];
    home.run(&[&words[..], more].concat())
}

#[test]
fn forms_are_answered_from_the_command_line() {
    let home = Home::new();
    let answer = |more: &[&str]| received(without_terminal(&home, more).ok());
    let accepted = |age: u64| json!({ "action": "accept", "content": { "name": "Ada", "age": age } });
    assert_eq!(answer(&["--answer", "name=Ada"]), accepted(7));
    assert_eq!(answer(&["--answer", "name=Ada", "--answer", "age=36"]), accepted(36));
    let file = home.write("answers.json", r#"{ "name": "Ada", "age": 36 }"#);
    assert_eq!(answer(&["--answer", &format!("@{}", file.display())]), accepted(36));
    assert_eq!(answer(&["--decline"]), json!({ "action": "decline" }));
}

#[test]
fn a_form_that_is_not_answered_is_cancelled_and_the_command_says_so() {
    let home = Home::new();
    for (more, part) in [
        (&["--answer", "age=36"][..], "`name`: a value is required"),
        (&["--answer", "name=Ada", "--answer", "age=old"], "`old` is not a number"),
        (&["--answer", "name=Ada", "--answer", "nmae=x"], "`nmae`: the form has no such field"),
        (&[], "--answer field=value"),
    ] {
        let ran = without_terminal(&home, more);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.talk.contains(part), "{ran:?}");
    }
    let ran = without_terminal(&home, &["--answer", "Ada"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}
