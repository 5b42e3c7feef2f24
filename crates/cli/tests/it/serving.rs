//! `toolway serve`, as an operator runs it.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::{fs::DirBuilderExt, net::UnixListener},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving, until},
    home::{Home, Running, TOOLWAY, wait},
    terminal::Terminal,
};

#[test]
fn shutdown_finishes_calls_and_ends_subscriptions() {
    let home = Home::new();
    let serving = Serving::start(&home, &[]);
    let mut listening = serving.call("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    until(&mut listening, "subscriptions/acknowledged");
    let mut calling =
        serving.call("tools/call", json!({ "name": "sample__count", "arguments": { "to": 4, "pause": 200 } }));
    until(&mut calling, "1 of 4");

    serving.terminate();

    let mut rest = String::new();
    calling.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("Counted to 4."), "{rest}");
    let mut end = String::new();
    listening.read_to_string(&mut end).unwrap();
    assert!(end.contains(r#""result""#) && end.contains("complete"), "{end}");
    let (code, talk) = serving.ended();
    assert_eq!(code, Some(0), "{talk}");
}

#[test]
fn gateway_serves_its_parent_over_stdio() {
    let home = Home::new();
    let mut child = Running::start(
        home.command(&["serve", "--stdio"]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()),
    );
    let mut stdin = child.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "sample__echo", "arguments": { "text": "over a pipe" } } }),
    ] {
        writeln!(stdin, "{message}").unwrap();
    }
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answer = |id: u64| {
        let messages = lines.by_ref().map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
        messages.into_iter().find(|message| message["id"] == id).unwrap()
    };
    assert_eq!(answer(1)["result"]["serverInfo"]["name"], "toolway");
    assert_eq!(answer(2)["result"]["content"][0]["text"], "over a pipe");
    drop(stdin);
    assert_eq!(wait(&mut child, std::time::Duration::from_secs(20)).code(), Some(0));
}

/// `printf '…' | toolway serve --stdio`, as users try a server.
#[test]
fn requests_before_the_end_of_input_are_answered() {
    let home = Home::with_sample();
    let count = |server: &str| json!({ "name": format!("{server}__count"), "arguments": { "to": 3, "pause": 100 } });
    let begin = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "pipe", "version": "1" } });
    let input: String = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": count("sample") }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": count("old-sample") }),
    ]
    .iter()
    .map(|message| format!("{message}\n"))
    .collect();
    let ran = home.run_with_input(&["serve", "--stdio"], &input);
    let said: Vec<Value> = ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |id: u64| said.iter().find(|said| said["id"] == id).unwrap_or_else(|| panic!("{id}: {ran:?}"));
    assert_eq!(of(1)["result"]["serverInfo"]["name"], "toolway");
    for id in [2, 3] {
        assert_eq!(of(id)["result"]["content"][0]["text"], "Counted to 3.", "{ran:?}");
    }
}

/// Logs for a client that did not set a level; without a configured server the sample is served.
#[test]
fn default_log_level_is_configurable() {
    let begin = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "pipe", "version": "1" } });
    let input: String = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "sample__count" } }),
    ]
    .iter()
    .map(|message| format!("{message}\n"))
    .collect();
    for (level, heard) in [("info", true), ("warning", false), ("off", false)] {
        let home = Home::new();
        home.configure(&json!({ "gateway": { "logLevel": level } }).to_string());
        let ran = home.run_with_input(&["serve", "--stdio"], &input);
        assert!(ran.ok().contains("Counted to 3."), "{ran:?}");
        assert_eq!(ran.ok().contains("notifications/message"), heard, "{level}: {ran:?}");
    }
}

