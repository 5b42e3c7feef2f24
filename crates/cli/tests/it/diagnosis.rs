//! `toolway status`, `toolway doctor`, tool search and `toolway tools lint`.

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
        "broken  failed    the connection ended: the server exited with status 7; last stderr output: cannot read [hidden]"
    );
    let place = home.path(".config/toolway/toolway.json");
    assert!(rows[1].starts_with(&format!("unset   failed    {}:4: ", place.display())), "{}", rows[1]);
    let healthy =
        "sample  ready     6 tools, 1 resource, 1 template, 1 prompt (1 ignored); stdio; 2026-07-28; connected in ";
    assert!(rows[2].starts_with(healthy), "{}", rows[2]);
    assert_eq!(rows[3..], ["off     disabled", "4 servers: 2 failed, 1 ready, 1 disabled"], "failures first");
    assert_eq!(home.run(&["status", "sample", "off", "-o", "raw"]).ok(), "sample\tready\noff\tdisabled\n");
    home.run(&["status", "missing"]).failed(2, "unknown_server");
}

#[test]
fn verbose_status_shows_the_last_stderr_lines() {
    let home = home();
    let ran = home.run(&["status", "broken", "--verbose", "-o", "human"]);
    assert!(ran.ok().contains("\n    cannot read [hidden]\n"), "{}", ran.out);
    assert!(!ran.out.contains("t0ps3cret") && !ran.talk.contains("t0ps3cret"), "{} {}", ran.out, ran.talk);
}

#[test]
fn doctor_explains_how_many_processes_a_gateway_has() {
    let home = Home::new();
    let entry = |rest: &str| format!(r#"{{"command":"{TOOLWAY}","args":["sample"]{rest}}}"#);
    let (own, shared) = (entry(r#","era":"legacy""#), entry(r#","era":"legacy","sharing":"shared""#));
    home.configure(&format!(r#"{{"mcpServers":{{"new":{},"own":{own},"shared":{shared}}}}}"#, entry("")));
    let ran = home.run(&["doctor", "-v", "-o", "human"]);
    let said: Vec<&str> = ran.ok().lines().filter_map(|line| line.strip_prefix("    in a gateway   ")).collect();
    assert_eq!(said[0], "one process for all clients");
    assert!(
        said[1].starts_with("one process for the lists, which goes to the first client that declares no"),
        "{said:?}"
    );
    assert!(said[1].ends_with("until it is idle (`sharing: caller`)"), "{said:?}");
    assert!(said[2].ends_with("until it is idle (`sharing: shared`)"), "{said:?}");
}

#[test]
fn ordinary_values_of_an_entry_are_not_hidden() {
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
fn unavailable_required_server_fails_the_listing() {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}},
            "broken":{{"command":"sh","args":["-c","exit 7"],"required":true}}
        }}}}"#
    ));
    let ran = home.run(&["tools"]);
    ran.failed(4, "required_missing");
    assert!(ran.out.contains("sample__echo"), "the other tools are listed: {}", ran.out);
}

#[test]
fn logs_show_standard_error() {
    let home = home();
    let ran = home.run(&["servers", "logs", "broken", "-o", "human"]);
    assert_eq!(ran.ok(), "cannot read [hidden]\n");
    assert!(
        ran.talk.starts_with("toolway: broken: the connection ended: the server exited with status 7"),
        "{}",
        ran.talk
    );
    assert_eq!(
        home.run(&["servers", "logs", "broken", "-o", "json"]).ok(),
        "{\"lines\":[\"cannot read [hidden]\"],\"server\":\"broken\"}\n"
    );
    assert_eq!(home.run(&["servers", "logs", "broken", "-n", "0", "-o", "human"]).ok(), "");
    home.run(&["servers", "logs", "missing"]).failed(2, "unknown_server");
    assert_eq!(home.run(&["servers", "status", "off", "-o", "raw"]).ok(), "off\tdisabled\n");
}

