//! `toolway status`, `toolway doctor`, and tools that are searched for and judged.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::home::{Home, TOOLWAY, odd, sample};

fn home() -> Home {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{
            "sample":{{"command":"{TOOLWAY}","args":["sample"],"env":{{"API_KEY":"sk-t0ps3cret-t0ps3cret"}},"excludeTools":["fail"]}},
            "broken":{{"command":"sh","args":["-c","echo \"cannot read $TOKEN\" >&2; exit 7"],"env":{{"TOKEN":"t0ps3cret"}}}},
            "unset":{{"command":"x","env":{{"KEY":"${{NOT_SET}}"}}}},
            "off":{{"command":"x","disabled":true}}
        }}}}"#
    ));
    home
}

#[test]
fn status_is_a_row_for_each_server() {
    let home = home();
    let ran = home.run(&["status", "-o", "human"]);
    let rows: Vec<&str> = ran.ok().lines().collect();
    assert_eq!(
        rows[0],
        "broken  failed    the connection ended: it exited with status 7; its last words: cannot read [hidden]"
    );
    assert_eq!(rows[1].trim_end(), "off     disabled");
    let healthy = "sample  ready     6 tools, 1 resource, 1 template, 1 prompt (1 left out); 2026-07-28; connected in ";
    assert!(rows[2].starts_with(healthy), "{}", rows[2]);
    let place = home.path(".config/toolway/toolway.json");
    assert!(rows[3].starts_with(&format!("unset   failed    {}:4: ", place.display())), "{}", rows[3]);
    assert_eq!(home.run(&["status", "sample", "off", "-o", "raw"]).ok(), "sample\tready\noff\tdisabled\n");
    home.run(&["status", "nobody"]).failed(2, "unknown_server");
}

#[test]
fn the_end_of_standard_error_is_shown_to_whoever_wants_more() {
    let home = home();
    let ran = home.run(&["status", "broken", "--verbose", "-o", "human"]);
    assert!(ran.ok().contains("\n    cannot read [hidden]\n"), "{}", ran.out);
    assert!(!ran.out.contains("t0ps3cret") && !ran.talk.contains("t0ps3cret"), "{} {}", ran.out, ran.talk);
}

#[test]
fn ordinary_values_of_an_entry_are_not_taken_for_secrets() {
    let home = Home::new();
    let script = "echo \"$NODE_ENV $DATA $VERBOSE $API_KEY\" >&2; exit 7";
    let env = serde_json::json!({
        "NODE_ENV": "production", "DATA": "/srv/data", "VERBOSE": "true", "API_KEY": "hunter2", "FROM": "${WORD}",
    });
    let entry = serde_json::json!({ "command": "sh", "args": ["-c", format!("echo $FROM >&2; {script}")], "env": env });
    home.configure(&serde_json::json!({ "mcpServers": { "a": entry } }).to_string());
    let ran = crate::home::Ran::of(
        &home.command(&["servers", "logs", "a", "-o", "raw"]).env("WORD", "ordinary").output().unwrap(),
    );
    assert_eq!(ran.ok(), "[hidden]\nproduction /srv/data true [hidden]\n");
}

#[test]
fn without_a_server_that_is_required_the_list_of_all_is_no_success() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}},
            "broken":{{"command":"sh","args":["-c","exit 7"],"required":true}}
        }}}}"#
    ));
    let ran = home.run(&["tools"]);
    ran.failed(4, "required_missing");
    assert!(ran.out.contains("sample__echo"), "what there is, is shown: {}", ran.out);
}

