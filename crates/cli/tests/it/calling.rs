//! `toolway call`: every way to say which tool of which server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::home::{Home, Ran, TOOLWAY, odd, sample};

/// The sample server over HTTP, as long as this lives.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(home: &Home) -> Self {
        let mut child = home.command(&["sample", "--http"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

#[test]
fn a_tool_is_named_with_its_server_in_three_ways() {
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
fn a_public_name_that_had_to_be_made_safe_is_understood() {
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
fn a_tool_without_its_server_is_understood_where_names_carry_none_and_hinted_at_elsewhere() {
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
    assert_eq!(error["hint"], "Did you mean `it.echo`?");
}

#[test]
fn a_server_is_given_on_the_command_line() {
    let home = Home::new();
    let said = home.run(&["call", "--stdio", &sample(), "echo", "text=a 'b' c", "-o", "human"]);
    assert_eq!(said.ok(), "a 'b' c\n");
    assert_eq!(said.talk, "");
}

#[test]
fn a_call_can_be_written_as_in_code() {
    let home = Home::with_sample();
    assert_eq!(home.run(&["call", r#"sample.echo(text: "a.b (c)")"#, "-o", "raw"]).ok(), "a.b (c)\n");
    assert_eq!(home.run(&["@sample", "call", "add(2, 3)", "-o", "human"]).ok(), "{\"sum\":5.0}\n");
    let wrong = home.run(&["call", "sample.echo(text: hello)"]).failed(2, "arguments");
    assert_eq!(wrong["hint"], "It takes: echo(text: string)\nIn parentheses a value is JSON: put a text in quotes.");
    home.run(&["call", "sample.add(1)", "b=2"]).failed(2, "arguments");
}

#[test]
fn a_program_gets_the_variables_and_the_folder_it_is_given() {
    let home = Home::new();
    let folder = home.write("work/note", "").parent().unwrap().canonicalize().unwrap();
    let teller = "sh -c 'echo \"$GREETING, $HANDED in $(pwd), not ${SHY-seen}\" >&2; exit 3'";
    let mut command = home.command(&["ping", "--stdio", teller, "--env", "GREETING=a=b", "--env", "HANDED"]);
    let ran = Ran::of(&command.args(["--cwd", "work"]).env("HANDED", "our").env("SHY", "secret").output().unwrap());
    let message = ran.failed(4, "ended")["message"].to_string();
    assert!(message.contains(&format!("a=b, our in {}, not seen", folder.display())), "{message}");
}

#[test]
fn variables_and_folders_are_for_programs_on_the_command_line() {
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
    assert!(gone["message"].to_string().contains("nowhere is not a directory"), "{gone}");
}

#[test]
fn what_a_variable_holds_is_masked_on_the_wire() {
    let home = Home::new();
    let words = ["call", "--stdio", &sample(), "--env", "TOKEN=t0k3n-t0k3n", "echo", "text=t0k3n-t0k3n", "-v"];
    let ran = home.run(&words);
    assert!(ran.ok().contains("t0k3n") && ran.talk.contains("•••") && !ran.talk.contains("t0k3n"), "{ran:?}");
}

#[test]
fn a_server_is_given_by_its_address() {
    let home = Home::new();
    let served = Served::start(&home);
    for era in ["auto", "legacy", "modern"] {
        let said = home.run(&["call", "--url", &served.url, "--era", era, "add", "2", "3", "-o", "human"]);
        assert_eq!(said.ok(), "{\"sum\":5.0}\n", "{era}");
    }
}

#[test]
fn a_file_is_given_with_config() {
    let home = Home::new();
    let file = home.write(
        "other.json",
        &format!(r#"{{"mcpServers":{{"it":{{"command":"{}","args":["sample"]}}}}}}"#, crate::home::TOOLWAY),
    );
    let said = home.run(&["--config", file.to_str().unwrap(), "call", "it.echo", "there", "-o", "human"]);
    assert_eq!(said.ok(), "there\n");
}

#[test]
fn a_program_sees_what_its_entry_names_and_little_else() {
    let home = Home::new();
    home.configure(
        r#"{"mcpServers":{"shell":{"command":"sh","args":["-c","echo \"$SECRET|${GIVEN#for }|$GIVEN\" >&2; exit 3"],
            "env":{"GIVEN":"for ${PLACE}"}}}}"#,
    );
    let mut command = home.command(&["tools", "shell", "-o", "human"]);
    let ran = crate::home::Ran::of(&command.env("SECRET", "s3cret").env("PLACE", "over there").output().unwrap());
    assert_eq!(ran.code, 4);
    assert_eq!(
        ran.talk, "toolway: The connection ended: it exited with status 3; its last words: |over there|[hidden].\n",
        "what it is given reaches it, and is not repeated when it says it"
    );
}

#[test]
fn the_result_is_the_servers_own_object_byte_for_byte() {
    let home = Home::with_sample();
    let said = home.run(&["call", "old-sample.add", "a=1", "b=2", "-o", "json"]);
    let expected =
        r#"{"content":[{"text":"{\"sum\":3.0}","type":"text"}],"isError":false,"structuredContent":{"sum":3.0}}"#;
    assert_eq!(said.ok(), format!("{expected}\n"));
}

#[test]
fn each_happening_of_a_call_is_a_line_of_ndjson() {
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
fn a_picture_is_described_saved_and_given_raw() {
    let home = Home::with_sample();
    let described = home.run(&["call", "sample.picture", "-o", "human"]);
    assert_eq!(described.ok(), "{\"height\":8,\"width\":8}\n[image: image/png, 173 bytes; --save writes it]\n");

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
fn a_dry_run_prints_the_exact_request_and_sends_nothing() {
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
fn a_command_that_has_its_answer_does_not_wait_for_its_server() {
    let home = Home::new();
    let began = Instant::now();
    let server = format!("sh -c 'trap \"\" TERM; {}; sleep 20'", sample());
    assert_eq!(home.run(&["call", "--stdio", &server, "echo", "hi", "-o", "human"]).ok(), "hi\n");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn headers_go_to_the_address_and_are_not_shown() {
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

/// A server with a session that notes the first line of every request.
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
fn a_session_is_given_back_also_after_a_mistake() {
    let requests = Arc::default();
    let url = noting(Arc::clone(&requests));
    Home::new().run(&["call", "--url", &url, "--era", "legacy", "none"]).failed(2, "unknown_tool");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.last().map(String::as_str), Some("DELETE /mcp HTTP/1.1"), "{requests:?}");
}