#[test]
fn doctor_reports_state_problem_and_advice() {
    let home = home();
    let ran = home.run(&["doctor", "-o", "human"]);
    assert_eq!(ran.code, 4);
    assert_eq!(ran.talk, "toolway: 2 servers are unhealthy\n");
    let place = home.path(".config/toolway/toolway.json").display().to_string();
    let problem = "the connection ended: the server exited with status 7; last stderr output: cannot read [hidden]";
    for expected in [
        &format!(
            "broken  failed\n    problem        {problem}\n    advice         read its standard error output: \
                  `toolway servers logs broken`\n"
        ),
        "    standard error cannot read [hidden]\n",
        "    advice         set `NOT_SET` in your shell, or store a value: `toolway servers update unset --env KEY=VALUE` (a \
         secret goes to the vault)\n",
        "\n\nsample  ready  6 tools, 1 resource, 1 template, 1 prompt (1 ignored), 2026-07-28, connected in ",
        &format!("off  disabled  in {place}:5\n"),
    ] {
        assert!(ran.out.contains(expected), "{expected}\n{}", ran.out);
    }
    assert!(!ran.out.contains("defined in") && !ran.out.contains("healthy"), "{}", ran.out);
    let details = home.run(&["doctor", "-v", "-o", "human"]);
    for expected in [
        &format!("    defined in     {place}:3\n"),
        "    environment    HOME, LANG, PATH, TOKEN\n",
        "    environment    API_KEY, HOME, LANG, PATH\n",
        "    protocol       2026-07-28 (modern)\n",
        "    items          6 tools, 1 resource, 1 template, 1 prompt (1 ignored)\n",
    ] {
        assert!(details.out.contains(expected), "{expected}\n{}", details.out);
    }
    assert!(!ran.out.contains("t0ps3cret") && !details.out.contains("t0ps3cret"), "{}", details.out);

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
fn exit_status_and_signal_are_in_json() {
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
fn doctor_accepts_a_server_of_the_command_line() {
    let home = Home::new();
    assert_eq!(home.run(&["doctor", "--stdio", &sample()]).json()["servers"][0]["state"], "ready");
    let ran = home.run(&["doctor", "-v", "--stdio", "/no/such/program", "-o", "human"]);
    assert_eq!(ran.code, 4);
    assert!(ran.out.contains("    defined in     the command line\n"), "{}", ran.out);
    assert!(
        ran.out.contains("advice         install the program, or fix `command` in the command line"),
        "{}",
        ran.out
    );
    home.run(&["doctor", "sample", "--stdio", "x"]).failed(2, "arguments");
    home.run(&["doctor"]).failed(2, "unknown_server");
}

/// A server that accepts every handshake, but lists nothing without a token; counts the handshakes.
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
fn server_that_requires_a_token_for_lists_is_not_retried() {
    let (home, handshakes) = (Home::new(), Arc::default());
    let url = shy(Arc::clone(&handshakes));
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    // The other one keeps the command waiting for a while.
    home.configure(&format!(
        r#"{{"mcpServers":{{"shy":{{"url":"{url}","era":"legacy"}},
            "mute":{{"command":"{program}","args":["{what}"],"timeouts":{{"connect":1.5}}}}}}}}"#
    ));
    assert_eq!(home.run(&["status", "-o", "raw"]).ok(), "mute\tfailed\nshy\tsign-in-required\n");
    assert_eq!(handshakes.load(Ordering::SeqCst), 1);
    home.run(&["tools", "shy"]).failed(3, "unauthorized");
    assert_eq!(handshakes.load(Ordering::SeqCst), 2);
}

