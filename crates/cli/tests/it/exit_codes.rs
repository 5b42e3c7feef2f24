//! One test per exit code. Exit code 7 for excluded items is tested in `filtering`.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, Ran, Running, odd, wait};

/// A server that sends this response to every request.
fn answering(reply: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let _gone = stream.write_all(reply.as_bytes());
        }
    });
    url
}

#[test]
fn code_1_is_an_internal_error() {
    let home = Home::with_sample();
    home.write("file", "");
    home.run(&["call", "sample.picture", "--save", "file/inside.png"]).failed(1, "save");
}

#[test]
fn code_2_is_an_invalid_command_line_or_configuration() {
    let home = Home::with_sample();
    let error = home.run(&["tools", "sampel"]).failed(2, "unknown_server");
    assert_eq!(error["message"], "unknown server `sampel`; did you mean `sample`?");
    assert_eq!(error["hint"], "configured servers: old-sample, sample");
    home.run(&["call", "echo", "text=x"]).failed(2, "unknown_server");
    home.run(&["ping"]).failed(2, "unknown_server");
    let no_tool = home.run(&["call", "sample"]).failed(2, "unknown_tool");
    assert_eq!(no_tool["hint"], "list its tools with `toolway tools sample`");
    Home::new().run(&["tools"]).failed(2, "unknown_server");
    home.run(&["call", "sample.none"]).failed(2, "unknown_tool");
    home.run(&["call", "sample.echo"]).failed(2, "arguments");
    home.run(&["tools", "--stdio", "a", "--url", "http://b/"]).failed(2, "arguments");
    home.run(&["tools", "--url", "ftp://b/"]).failed(2, "arguments");
    home.run(&["tools", "--url", "http://127.0.0.1/", "--header", "nonsense"]).failed(2, "arguments");
    let insecure = home.run(&["tools", "--url", "http://b.example/"]).failed(2, "arguments");
    assert_eq!(insecure["hint"], "pass --allow-insecure-http to allow it");
    home.run(&["tools", "--stdio", "'open"]).failed(2, "arguments");
    home.run(&["frobnicate"]).failed(2, "usage");
    let lacking = home.run(&["call"]).failed(2, "usage");
    assert_eq!(lacking["message"], "the following required arguments were not provided: <TOOL>");
    assert_eq!(home.run(&[]).failed(2, "usage")["message"], "missing command");
    home.run(&["--config", "none.json", "tools", "x"]).failed(2, "config");

    home.configure("{\n  \"mcpServers\": {\n    \"a\": { \"comand\": \"x\" }\n  }\n}");
    let error = home.run(&["tools", "a"]).failed(2, "config");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("toolway.json:3: `")
            && message.ends_with("a.command` must be the program to start; for an HTTP server set `url` instead"),
        "{message}"
    );

    home.configure(r#"{"mcpServers":{"a":{"command":"x","disabled":true},"b":{"url":"${NOWHERE}"}}}"#);
    home.run(&["tools", "a"]).failed(2, "disabled");
    home.run(&["tools", "b"]).failed(2, "config");

    home.configure(r#"{"mcpServers":{},"cluster":{"key":"env:CLUSTER_KEY","address":"10.0.0.5:7719"}}"#);
    let refused = home.run(&["serve"]).failed(2, "config");
    assert_eq!(refused["message"], "`cluster` needs `store.url`: several gateways share a Postgres database");
}

#[test]
fn code_3_is_a_server_that_requires_credentials() {
    let url = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    );
    let error = Home::new().run(&["tools", "--url", &url]).failed(3, "unauthorized");
    assert_eq!(error["hint"], "pass a token with --header 'Authorization: Bearer …'");

    let home = Home::new();
    home.configure(&format!(r#"{{"mcpServers":{{"far":{{"url":"{url}"}}}}}}"#));
    let error = home.run(&["call", "far.x"]).failed(3, "unauthorized");
    assert!(error["hint"].is_null(), "the message has the command: {error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("sign-in required: it names no authorization server"), "{message}");
    assert!(
        message.contains("toolway servers update far --header") && message.ends_with("`toolway login far`"),
        "{message}"
    );
    assert_eq!(home.run(&["status", "-o", "raw"]).ok(), "far\tsign-in-required\n");
}

#[test]
fn code_4_is_an_unreachable_or_slow_server() {
    let home = Home::new();
    home.run(&["tools", "--stdio", "/no/such/program"]).failed(4, "unreachable");
    home.run(&["tools", "--stdio", &odd("ends-at-once")]).failed(4, "ended");
    home.run(&["tools", "--url", "http://127.0.0.1:1/mcp"]).failed(4, "unreachable");
    home.run(&["call", "--stdio", &odd("half-closed"), "odd"]).failed(4, "ended");
    let url = answering("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    home.run(&["tools", "--url", &url]).failed(4, "http_status");

    let began = Instant::now();
    let slow = ["call", "--stdio", &odd("wrong-id"), "odd", "--timeout", "0.5"];
    let error = home.run(&slow).failed(4, "timed_out");
    let message = "no response within 500ms (--timeout); outcome unknown: the server may have acted on the call";
    assert_eq!((&error["message"], &error["outcome"]), (&message.into(), &"unknown".into()));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn code_5_is_a_tool_error_and_its_result_is_printed() {
    let home = Home::with_sample();
    let ran = home.run(&["call", "sample.fail"]);
    let error = ran.failed(5, "tool_error");
    assert_eq!(error["message"], "tool `fail` returned an error");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()["isError"], true);
    let ran = home.run(&["call", "sample.fail", "-o", "human"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, "This tool always fails.\n"));
    assert_eq!(ran.talk, "toolway: tool `fail` returned an error\n");
}

#[test]
fn code_6_is_an_unanswered_server_request() {
    let home = Home::with_sample();
    let error = home.run(&["call", "sample.greet"]).failed(6, "input_required");
    assert_eq!(
        error["message"],
        "this tool needs user input (elicitation); answer it with `--answer field=value`, `--decline` or `--wait`, or run this at a terminal"
    );
    let error = home.run(&["call", "--stdio", &odd("wants-undeclared"), "odd"]).failed(6, "input_required");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("this tool needs "), "{message}");
}

#[test]
fn code_7_is_a_project_server_that_is_not_accepted() {
    let home = Home::new();
    home.write("clone/toolway.json", r#"{ "mcpServers": { "theirs": { "command": "x" } } }"#);
    let ran = home.command(&["tools", "theirs", "-o", "human"]).current_dir(home.path("clone")).output().unwrap();
    let ran = Ran::of(&ran);
    assert_eq!(ran.code, 7, "{ran:?}");
    let last = ran.talk.lines().last().unwrap();
    assert!(last.starts_with("hint: to accept exactly this, run: toolway servers accept theirs --digest "), "{ran:?}");
}

#[test]
fn code_8_is_a_protocol_error() {
    let home = Home::with_sample();
    home.run(&["rpc", "sample", "nonsense"]).failed(8, "rpc_error");
    home.run(&["call", "--stdio", &odd("unknown-type"), "odd"]).failed(8, "protocol");
}

#[test]
fn interrupt_stops_a_command_wherever_it_waits() {
    let home = Home::with_sample();
    let mute = odd("mute");
    // Waiting for a handshake, for several servers, and for the end of standard input.
    let waiting: [&[&str]; 3] =
        [&["tools", "--stdio", &mute], &["status", "--stdio", &mute], &["call", "sample.add", "-"]];
    for words in waiting {
        let mut command = home.command(words);
        let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
        thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(wait(&mut child, Duration::from_secs(5)).code(), Some(130), "{words:?}");
    }
}

#[test]
fn interrupt_cancels_the_call_at_the_server() {
    let home = Home::new();
    let record = home.path("record");
    let server = format!("{} {}", odd("wrong-id"), record.display());
    let mut child = Running::start(
        home.command(&["call", "--stdio", &server, "odd", "-o", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped()),
    );
    let heard = || std::fs::read_to_string(&record).unwrap_or_default();
    let began = Instant::now();
    while !heard().contains("tools/call") {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", heard());
        thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = wait(&mut child, Duration::from_secs(5));
    assert_eq!(status.code(), Some(130));
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    let error = &serde_json::from_str::<serde_json::Value>(&talk).unwrap()["error"];
    let message = "interrupted; outcome unknown: the server may have acted on the call";
    assert_eq!((&error["code"], &error["exit"]), (&"interrupted".into(), &130.into()));
    assert_eq!((&error["message"], &error["outcome"]), (&message.into(), &"unknown".into()));
    let began = Instant::now();
    while !heard().contains("notifications/cancelled") {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", heard());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn internal_commands_are_not_suggested() {
    let home = Home::new();
    let ran = home.run(&["compl"]);
    assert!(ran.talk.contains("'completions'") && !ran.talk.contains("__complete"), "{ran:?}");
    let help = home.run(&["rpc", "--help"]);
    assert!(help.ok().contains("Usage: toolway rpc [OPTIONS] [SERVER] <METHOD> [PARAMS]\n"), "{help:?}");
}

#[test]
fn commands_about_all_servers_say_that_none_is_configured() {
    let home = Home::new();
    for words in [&["doctor"][..], &["status"], &["tools"]] {
        let error = home.run(words).failed(2, "unknown_server");
        assert_eq!(error["message"], "no server is configured", "{words:?}");
        assert!(error["hint"].as_str().unwrap().contains("toolway servers add"), "{error}");
    }
}
