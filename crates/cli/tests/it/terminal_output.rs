//! Terminal output and verbose output.

use std::time::Duration;

use crate::{
    home::{Home, odd},
    terminal::Terminal,
};

#[test]
fn terminal_output_is_text_with_a_progress_bar() {
    let home = Home::with_sample();
    let command = home.command(&["call", "old-sample.count", "to=2", "pause=50"]);
    let (status, shown) = home.run_at_terminal(command, "");
    assert!(status.success(), "{shown}");
    assert!(shown.contains("\r\u{1b}[K[##########..........] 1/2 1 of 2"), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[KCounted to 2.\r\n"), "{shown:?}");
}

#[test]
fn names_are_bold_on_a_terminal_unless_no_color_is_set() {
    let home = Home::with_sample();
    let (_, shown) = home.run_at_terminal(home.command(&["resources", "sample"]), "");
    assert!(shown.starts_with("\u{1b}[1mmemo://today\u{1b}[0m  "), "{shown:?}");
    let mut command = home.command(&["resources", "sample"]);
    command.env("NO_COLOR", "1");
    let (_, shown) = home.run_at_terminal(command, "");
    assert!(shown.starts_with("memo://today  "), "{shown:?}");
}

#[test]
fn descriptions_of_a_tool_wrap_at_the_width_of_the_terminal() {
    let home = Home::with_sample();
    let mut command = home.command(&["tools", "sample", "count"]);
    command.env("NO_COLOR", "1");
    let (_, shown) = Terminal::start_with(command, 40).end(Duration::from_secs(20));
    assert!(shown.contains("\r\n    Count up to a number and report\r\n    progress at each step\r\n"), "{shown}");
    let pause = "\r\n  pause (integer, optional) Milliseconds\r\n      between steps\r\n";
    assert!(shown.contains(pause), "{shown}");
    // Other programs get each description on one line.
    let piped = home.run(&["tools", "sample", "count", "-o", "human"]);
    assert!(piped.ok().contains("\n    Count up to a number and report progress at each step\n"), "{}", piped.out);
}

#[test]
fn lists_and_diagnoses_keep_words_whole_on_a_narrow_terminal() {
    let home = Home::with_sample();
    for words in [&["status"][..], &["doctor", "sample"], &["tools", "sample"], &["tools"]] {
        let mut command = home.command(words);
        command.env("NO_COLOR", "1");
        let (_, shown) = Terminal::start_with(command, 40).end(Duration::from_secs(60));
        let shown = shown.replace("\r\u{1b}[K", "\n");
        // A word that is longer than a line, such as a path, stays whole.
        let is_long = |line: &&str| 40 < line.chars().count() && line.trim().contains(' ');
        let long = shown.split(['\r', '\n']).filter(|line| !line.contains(" …")).find(is_long);
        assert_eq!(long, None, "{words:?}: {shown}");
    }
}

#[test]
fn piped_output_is_text_unless_json_is_asked_for() {
    let home = Home::with_sample();
    let ran = |words: &[&str], format: Option<&str>| {
        let mut command = home.command(words);
        command.env_remove("TOOLWAY_OUTPUT").envs(format.map(|format| ("TOOLWAY_OUTPUT", format)));
        crate::home::Ran::of(&command.output().unwrap())
    };
    let words = ["call", "sample.echo", "hi"];
    assert_eq!(ran(&words, None).ok(), "hi\n");
    assert_eq!(ran(&words, Some("text")).ok(), "hi\n");
    assert_eq!(ran(&words, Some("json")).json()["content"][0]["text"], "hi");
    let failed = ran(&["call", "sample.echo", "txt=hi"], None);
    assert_eq!(
        (failed.code, failed.talk.lines().next()),
        (2, Some("toolway: tool `echo`: unknown argument `txt`; did you mean `text`?"))
    );
    ran(&["call", "sample.echo", "txt=hi"], Some("json")).failed(2, "arguments");
}

#[test]
fn control_sequences_of_a_server_never_reach_a_terminal() {
    let home = Home::new();
    let server = odd("paints");
    for words in [
        &["tools", "--stdio", &server][..],
        &["tools", "--stdio", &server, "odd"],
        &["call", "--stdio", &server, "odd"],
        &["call", "--stdio", &server, "odd", "-v"],
        &["call", "--stdio", &server, "hello"],
        &["call", "--stdio", &server, "hello", "-o", "json"],
        &["call", "--stdio", &server, "odd", "-o", "raw"],
        &["call", "--stdio", &server, "od"],
    ] {
        let mut command = home.command(words);
        command.env("NO_COLOR", "1");
        let (_, shown) = home.run_at_terminal(command, "");
        // Our only sequence erases the progress line.
        let rest = shown.replace("\r\u{1b}[K", "");
        let bad = rest.chars().find(|letter| letter.is_control() && !matches!(letter, '\r' | '\n' | '\t'));
        assert_eq!(bad, None, "{words:?}: {shown:?}");
        assert!(!rest.contains('\u{202e}'), "{words:?}: {shown:?}");
        let is_escaped = rest.contains("\\u{1b}[") || rest.contains("\\u001b[") || rest.contains("did you mean");
        assert!(is_escaped, "nothing is removed: {words:?}: {shown:?}");
        assert!(rest.contains("red") || rest.contains("did you mean"), "{words:?}: {shown:?}");
    }
}

#[test]
fn messages_are_printed_with_secrets_masked() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{"sample":{{"command":"{}","args":["sample"],"env":{{"KEY":"t0ps3cret"}}}}}}}}"#,
        crate::home::TOOLWAY
    ));
    let ran = home.run(&["call", "sample.echo", "text=the t0ps3cret key", "-v", "-o", "human", "--era", "legacy"]);
    assert_eq!(ran.ok(), "the t0ps3cret key\n");
    assert!(ran.talk.contains("→ {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\""), "{}", ran.talk);
    assert!(ran.talk.contains("\"arguments\":{\"text\":\"the ••• key\"}"), "{}", ran.talk);
    assert!(ran.talk.contains("← {\"jsonrpc\":\"2.0\",\"id\":3,\"result\""), "{}", ran.talk);
    assert!(!ran.talk.contains("t0ps3cret"), "{}", ran.talk);
}