#[test]
fn what_a_program_says_on_standard_error_can_be_read() {
    let home = home();
    let ran = home.run(&["servers", "logs", "broken", "-o", "human"]);
    assert_eq!(ran.ok(), "cannot read [hidden]\n");
    assert!(ran.talk.starts_with("toolway: broken: the connection ended: it exited with status 7"), "{}", ran.talk);
    assert_eq!(
        home.run(&["servers", "logs", "broken", "-o", "json"]).ok(),
        "{\"lines\":[\"cannot read [hidden]\"],\"server\":\"broken\"}\n"
    );
    assert_eq!(home.run(&["servers", "logs", "broken", "-n", "0", "-o", "human"]).ok(), "");
    home.run(&["servers", "logs", "nobody"]).failed(2, "unknown_server");
    assert_eq!(home.run(&["servers", "status", "off", "-o", "raw"]).ok(), "off\tdisabled\n");
}

#[test]
fn a_doctor_says_what_was_done_what_came_of_it_and_what_to_do() {
    let home = home();
    let ran = home.run(&["doctor", "-o", "human"]);
    assert_eq!(ran.code, 4);
    assert_eq!(ran.talk, "toolway: 2 servers are not well.\n");
    let place = home.path(".config/toolway/toolway.json").display().to_string();
    for expected in [
        "broken  failed\n",
        &format!("    written in     {place}:3\n"),
        "    environment    HOME, LANG, PATH, TOKEN\n",
        "    problem        the connection ended: it exited with status 7; its last words: cannot read [hidden]\n",
        "    standard error cannot read [hidden]\n",
        "    what to do     Run its command by hand; what it says on standard error is the reason.\n",
        "    environment    API_KEY, HOME, LANG, PATH\n",
        "    speaks         2026-07-28 (modern)\n",
        "    offers         6 tools, 1 resource, 1 template, 1 prompt (1 left out)\n",
        "    what to do     Nothing; it is well.\n",
        &format!("    what to do     Put its entry right: {place}:4.\n"),
        &format!("    what to do     Nothing; it is disabled in {place}:5.\n"),
    ] {
        assert!(ran.out.contains(expected), "{expected}\n{}", ran.out);
    }
    assert!(!ran.out.contains("t0ps3cret"), "{}", ran.out);

    let well = home.run(&["doctor", "sample"]).json();
    let server = &well["servers"][0];
    assert_eq!((&server["state"], &server["era"]), (&"ready".into(), &"modern".into()), "{server}");
    assert_eq!(server["command"], format!("{TOOLWAY} sample"));
    assert!(
        server["connectMilliseconds"].as_f64().unwrap() > 0.0 && server["listMilliseconds"].is_number(),
        "{server}"
    );
}

#[test]
fn how_a_program_ended_is_told_to_programs() {
    let home = Home::new();
    home.configure(
        r#"{"mcpServers":{"left":{"command":"sh","args":["-c","exit 7"]},
            "shot":{"command":"sh","args":["-c","kill -9 $$"]}}}"#,
    );
    let said: serde_json::Value = serde_json::from_str(&home.run(&["doctor"]).out).unwrap();
    let ends = |server: &serde_json::Value| (server["exitStatus"].as_i64(), server["exitSignal"].as_i64());
    assert_eq!(ends(&said["servers"][0]), (Some(7), None), "{said}");
    assert_eq!(ends(&said["servers"][1]), (None, Some(9)), "{said}");
}

#[test]
fn a_doctor_looks_at_a_server_of_the_command_line_too() {
    let home = Home::new();
    assert_eq!(home.run(&["doctor", "--stdio", &sample()]).json()["servers"][0]["state"], "ready");
    let ran = home.run(&["doctor", "--stdio", "/no/such/program", "-o", "human"]);
    assert_eq!(ran.code, 4);
    assert!(ran.out.contains("    written in     the command line\n"), "{}", ran.out);
    assert!(
        ran.out.contains("what to do     Install the program, or put `command` in the command line right"),
        "{}",
        ran.out
    );
    home.run(&["doctor", "sample", "--stdio", "x"]).failed(2, "arguments");
    home.run(&["doctor"]).failed(2, "unknown_server");
}

