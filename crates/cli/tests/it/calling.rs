//! `toolway call`: every way to select a tool and a server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::home::{Home, Ran, TOOLWAY, odd, sample};

/// The sample server over HTTP; stopped on drop.
struct ServerProcess {
    child: Child,
    url: String,
}

impl ServerProcess {
    fn start(home: &Home) -> Self {
        let mut child = home.command(&["sample", "--http"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

#[test]
fn tool_is_selected_with_its_server_in_three_ways() {
    let home = Home::with_sample();
    for words in [
        &["call", "sample.echo", "text=hello"][..],
        &["call", "sample__echo", "text=hello"],
        &["@sample", "call", "echo", "text=hello"],
        &["-o", "human", "@sample", "call", "echo", "text=hello"],
        &["call", "--server", "sample", "echo", "text=hello"],
        &["call", "old-sample.echo", "text=hello"],
        &["@Old Sample", "call", "echo", "text=hello"],
    ] {
        let ran = home.run(words);
        assert!(ran.ok().contains("hello"), "{words:?} {ran:?}");
    }
    assert_eq!(home.run(&["call", "sample.echo", "text=hello", "-o", "human"]).ok(), "hello\n");
}

#[test]
fn sanitised_public_name_is_accepted() {
    let home = Home::new();
    let painter = odd("paints");
    let (program, what) = painter.split_once(' ').unwrap();
    home.configure(&format!(r#"{{"mcpServers":{{"odd":{{"command":"{program}","args":["{what}"]}}}}}}"#));
    let listed = home.run(&["tools", "-o", "raw"]);
    let name = listed.ok().lines().last().unwrap();
    assert!(name.starts_with("odd____31mred") && name.len() <= 64, "{name}");
    let called = home.run(&["call", name, "-v", "-o", "json"]);
    assert!(called.json()["content"].is_array(), "{}", called.talk);
    assert!(called.talk.contains("\"name\":\"\\u001b[31mred"), "{}", called.talk);
}

#[test]
fn tool_without_server_is_accepted_only_if_names_have_no_prefix() {
    let home = Home::new();
    let configure = |prefix: &str| {
        home.configure(&format!(
            r#"{{"naming":{{"prefix":"{prefix}"}},"mcpServers":{{"it":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#
        ));
    };
    configure("auto");
    home.run(&["call", "echo", "hi"]).failed(2, "unknown_server");
    assert_eq!(home.run(&["tools", "-o", "raw"]).ok().lines().next(), Some("echo"));
    assert_eq!(home.run(&["call", "echo", "hi", "-o", "human"]).ok(), "hi\n");
    configure("always");
    let error = home.run(&["call", "echo", "hi"]).failed(2, "unknown_server");
    assert_eq!(error["message"], "`echo` does not name a server; did you mean `it.echo`?");
}

#[test]
fn server_is_given_on_the_command_line() {
    let home = Home::new();
    let said = home.run(&["call", "--stdio", &sample(), "echo", "text=a 'b' c", "-o", "human"]);
    assert_eq!(said.ok(), "a 'b' c\n");
    assert_eq!(said.talk, "");
}

#[test]
fn call_form_is_accepted() {
    let home = Home::with_sample();
    assert_eq!(home.run(&["call", r#"sample.echo(text: "a.b (c)")"#, "-o", "raw"]).ok(), "a.b (c)\n");
    assert_eq!(home.run(&["@sample", "call", "add(2, 3)", "-o", "human"]).ok(), "{\"sum\":5.0}\n");
    let wrong = home.run(&["call", "sample.echo(text: hello)"]).failed(2, "arguments");
    assert_eq!(wrong["hint"], "usage: echo(text: string)\nvalues in parentheses are JSON; put a string in quotes");
    home.run(&["call", "sample.add(1)", "b=2"]).failed(2, "arguments");
}

#[test]
fn stdio_server_gets_given_variables_and_directory() {
    let home = Home::new();
    let folder = home.write("work/note", "").parent().unwrap().canonicalize().unwrap();
    let teller = "sh -c 'echo \"$GREETING, $HANDED in $(pwd), not ${SHY-seen}\" >&2; exit 3'";
    let mut command = home.command(&["ping", "--stdio", teller, "--env", "GREETING=a=b", "--env", "HANDED"]);
    let ran = Ran::of(&command.args(["--cwd", "work"]).env("HANDED", "our").env("SHY", "secret").output().unwrap());
    let message = ran.failed(4, "ended")["message"].to_string();
    assert!(message.contains(&format!("a=b, our in {}, not seen", folder.display())), "{message}");
}

#[test]
fn env_and_cwd_require_stdio() {
    let home = Home::with_sample();
    for words in [
        &["ping", "sample", "--env", "A=b"][..],
        &["ping", "sample", "--cwd", "/"],
        &["ping", "sample", "--header", "A: b"],
        &["ping", "--url", "http://127.0.0.1:9", "--env", "A=b"],
        &["ping", "--stdio", "true", "--env", "=b"],
        &["ping", "--stdio", "true", "--env", "NOT_SET"],
    ] {
        home.run(words).failed(2, "arguments");
    }
    let gone = home.run(&["ping", "--stdio", &sample(), "--cwd", "nowhere"]).failed(4, "unreachable");
    assert!(gone["message"].to_string().contains("nowhere` does not exist or is not a directory"), "{gone}");
}

#[test]
fn value_of_a_variable_is_masked_in_verbose_output() {
    let home = Home::new();
    let words = ["call", "--stdio", &sample(), "--env", "TOKEN=t0k3n-t0k3n", "echo", "text=t0k3n-t0k3n", "-v"];
    let ran = home.run(&words);
    assert!(ran.ok().contains("t0k3n") && ran.talk.contains("•••") && !ran.talk.contains("t0k3n"), "{ran:?}");
}

#[test]
fn server_is_given_by_url() {
    let home = Home::new();
    let served = ServerProcess::start(&home);
    for era in ["auto", "legacy", "modern"] {
        let said = home.run(&["call", "--url", &served.url, "--era", era, "add", "2", "3", "-o", "human"]);
        assert_eq!(said.ok(), "{\"sum\":5.0}\n", "{era}");
    }
}

#[test]
fn config_option_selects_the_file() {
    let home = Home::new();
    let file = home.write(
        "other.json",
        &format!(r#"{{"mcpServers":{{"it":{{"command":"{}","args":["sample"]}}}}}}"#, crate::home::TOOLWAY),
    );
    let said = home.run(&["--config", file.to_str().unwrap(), "call", "it.echo", "there", "-o", "human"]);
    assert_eq!(said.ok(), "there\n");
}

#[test]
fn stdio_server_inherits_only_configured_variables() {
    let home = Home::new();
    home.configure(
        r#"{"mcpServers":{"shell":{"command":"sh","args":["-c","echo \"$SECRET|${GIVEN#for }|$GIVEN\" >&2; exit 3"],
            "env":{"GIVEN":"for ${PLACE}"}}}}"#,
    );
    let mut command = home.command(&["tools", "shell", "-o", "human"]);
    let ran = crate::home::Ran::of(&command.env("SECRET", "s3cret").env("PLACE", "over there").output().unwrap());
    assert_eq!(ran.code, 4);
    assert_eq!(
        ran.talk,
        "toolway: the connection ended: the server exited with status 3; last stderr output: |over there|[hidden]\n",
        "the variable reaches the server and is hidden in its output"
    );
}

#[test]
fn result_is_the_servers_object_byte_for_byte() {
    let home = Home::with_sample();
    let said = home.run(&["call", "old-sample.add", "a=1", "b=2", "-o", "json"]);
    let expected =
        r#"{"content":[{"text":"{\"sum\":3.0}","type":"text"}],"isError":false,"structuredContent":{"sum":3.0}}"#;
    assert_eq!(said.ok(), format!("{expected}\n"));
}

#[test]
fn each_event_of_a_call_is_a_line_of_ndjson() {
    let home = Home::with_sample();
    let said = home.run(&["call", "old-sample.count", "to=2", "--output", "ndjson"]);
    let expected = [
        r#"{"method":"notifications/progress","params":{"message":"1 of 2","progress":1,"total":2}}"#,
        r#"{"method":"notifications/progress","params":{"message":"2 of 2","progress":2,"total":2}}"#,
        r#"{"content":[{"text":"Counted to 2.","type":"text"}],"isError":false}"#,
    ];
    let lines: Vec<&str> = said.ok().lines().filter(|line| !line.contains("notifications/message")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn standard_output_is_one_value_if_text_and_structured_content_differ() {
    let home = Home::new();
    let other_text = r#"s/"text":"{[^}]*}"/"text":"They are five."/"#;
    let script = home.write("server.sh", &format!("{} | sed -u '{other_text}'\n", sample()));
    let server = format!("sh {}", script.display());
    let call = |format| home.run(&["call", "--stdio", &server, "add", "2", "3", "-o", format]);
    let shown = call("human");
    assert_eq!((shown.ok(), shown.talk.as_str()), ("{\n  \"sum\": 5.0\n}\n", "They are five.\n"));
    assert_eq!(call("raw").ok(), "They are five.\n");
    assert_eq!(home.run(&["call", "--stdio", &sample(), "add", "2", "3", "-o", "human"]).ok(), "{\"sum\":5.0}\n");
}

#[test]
fn image_is_described_saved_and_printed_raw() {
    let home = Home::with_sample();
    let described = home.run(&["call", "sample.picture", "-o", "human"]);
    assert_eq!(described.ok(), "{\"height\":8,\"width\":8}\n");
    assert_eq!(described.talk, "[image: image/png, 173 bytes; use --save to write it to a file]\n");

    let saved = home.run(&["call", "sample.picture", "--save", "pictures/", "-o", "human"]);
    assert_eq!(saved.ok(), "{\"height\":8,\"width\":8}\n");
    assert_eq!(saved.talk, "Written: pictures/picture-1.png\n");
    let picture = std::fs::read(home.path("pictures/picture-1.png")).unwrap();
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        home.run(&["call", "sample.picture", "--save", "pictures", "-o", "human"]).talk,
        "Written: pictures/picture-2.png\n"
    );

    home.run(&["call", "sample.picture", "--save", "here.png", "-o", "json"]).json();
    assert_eq!(std::fs::read(home.path("here.png")).unwrap(), picture);

    let raw = home.run(&["call", "sample.picture", "-o", "raw"]);
    assert!(raw.bytes.ends_with(&picture), "{raw:?}");
}

#[test]
fn dry_run_prints_the_exact_request_and_sends_nothing() {
    let home = Home::new();
    let record = home.path("record");
    let server = format!("{} {}", crate::home::odd("cut"), record.display());
    let said = home.run(&[
        "call",
        "--stdio",
        &server,
        "odd",
        "big:=123456789012345678901234567890",
        "--dry-run",
        "--era",
        "legacy",
    ]);
    assert_eq!(
        said.ok(),
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"odd\",\
         \"arguments\":{\"big\":123456789012345678901234567890},\"_meta\":{\"progressToken\":3}}}\n"
    );
    let heard = std::fs::read_to_string(&record).unwrap();
    assert_eq!(heard, "start\ninitialize\nnotifications/initialized\ntools/list\n");
}

#[test]
fn command_with_a_result_does_not_wait_for_its_server() {
    let home = Home::new();
    let began = Instant::now();
    let server = format!("sh -c 'trap \"\" TERM; {}; sleep 20'", sample());
    assert_eq!(home.run(&["call", "--stdio", &server, "echo", "hi", "-o", "human"]).ok(), "hi\n");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn headers_are_sent_and_not_printed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp?key=in-the-query", listener.local_addr().unwrap());
    let heard = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 8192];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&request[..length]).to_lowercase()
    });
    let words =
        ["tools", "--url", &url, "--header", "Authorization: Bearer t0ps3cret", "--header", "X-Team: blue", "-v"];
    let ran = Home::new().run(&words);
    let heard = heard.join().unwrap();
    assert!(heard.contains("authorization: bearer t0ps3cret\r\n") && heard.contains("x-team: blue\r\n"), "{heard}");
    assert!(!ran.talk.contains("t0ps3cret") && !ran.talk.contains("in-the-query"), "{ran:?}");
}

/// A server with a session that records the first line of every request.
fn noting(requests: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            requests.lock().unwrap().push(request.lines().next().unwrap_or_default().to_owned());
            let answers = [
                (
                    "\"initialize\"",
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#,
                ),
                ("\"tools/list\"", r#"{"tools":[]}"#),
            ];
            let id = request.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
            let answer = answers.iter().find(|(method, _)| request.contains(method)).map(|(_, result)| {
                let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
                format!("200 OK\r\nmcp-session-id: s1\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
            });
            let refused = if request.starts_with("POST") { "202 Accepted" } else { "405 Method Not Allowed" };
            let answer = answer.unwrap_or(format!("{refused}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            let _gone = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
        }
    });
    url
}

#[test]
fn session_is_closed_after_a_usage_error_too() {
    let requests = Arc::default();
    let url = noting(Arc::clone(&requests));
    Home::new().run(&["call", "--url", &url, "--era", "legacy", "none"]).failed(2, "unknown_tool");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.last().map(String::as_str), Some("DELETE /mcp HTTP/1.1"), "{requests:?}");
}

#[test]
fn item_is_addressed_in_one_word_or_two_by_every_command() {
    let home = Home::with_sample();
    let says = |words: &[&str], text: &str| {
        let ran = home.run(&[words, &["-o", "human"]].concat());
        assert!(ran.ok().contains(text), "{words:?}: {ran:?}");
    };
    says(&["call", "sample", "echo", "text=hello"], "hello");
    says(&["call", "Old Sample", "echo", "hello"], "hello");
    says(&["call", "sample", "echo(text: \"hello\")"], "hello");
    says(&["call", "sample", "echo", "--args", r#"{"text":"hello"}"#], "hello");
    says(&["call", "sample.echo", "--args", r#"{"text":"hello"}"#], "hello");
    for words in [&["tools", "sample", "echo"][..], &["tools", "sample.echo"], &["tools", "sample__echo"]] {
        says(words, "echo(text: string)");
    }
    for words in [&["prompts", "sample", "introduce"][..], &["prompts", "sample.introduce"]] {
        says(words, "introduce(name)");
    }
    for words in
        [&["prompts", "get", "sample", "introduce", "name=Ada"][..], &["prompts", "get", "sample.introduce", "Ada"]]
    {
        says(words, "Introduce Ada");
    }
    for words in [&["resources", "read", "sample", "memo://today"][..], &["resources", "read", "sample.memo://today"]] {
        says(words, "Buy bread.");
    }
    let error = home.run(&["prompts", "get", "sample"]).failed(2, "unknown_prompt");
    assert_eq!(error["message"], "`sample` is a server, not a prompt; use `sample.<prompt>` or `sample <prompt>`");
    assert_eq!(error["hint"], "list its prompts with `toolway prompts sample`");
    home.run(&["call", "sample", "text=hello"]).failed(2, "unknown_tool");
    home.run(&["call", "sample", "echo", "hello", "--args", "{}"]).failed(2, "arguments");
}

#[test]
fn program_with_arguments_in_command_is_explained() {
    let home = Home::new();
    home.configure(r#"{"mcpServers":{"it":{"command":"toolway sample"}}}"#);
    let error = home.run(&["tools", "it"]).failed(4, "unreachable");
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("`command` is the program alone, its arguments belong in `args`"), "{message}");
}