/// A server that refuses every request with this status.
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
fn refused_credential_is_named_and_not_requested_again() {
    let home = Home::new();
    for (status, header) in [("403 Forbidden", "Authorization"), ("401 Unauthorized", "X-Api-Key")] {
        let url = bouncer(status);
        let number = &status[..3];
        home.configure(&format!(
            "{{ \"mcpServers\": {{ \"lake\": {{ \"url\": \"{url}\",\n\"headers\": {{ \"{header}\": \"s3cret\" }} }} }} }}"
        ));
        let said = format!("the server refused the configured `{header}` header (HTTP {number})");
        let error = home.run(&["ping", "lake"]).failed(3, "unauthorized");
        assert_eq!(error["message"], said.as_str());
        let place = home.path(".config/toolway/toolway.json");
        let hint =
            format!("the server rejects the `{header}` header set by `headers` in {}:2; update it", place.display());
        assert_eq!(error["hint"], hint);
        let status = home.run(&["status"]).json()["servers"][0].clone();
        assert_eq!((&status["state"], &status["reason"]), (&"failed".into(), &said.as_str().into()));
        assert_eq!(status["whoseMove"], "operator");
        let advice: serde_json::Value = serde_json::from_str(&home.run(&["doctor"]).out).unwrap();
        assert_eq!(advice["servers"][0]["advice"], hint);

        let given = home.run(&["ping", "--url", &url, "--header", "authorization: Bearer s3cret"]);
        let error = given.failed(3, "unauthorized");
        assert_eq!(error["hint"], "the server rejects the `authorization` header given with --header");
        assert!(
            home.run(&["ping", "--url", &url]).failed(3, "unauthorized")["hint"]
                .as_str()
                .unwrap()
                .starts_with("pass a token")
        );
    }
}

#[test]
fn text_on_standard_output_is_quoted() {
    let home = Home::new();
    let script = r#"printf 'Listening on \033[1m3000\n'; sleep 60"#;
    let entry = serde_json::json!({ "command": "sh", "args": ["-c", script], "timeouts": { "connect": 1 } });
    home.configure(&serde_json::json!({ "mcpServers": { "chatty": entry } }).to_string());
    let stray = "the server printed non-MCP text on stdout: \"Listening on \\u{1b}[1m3000\"";
    let error = home.run(&["tools", "chatty"]).failed(4, "timed_out");
    assert_eq!(
        error["message"],
        format!("no answer to the handshake within 1s (connect timeout); {stray} (logs belong on stderr)")
    );
    let status = home.run(&["status"]).json()["servers"][0].clone();
    assert!(status["reason"].as_str().unwrap().contains(stray), "{status}");

    let command = format!("sh -c \"{}\"", script.replace('\\', "\\\\"));
    let error = home.run(&["tools", "--stdio", &command, "--timeout", "1"]).failed(4, "timed_out");
    assert!(error["hint"].as_str().unwrap().contains(stray), "{error}");
    let error = home.run(&["tools", "--stdio", "sh -c 'echo Usage: x; exit 2'"]).failed(4, "ended");
    assert_eq!(
        error["message"],
        "the connection ended: the server exited with status 2; the server printed non-MCP text on stdout: \"Usage: x\" (logs belong on stderr)"
    );
}

#[test]
fn project_server_is_not_started_for_diagnosis() {
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
    assert!(told.ok().contains("not used until you accept it"), "{told:?}");
    for words in [&["doctor", "sample", "theirs"][..], &["status", "theirs"], &["tools", "lint", "theirs"]] {
        run(words).failed(7, "not_accepted");
    }
    assert!(!record.exists());
}