#[test]
fn each_call_is_logged_and_counted() {
    let home = Home::with_sample();
    let serving = Serving::start(&home, &["--log", "json"]);
    home.settled(&serving, "sample", "ready");
    let called =
        Answer::of(serving.call("tools/call", json!({ "name": "sample__echo", "arguments": { "text": "hunter2" } })));
    assert!(called.body.contains("hunter2"), "{called:?}");
    assert_eq!(serving.get("/servers", "tw_wrong").status, 401);
    let figures = serving.get("/metrics", serving.key());
    assert!(figures.head.contains("application/openmetrics-text; version=1.0.0"), "{figures:?}");
    assert!(
        figures.body.contains(r#"toolway_calls_total{server="sample",kind="tool",state="succeeded"} 1"#),
        "{figures:?}"
    );
    let key = serving.key().to_owned();
    let talk = serving.stop();
    let lines: Vec<Value> = talk.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let call = lines.iter().find(|line| line["event"] == "call").unwrap();
    assert_eq!(
        (&call["name"], &call["server"], &call["state"]),
        (&"sample__echo".into(), &"sample".into(), &"succeeded".into())
    );
    assert!(lines.iter().any(|line| line["event"] == "refused" && line["status"] == 401), "{talk}");
    assert!(!talk.contains("hunter2") && !talk.contains(&key), "{talk}");

    let quiet = Serving::start(&home, &["--log", "off"]);
    assert_eq!(quiet.get("/servers", "tw_wrong").status, 401);
    assert!(!quiet.stop().contains("401"));
}

#[test]
fn hanging_servers_do_not_delay_the_first_response() {
    let home = Home::new();
    home.configure(
        r#"{ "mcpServers": {
            "one": { "command": "sleep", "args": ["1000"] },
            "two": { "command": "sleep", "args": ["1000"] },
            "three": { "command": "sleep", "args": ["1000"] } } }"#,
    );
    let began = Instant::now();
    let serving = Serving::start(&home, &[]);
    let listed = Answer::of(serving.call("tools/list", json!({})));
    assert!(listed.body.contains(r#""tools":[]"#), "{listed:?}");
    // A gateway that waits for its servers takes their connect timeout, ten seconds and more. `toolway-bench gateway` has
    // the exact time.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    drop(serving);

    let serving = Serving::start(&home, &[]);
    let servers = serving.get("/servers", serving.key()).json();
    for server in servers["servers"].as_array().unwrap() {
        assert_eq!((&server["state"], &server["because"]), (&"connecting".into(), &"connecting".into()), "{servers}");
    }
}

#[test]
fn the_start_says_how_many_servers_are_ready_and_what_helps_the_others() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{ "gateway": {{ "publicUrl": "https://tools.example/x" }}, "mcpServers": {{
            "works": {{ "command": "{TOOLWAY}", "args": ["sample"] }},
            "gone": {{ "command": "/nonexistent/server" }},
            "slow": {{ "command": "sleep", "args": ["1000"] }},
            "off": {{ "command": "sleep", "disabled": true }} }} }}"#
    ));
    home.run(&["clients", "add", "editor"]).ok();
    let said = home.path("gateway.txt");
    let log = home.path("gateway.log");
    let mut child = Running::start(
        home.command(&["serve", "--listen", "127.0.0.1:0", "--console", "off", "-o", "human"])
            .stdout(File::create(&said).unwrap())
            .stderr(File::create(&log).unwrap()),
    );
    let began = Instant::now();
    let talk = loop {
        let talk = std::fs::read_to_string(&log).unwrap();
        if talk.contains("`toolway status slow`") {
            break talk;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{talk}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(talk.contains("toolway: 1 of 3 servers ready\n"), "{talk}");
    let gone = talk.lines().find(|line| line.starts_with("toolway: server `gone`: ")).unwrap();
    assert!(gone.contains("/nonexistent/server") && gone.ends_with(": `toolway doctor gone`"), "{gone}");
    assert!(talk.contains("toolway: server `slow`: still connecting: `toolway status slow`\n"), "{talk}");
    assert!(!talk.contains("`off`"), "{talk}");
    // No snippet, but the command that prints one.
    let said = std::fs::read_to_string(&said).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("listening on http://127.0.0.1:"), "{said}");
    assert_eq!(
        lines[1..],
        [
            "URL for clients: https://tools.example/x/mcp",
            "`toolway clients snippet NAME [--for codex]` prints how to set up a client that has a key"
        ]
    );
    let snippet = home.run(&["clients", "snippet", "editor", "--for", "codex", "-o", "raw"]);
    assert!(snippet.ok().contains("https://tools.example/x/mcp"), "{snippet:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn failed_server_is_logged_with_its_reason() {
    let home = Home::new();
    home.configure(r#"{ "mcpServers": { "gone": { "command": "false" } } }"#);
    let serving = Serving::start(&home, &[]);
    let gone = home.settled(&serving, "gone", "waiting");
    assert!(gone["because"].as_str().unwrap().contains("ended"), "{gone}");
    std::thread::sleep(Duration::from_millis(1_200));
    let talk = serving.stop();
    assert!(
        talk.lines().any(|line| line.contains(" server name=gone state=\"") && line.contains("because=")),
        "{talk}"
    );
}

#[test]
fn open_access_is_limited_to_loopback_and_known_host_names() {
    let home = Home::new();
    home.configure(r#"{ "gateway": { "access": "open", "hosts": ["tools.example"] } }"#);
    let error = home.run(&["serve", "--listen", "0.0.0.0:0"]).failed(2, "open_access");
    assert!(error["message"].as_str().unwrap().contains("use keys"), "{error}");
    let serving = Serving::start(&home, &[]);
    assert_eq!((&serving.said["access"], &serving.said["key"]), (&"open".into(), &Value::Null));
    let status = |host: &str| {
        let mut stream = std::net::TcpStream::connect(&serving.authority).unwrap();
        write!(stream, "GET /servers HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        Answer::of(stream).status
    };
    assert_eq!((status("tools.example"), status("localhost"), status("evil.example")), (200, 200, 403));
    drop(serving);
    // With keys it may listen on other addresses.
    home.configure(r#"{ "gateway": { "listen": "0.0.0.0:0" } }"#);
    let mut child =
        Running::start(home.command(&["serve", "--console", "off", "-o", "json"]).stdout(std::process::Stdio::piped()));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert!(line.contains("http://0.0.0.0:") && line.contains(r#""access":"keys""#), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn config_option_selects_the_served_file() {
    let home = Home::new();
    let file = home.write(
        "other.json",
        &format!(r#"{{ "mcpServers": {{ "mine": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#),
    );
    let serving = Serving::start(&home, &["--config", file.to_str().unwrap()]);
    let mine = home.settled(&serving, "mine", "ready");
    assert_eq!((&mine["counts"]["tools"], &mine["path"]), (&7.into(), &"/servers/mine/mcp".into()));
}

#[test]
fn a_key_for_this_run_is_printed_at_a_terminal() {
    let home = Home::new();
    let words = ["serve", "--listen", "127.0.0.1:0", "--console", "off", "-o", "human"];
    let terminal = Terminal::start_with(home.command(&words), 200);
    let said = terminal.until("`toolway clients add NAME` creates the key").replace('\r', "");
    let after = |start: &str| said.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned();
    let url = after("listening on ");
    let key = after("key for this run: ");
    assert!(!said.contains("mcpServers") && !said.contains("claude mcp add"), "{said}");
    let bearer = format!("Authorization: Bearer {key}");
    let words = ["call", "--url", &url, "--header", &bearer, "sample__echo", "text=hi", "-o", "raw"];
    assert_eq!(Home::new().run(&words).ok(), "hi\n");
    terminal.interrupts();
    terminal.end(Duration::from_secs(20));
}

#[test]
fn the_snippet_of_a_client_is_printed_on_request() {
    let home = Home::with_sample();
    home.run(&["clients", "snippet", "editor"]).failed(2, "clients");
    home.run(&["clients", "add", "editor"]).ok();
    let all = home.run(&["clients", "snippet", "editor"]).json();
    assert_eq!((all["snippets"].as_array().unwrap().len(), &all["url"]), (5, &"http://127.0.0.1:7717/mcp".into()));
    let codex = home.run(&["clients", "snippet", "editor", "--for", "codex", "-o", "raw"]);
    assert!(codex.ok().starts_with("[mcp_servers.toolway]\nurl = ") && codex.out.contains("Bearer <key>"), "{codex:?}");
}

#[test]
fn no_key_is_made_for_output_that_is_not_a_terminal() {
    let home = Home::new();
    let log = home.path("gateway.log");
    let mut child = Running::start(
        home.command(&["serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "-o", "human"])
            .stdout(File::create(home.path("gateway.txt")).unwrap())
            .stderr(File::create(&log).unwrap()),
    );
    let began = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("console:") {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    let said = std::fs::read_to_string(home.path("gateway.txt")).unwrap();
    let talk = std::fs::read_to_string(&log).unwrap();
    assert!(!said.contains("tw_") && !talk.contains("tw_") && !talk.contains("token="), "{said} {talk}");
    assert!(said.contains("\n`toolway clients add NAME` creates the key of a client"), "{said}");
    assert!(talk.contains("/ (`toolway console --no-open` prints a link that signs you in)"), "{talk}");
    let link = home.run(&["console", "--no-open"]).json()["console"].as_str().unwrap().to_owned();
    assert!(link.contains("/login?token="), "{link}");
    // The first key is accepted while the gateway runs.
    let key = home.run(&["clients", "add", "editor"]).json()["key"].as_str().unwrap().to_owned();
    let url = said.lines().next().unwrap().trim_start_matches("listening on ").to_owned();
    let bearer = format!("Authorization: Bearer {key}");
    assert_eq!(
        home.run(&["call", "--url", &url, "--header", &bearer, "sample__echo", "text=hi", "-o", "raw"]).ok(),
        "hi\n"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn revoked_key_is_refused_by_the_running_gateway() {
    let home = Home::with_sample();
    let key = home.run(&["clients", "add", "editor", "--servers", "sample", "-o", "raw"]).ok().trim().to_owned();
    assert!(key.starts_with("tw_"), "only the key: {key}");
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.said["key"], Value::Null);
    let seen = serving.get("/servers", &key).json();
    assert_eq!(seen["servers"].as_array().unwrap().len(), 1, "{seen}");
    assert!(!std::fs::read_to_string(home.path(".local/state/toolway/clients.json")).unwrap().contains(&key));
    let revoked = home.run(&["clients", "revoke", "editor", "-o", "human"]);
    assert_eq!(serving.get("/servers", &key).status, 401, "refused when the command returns");
    assert_eq!(revoked.ok(), "Revoked the key of client `editor`; the running gateway refuses it.\n");
    let key = home.run(&["clients", "add", "editor", "-o", "raw"]).ok().trim().to_owned();
    assert_eq!(serving.get("/servers", &key).status, 200, "accepted when the command returns");
    let revoked = home.run(&["clients", "revoke", "editor", "-o", "json"]).json();
    assert_eq!(revoked["confirmed"], json!([serving.pid()]));
}

#[test]
fn revoking_fails_if_a_running_gateway_does_not_confirm_it() {
    let home = Home::with_sample();
    home.run(&["clients", "add", "editor"]).ok();
    let alone = home.run(&["clients", "revoke", "editor", "-o", "human"]);
    assert_eq!(alone.ok(), "Revoked the key of client `editor`; no gateway with client keys is running.\n");
    home.run(&["clients", "add", "editor"]).ok();
    let folder = home.path(".local/state/toolway/run");
    std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("gateway-other.sock")).unwrap();
    let gateway = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting = json!({ "toolway": "0.1.0", "control": 1, "process": 7 });
        let failed = json!({ "failed": { "code": "keys", "message": "cannot read the client keys" } });
        stream.write_all(format!("{greeting}\n{failed}\n").as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    });
    let error = home.run(&["clients", "revoke", "editor"]).failed(4, "clients");
    assert!(error["message"].as_str().unwrap().ends_with(": cannot read the client keys"), "{error}");
    gateway.join().unwrap();
}

#[test]
fn keys_are_listed_with_their_expiry_and_only_for_known_servers() {
    let home = Home::with_sample();
    let error = home.run(&["clients", "add", "guest", "--servers", "samplee"]).failed(2, "unknown_server");
    assert_eq!(error["message"], "unknown server `samplee`; did you mean `sample`?");
    home.run(&["clients", "add", "guest", "--servers", "sample", "--expires", "12h"]).ok();
    home.run(&["clients", "add", "month", "--expires", "30d"]).ok();
    let listed = home.run(&["clients", "list", "-o", "human"]);
    let expected = [
        "CLIENT  CAN USE      CREATED   LAST USED  EXPIRES",
        "guest   sample       just now  never      in 12 h",
        "month   all servers  just now  never      in 30 days",
    ];
    assert_eq!(listed.ok().lines().collect::<Vec<_>>(), expected);
}