#[test]
fn each_call_is_recorded_with_its_outcome() {
    let home = Home::with_sample();
    let record = |words: &[&str], code: i32| {
        let ran = home.run(words);
        assert_eq!(ran.code, code, "{}", ran.talk);
        ran.talk.lines().filter(|line| line.starts_with("= ")).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let answered = record(&["call", "sample.echo", "hi", "-v", "-o", "raw"], 0);
    assert!(
        answered.starts_with("= tool `echo` of `sample`: succeeded (default of `call`: allow), sent after "),
        "{answered}"
    );
    assert!(answered.contains(", 13 bytes sent, "), "{answered}");
    let read = record(&["resources", "read", "sample", "memo://none", "-v", "-o", "raw"], 8);
    assert!(read.starts_with("= resource `memo://none` of `sample`: failed (default of `call`: allow), "), "{read}");
    let pinged = record(&["ping", "old-sample", "-v", "-o", "raw"], 0);
    assert!(pinged.starts_with("= method `ping` of `old-sample`: succeeded "), "{pinged}");
    let late = record(&["call", "sample.count", "to=9", "pause=900", "-v", "-o", "raw", "--timeout", "1"], 4);
    assert!(late.starts_with("= tool `count` of `sample`: cancelled "), "{late}");
}

#[test]
fn configuration_warnings_are_printed() {
    let home = Home::with_sample();
    let text = std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    home.configure(&text.replace("[\"sample\"] }", "[\"sample\"], \"timeout\": 5, \"colour\": 1 }"));
    let ran = home.run(&["call", "sample.echo", "hi", "-o", "human"]);
    assert_eq!(ran.ok(), "hi\n");
    let place = home.path(".config/toolway/toolway.json");
    let place = place.display();
    assert_eq!(
        ran.talk,
        format!(
            "toolway: {place}:4: `mcpServers.sample.timeout` is a key of other MCP hosts and has no effect here: \
             its unit differs between hosts; use `timeouts`\n\
             toolway: {place}:4: unknown key `mcpServers.sample.colour` is ignored\n"
        )
    );
}

#[test]
fn ping_shows_the_process_supervision() {
    let home = Home::with_sample();
    let said = home.run(&["ping", "sample"]).json();
    assert_eq!((&said["cleanup"], &said["cleanupReason"]), (&"full".into(), &serde_json::Value::Null), "{said}");
    let shown = home.run(&["ping", "sample", "-o", "human"]);
    assert!(shown.ok().ends_with("\ncleanup: child processes are ended on exit\n"), "{shown:?}");
}