#[test]
fn terminal_shows_which_servers_are_pending() {
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
fn tools_are_searched() {
    let home = Home::with_sample();
    let found = home.run(&["tools", "--search", "add numbers", "-o", "raw"]);
    assert_eq!(found.ok().lines().take(2).collect::<Vec<_>>(), ["sample__add", "old-sample__add"]);
    let found = home.run(&["tools", "sample", "--search", "picture", "-o", "raw"]);
    assert_eq!(found.ok(), "picture\n");
    assert_eq!(home.run(&["tools", "--search", "xylophone", "-o", "raw"]).ok(), "");
    home.run(&["tools", "sample", "echo", "--search", "x"]).failed(2, "arguments");
}

#[test]
fn tools_are_linted_for_a_vendor() {
    let home = Home::with_sample();
    let clean = home.run(&["tools", "lint", "sample", "--vendor", "anthropic", "-o", "human"]);
    assert_eq!((clean.ok(), clean.talk.as_str()), ("", "No problems found.\n"));

    let painted = home.run(&["tools", "lint", "--stdio", &odd("paints"), "--vendor", "gemini"]);
    painted.failed(2, "lint");
    let findings: serde_json::Value = serde_json::from_str(&painted.out).unwrap();
    let first = &findings["findings"][0];
    assert_eq!((&first["severity"], &first["rule"]), (&"error".into(), &"hidden-text".into()), "{first}");
    home.run(&["tools", "lint", "missing"]).failed(2, "unknown_server");
    home.run(&["tools", "lint", "--vendor", "acme"]).failed(2, "usage");
    assert!(painted.talk.contains("errors found"), "{}", painted.talk);
}

#[test]
fn states_have_colours_on_a_terminal_unless_no_color_is_set() {
    let home = home();
    let (_, shown) = home.run_at_terminal(home.command(&["status"]), "");
    assert!(shown.contains("\u{1b}[1mbroken\u{1b}[0m  \u{1b}[31mfailed\u{1b}[0m    "), "{shown:?}");
    assert!(shown.contains("\u{1b}[32mready\u{1b}[0m"), "{shown:?}");
    let (_, shown) = home.run_at_terminal(home.command(&["servers"]), "");
    assert!(shown.contains("\u{1b}[32menabled\u{1b}[0m"), "{shown:?}");
    let mut command = home.command(&["status"]);
    command.env("NO_COLOR", "1");
    let (_, shown) = home.run_at_terminal(command, "");
    assert!(!shown.contains("[31m") && shown.contains("broken  failed    "), "{shown:?}");
}

#[test]
fn certificates_are_passed_and_only_variables_that_matter_are_named() {
    let home = Home::new();
    home.configure(r#"{"mcpServers":{"it":{"command":"sh","args":["-c","echo \"ca $SSL_CERT_FILE\" >&2; exit 7"]}}}"#);
    let mut command = home.command(&["doctor", "it", "-o", "human"]);
    command.env("SSL_CERT_FILE", "/etc/ca.pem").env("TICKETS", "x");
    let ran = crate::home::Ran::of(&command.output().unwrap());
    assert!(ran.out.contains("    standard error ca /etc/ca.pem\n"), "{}", ran.out);
    assert!(!ran.out.contains("not passed") && !ran.out.contains("TICKETS"), "{}", ran.out);
}

#[test]
fn advice_passes_the_variable_that_the_server_asks_for_and_works() {
    let home = Home::new();
    let script = format!(
        "[ -n \"$GITHUB_TOKEN\" ] || {{ echo 'Error: GITHUB_TOKEN is required' >&2; exit 1; }}; exec {TOOLWAY} sample"
    );
    home.configure(
        &serde_json::json!({ "mcpServers": { "hub": { "command": "sh", "args": ["-c", script] } } }).to_string(),
    );
    let doctor = |token: &[(&str, &str)]| home.run_with(&["doctor", "hub"], token, "");
    let advice = |ran: &crate::home::Ran| {
        let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        said["servers"][0]["advice"].as_str().unwrap().to_owned()
    };
    let unset = doctor(&[]);
    assert!(advice(&unset).contains("`toolway servers update hub --env GITHUB_TOKEN=VALUE`"), "{unset:?}");
    let failed = doctor(&[("GITHUB_TOKEN", "t0k"), ("OTHER_TOKEN", "x")]);
    let command = "toolway servers update hub --env GITHUB_TOKEN";
    assert_eq!(advice(&failed), format!("your shell has it, the server does not: `{command}`"));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    home.run(&words).ok();
    let healthy = doctor(&[("GITHUB_TOKEN", "t0k")]);
    assert_eq!((healthy.code, advice(&healthy).as_str()), (0, "none; healthy"), "{healthy:?}");
}

#[test]
fn unresolved_reference_is_matched_with_a_similar_variable() {
    let home = Home::new();
    let entry = serde_json::json!({ "command": TOOLWAY, "args": ["sample"], "env": { "KEY": "${GITHUB_TOKN}" } });
    home.configure(&serde_json::json!({ "mcpServers": { "hub": entry } }).to_string());
    let shell = [("GITHUB_TOKEN", "t0k")];
    let failed = home.run_with(&["doctor", "hub", "-o", "raw"], &shell, "");
    let advice = "your shell has `GITHUB_TOKEN`: `toolway servers update hub --env 'KEY=${GITHUB_TOKEN}'`";
    assert!(failed.out.contains(advice), "{}", failed.out);
    home.run_with(&["servers", "update", "hub", "--env", "KEY=${GITHUB_TOKEN}"], &shell, "").ok();
    assert_eq!(home.run_with(&["doctor", "hub"], &shell, "").code, 0);
}

#[test]
fn server_that_prints_text_on_stdout_and_works_gets_a_warning() {
    let home = Home::new();
    let script = format!("echo 'Listening on 3000'; exec {TOOLWAY} sample");
    home.configure(
        &serde_json::json!({ "mcpServers": { "it": { "command": "sh", "args": ["-c", script] } } }).to_string(),
    );
    let said = home.run(&["doctor", "it"]).json();
    let server = &said["servers"][0];
    assert_eq!((&server["state"], &server["strayOutput"]), (&"ready".into(), &"Listening on 3000".into()), "{server}");
    assert!(server["advice"].as_str().unwrap().contains("logs belong on standard error"), "{server}");
    let shown = home.run(&["doctor", "it", "-o", "human"]);
    assert!(shown.ok().contains("warning") && shown.out.contains("\"Listening on 3000\""), "{}", shown.out);
}

#[test]
fn a_url_without_a_server_is_answered_with_the_command_that_changes_it() {
    let home = Home::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    home.configure(&format!(r#"{{ "mcpServers": {{ "gone": {{ "url": "http://{free}/mcp" }} }} }}"#));
    let said: serde_json::Value = serde_json::from_str(&home.run(&["doctor", "gone"]).out).unwrap();
    let advice = "start the server, or correct its URL: `toolway servers update gone --url URL`";
    assert_eq!(said["servers"][0]["advice"], advice, "{said}");
}

#[test]
fn text_on_stdout_after_the_first_message_gets_a_warning_too() {
    let home = Home::new();
    let script = format!("{TOOLWAY} sample | sed -u 'a handled it'");
    home.configure(
        &serde_json::json!({ "mcpServers": { "it": { "command": "sh", "args": ["-c", script] } } }).to_string(),
    );
    let said = home.run(&["doctor", "it"]).json();
    let server = &said["servers"][0];
    assert_eq!((&server["state"], &server["strayOutput"]), (&"ready".into(), &"handled it".into()), "{server}");
}

#[test]
fn verbose_diagnosis_says_what_a_server_could_reach_and_prints_no_messages() {
    let home = Home::with_sample();
    let shown = home.run(&["doctor", "sample", "-v", "-o", "human"]);
    for expected in [
        "could reach    its environment, all files of your account (starts in ",
        "network not restricted",
        "environment    ",
    ] {
        assert!(shown.ok().contains(expected), "{expected}: {}", shown.out);
    }
    assert!(!shown.talk.contains("jsonrpc"), "{}", shown.talk);
    assert!(home.run(&["ping", "sample", "-v"]).talk.contains("jsonrpc"), "there it is the log of the wire");
}

#[test]
fn cause_of_a_failure_is_kept_before_a_long_stack_trace() {
    let home = Home::new();
    let script = "echo 'Error: Cannot find module y' >&2; seq 1 40 | sed 's/^/    at f/' >&2; exit 1";
    home.configure(
        &serde_json::json!({ "mcpServers": { "it": { "command": "sh", "args": ["-c", script] } } }).to_string(),
    );
    let shown = home.run(&["doctor", "it", "-o", "human"]);
    assert!(
        shown.out.contains("    standard error Error: Cannot find module y\n    standard error …\n"),
        "{}",
        shown.out
    );
    let error = home.run(&["tools", "it"]).failed(4, "ended")["message"].to_string();
    assert!(error.contains("Error: Cannot find module y / … / at f37"), "{error}");
}