/// An address that shakes hands with anybody and lists nothing without a token; counts the hands.
fn shy(handshakes: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let answer = if request.contains("\"initialize\"") {
                handshakes.fetch_add(1, Ordering::SeqCst);
                let body = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}"#;
                format!("200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            } else if request.contains("\"tools/list\"") {
                "401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n".to_owned()
            } else {
                let status = if request.starts_with("POST") { "202 Accepted" } else { "405 Method Not Allowed" };
                format!("{status}\r\ncontent-length: 0\r\n\r\n")
            };
            let answer = format!("HTTP/1.1 {}", answer.replacen("\r\n", "\r\nconnection: close\r\n", 1));
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_server_that_wants_a_token_for_its_lists_is_not_asked_again_and_again() {
    let (home, handshakes) = (Home::new(), Arc::default());
    let url = shy(Arc::clone(&handshakes));
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    // The other one keeps the command waiting for a while.
    home.configure(&format!(
        r#"{{"mcpServers":{{"shy":{{"url":"{url}","era":"legacy"}},
            "mute":{{"command":"{program}","args":["{what}"],"timeouts":{{"connect":1.5}}}}}}}}"#
    ));
    assert_eq!(home.run(&["status", "-o", "raw"]).ok(), "mute\tfailed\nshy\tsign-in needed\n");
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
    home.run(&["tools", "shy"]).failed(3, "unauthorized");
    assert_eq!(handshakes.load(Ordering::SeqCst), 2);
}

/// An address that turns everybody away.
fn bouncer(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _read = stream.read(&mut [0; 8192]).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_credential_that_is_refused_is_not_asked_for_again_but_named() {
    let home = Home::new();
    for (status, header) in [("403 Forbidden", "Authorization"), ("401 Unauthorized", "X-Api-Key")] {
        let url = bouncer(status);
        let number = &status[..3];
        home.configure(&format!(
            "{{ \"mcpServers\": {{ \"lake\": {{ \"url\": \"{url}\",\n\"headers\": {{ \"{header}\": \"s3cret\" }} }} }} }}"
        ));
        let said = format!("it refused the configured `{header}` header (HTTP {number})");
        let error = home.run(&["ping", "lake"]).failed(3, "unauthorized");
        assert_eq!(error["message"].as_str().unwrap().to_lowercase(), format!("{said}.").to_lowercase());
        let place = home.path(".config/toolway/toolway.json");
        let hint = format!(
            "What `headers` of its entry sends in `{header}` is not, or no longer, accepted: {}:2.",
            place.display()
        );
        assert_eq!(error["hint"], hint);
        let status = home.run(&["status"]).json()["servers"][0].clone();
        assert_eq!((&status["state"], &status["reason"]), (&"failed".into(), &said.as_str().into()));
        assert_eq!(status["whoseMove"], "operator");
        let advice: serde_json::Value = serde_json::from_str(&home.run(&["doctor"]).out).unwrap();
        assert_eq!(advice["servers"][0]["advice"], hint);

        let given = home.run(&["ping", "--url", &url, "--header", "authorization: Bearer s3cret"]);
        let error = given.failed(3, "unauthorized");
        assert_eq!(error["hint"], "What --header sends in `authorization` is not accepted.");
        assert!(
            home.run(&["ping", "--url", &url]).failed(3, "unauthorized")["hint"]
                .as_str()
                .unwrap()
                .starts_with("Give a token")
        );
    }
}

#[test]
fn a_program_that_talks_on_its_standard_output_is_quoted() {
    let home = Home::new();
    let script = r#"printf 'Listening on \033[1m3000\n'; sleep 60"#;
    let entry = serde_json::json!({ "command": "sh", "args": ["-c", script], "timeouts": { "connect": 1 } });
    home.configure(&serde_json::json!({ "mcpServers": { "chatty": entry } }).to_string());
    let stray = "its standard output is no MCP: \"Listening on \\u{1b}[1m3000\"";
    let error = home.run(&["tools", "chatty"]).failed(4, "timed_out");
    assert_eq!(error["message"], format!("No answer to the handshake within 1s (connect timeout); {stray}."));
    let status = home.run(&["status"]).json()["servers"][0].clone();
    assert!(status["reason"].as_str().unwrap().ends_with(stray), "{status}");

    let command = format!("sh -c \"{}\"", script.replace('\\', "\\\\"));
    let error = home.run(&["tools", "--stdio", &command, "--timeout", "1"]).failed(4, "timed_out");
    assert!(error["hint"].as_str().unwrap().contains(stray), "{error}");
    let error = home.run(&["tools", "--stdio", "sh -c 'echo Usage: x; exit 2'"]).failed(4, "ended");
    assert_eq!(
        error["message"],
        "The connection ended: it exited with status 2; its standard output is no MCP: \"Usage: x\"."
    );
}

#[test]
fn what_a_project_brings_is_not_started_to_be_looked_at() {
    let home = Home::with_sample();
    let record = home.path("record");
    let script = format!("touch {}", record.display());
    home.write(
        "clone/toolway.json",
        &format!(r#"{{"mcpServers":{{"theirs":{{"command":"sh","args":["-c","{script}"]}}}}}}"#),
    );
    let run = |words: &[&str]| {
        let output = home.command(words).current_dir(home.path("clone")).output().unwrap();
        crate::home::Ran::of(&output)
    };
    let all = run(&["status", "-o", "raw"]);
    assert_eq!(all.ok(), "old-sample\tready\nsample\tready\ntheirs\tnot accepted\n");
    let told = run(&["status", "-o", "human"]);
    assert!(told.ok().contains("is not used until you accept it"), "{told:?}");
    for words in [&["doctor", "sample", "theirs"][..], &["status", "theirs"], &["tools", "lint", "theirs"]] {
        run(words).failed(7, "not_accepted");
    }
    assert!(!record.exists());
}

#[test]
fn somebody_who_waits_at_a_terminal_sees_for_whom() {
    let home = Home::new();
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    home.configure(&format!(
        r#"{{"mcpServers":{{"quiet":{{"command":"{program}","args":["{what}"],"timeouts":{{"connect":1.5}}}}}}}}"#
    ));
    let (_, shown) = home.run_at_terminal(home.command(&["status"]), "");
    assert!(shown.contains("waiting for quiet"), "{shown:?}");
    let (_, shown) = home.run_at_terminal(home.command(&["tools", "quiet"]), "");
    assert!(shown.contains("connecting to quiet"), "{shown:?}");
    assert!(!home.run(&["status"]).talk.contains("waiting"));
}

#[test]
fn tools_are_found_by_words() {
    let home = Home::with_sample();
    let found = home.run(&["tools", "--search", "add numbers", "-o", "raw"]);
    assert_eq!(found.ok().lines().take(2).collect::<Vec<_>>(), ["sample__add", "old-sample__add"]);
    let found = home.run(&["tools", "sample", "--search", "picture", "-o", "raw"]);
    assert_eq!(found.ok(), "picture\n");
    assert_eq!(home.run(&["tools", "--search", "xylophone", "-o", "raw"]).ok(), "");
    home.run(&["tools", "sample", "echo", "--search", "x"]).failed(2, "arguments");
}

#[test]
fn tools_are_judged_for_a_vendor() {
    let home = Home::with_sample();
    let clean = home.run(&["tools", "lint", "sample", "--provider", "anthropic", "-o", "human"]);
    assert_eq!((clean.ok(), clean.talk.as_str()), ("", "Nothing is wrong.\n"));

    let painted = home.run(&["tools", "lint", "--stdio", &odd("paints"), "--provider", "gemini"]);
    painted.failed(2, "lint");
    let findings: serde_json::Value = serde_json::from_str(&painted.out).unwrap();
    let first = &findings["findings"][0];
    assert_eq!((&first["severity"], &first["rule"]), (&"error".into(), &"hidden-text".into()), "{first}");
    home.run(&["tools", "lint", "nobody"]).failed(2, "unknown_server");
    home.run(&["tools", "lint", "--provider", "acme"]).failed(2, "usage");
    assert!(painted.talk.contains("things have to be put right"), "{}", painted.talk);
}
