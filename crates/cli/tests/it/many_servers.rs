//! Twenty servers of which three hang and two crash: the healthy ones are listed, the others are reported.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::home::{Home, TOOLWAY, odd};

const GOOD: usize = 15;
/// Much less than the longest wait for a server, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(9);
/// The timeout of the hanging servers, plus the time of twenty processes on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

fn twenty() -> Home {
    let home = Home::new();
    let mut entries = String::new();
    for number in 0..GOOD {
        let era = if number % 2 == 0 { "legacy" } else { "modern" };
        write!(entries, r#""good-{number:02}":{{"command":"{TOOLWAY}","args":["sample","--era","{era}"]}},"#).unwrap();
    }
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    for number in 0..3 {
        let clock = r#""timeouts":{"connect":2}"#;
        write!(entries, r#""hangs-{number}":{{"command":"{program}","args":["{what}"],{clock}}},"#).unwrap();
    }
    for number in 0..2 {
        let script = "echo no licence >&2; exit 3";
        write!(entries, r#""crashes-{number}":{{"command":"sh","args":["-c","{script}"]}},"#).unwrap();
    }
    home.configure(&format!(r#"{{"mcpServers":{{{entries}}}}}"#));
    home
}

fn is_bad(name: &str) -> bool {
    !name.starts_with("good-")
}

#[test]
fn tools_of_healthy_servers_are_listed_and_the_others_are_reported() {
    let home = twenty();
    let began = Instant::now();
    let ran = home.run(&["tools"]);
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    let tools = ran.json()["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), GOOD * 7);
    assert_eq!(tools[0]["name"], "good-00__echo");
    assert_eq!(tools[0]["_meta"]["toolway/origin"], serde_json::json!({ "server": "good-00", "name": "echo" }));
    for number in 0..3 {
        let said = format!(
            "toolway: server `hangs-{number}` is unavailable: no answer to the handshake within 2s (connect timeout)"
        );
        assert!(ran.talk.contains(&said), "{}", ran.talk);
    }
    for number in 0..2 {
        let said = format!(
            "toolway: server `crashes-{number}` is unavailable: the connection ended: the server exited with status 3; last stderr output: no licence"
        );
        assert!(ran.talk.contains(&said), "{}", ran.talk);
    }
    // A listed tool can be called.
    let called = home.run(&["call", tools[7]["name"].as_str().unwrap(), "hello", "-o", "human"]);
    assert_eq!(called.ok(), "hello\n");
}

#[test]
fn status_and_doctor_report_every_server() {
    let home = twenty();
    for (command, code) in [("status", 0), ("doctor", 4)] {
        let began = Instant::now();
        let ran = home.run(&[command]);
        assert!(began.elapsed() < BOUND, "{command}: {:?}", began.elapsed());
        assert_eq!(ran.code, code, "{command}: {}", ran.talk);
        let said: Value = serde_json::from_str(&ran.out).unwrap();
        let servers = said["servers"].as_array().unwrap();
        assert_eq!(servers.len(), 20);
        for server in servers {
            let name = server["name"].as_str().unwrap();
            let state = if is_bad(name) { "failed" } else { "ready" };
            assert_eq!((&server["state"], server["reason"].is_string()), (&state.into(), is_bad(name)), "{server}");
            let code = match name.split('-').next().unwrap() {
                "hangs" => Value::from("timed_out"),
                "crashes" => Value::from("ended"),
                _ => Value::Null,
            };
            assert_eq!(server["code"], code, "{server}");
            if command == "doctor" {
                assert!(!server["advice"].as_str().unwrap().is_empty(), "{server}");
            }
        }
    }
}

#[test]
fn hanging_server_is_listed_from_the_cache() {
    let home = Home::new();
    let script = home.write("server.sh", &format!("exec {TOOLWAY} sample\n"));
    home.configure(&format!(
        r#"{{"mcpServers":{{"fickle":{{"command":"sh","args":["{}"]}},
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#,
        script.display()
    ));
    assert_eq!(home.run(&["tools"]).json()["tools"].as_array().unwrap().len(), 14);
    home.write("server.sh", "sleep 60\n");
    let began = Instant::now();
    let ran = home.run(&["tools"]);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let tools = ran.json()["tools"].as_array().unwrap().clone();
    assert_eq!(tools.len(), 14);
    let lines: Vec<&str> = ran.talk.lines().collect();
    assert!(
        lines[0].starts_with("toolway: server `fickle` is still connecting after ")
            && lines[0].ends_with("; showing its cached listing"),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["toolway: use `--timeout SECONDS` to wait longer for servers that have not responded"]);
    for tool in &tools {
        let origin = &tool["_meta"]["toolway/origin"];
        let old = if origin["server"] == "fickle" { Value::from(true) } else { Value::Null };
        assert_eq!(origin["cached"], old, "{tool}");
    }
    let human = home.run(&["tools", "--search", "echo", "-o", "human"]);
    let marked: Vec<&str> = human.ok().lines().filter(|line| line.contains("  (cached)")).collect();
    assert!(!marked.is_empty() && marked.iter().all(|line| line.starts_with("fickle__")), "{}", human.out);
    home.run(&["tools", "fickle", "--timeout", "2"]).failed(4, "timed_out");
}

#[test]
fn hanging_server_does_not_delay_the_others() {
    let home = Home::new();
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    home.configure(&format!(
        r#"{{"mcpServers":{{"mute":{{"command":"{program}","args":["{what}"]}},
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#
    ));
    for words in [&["tools", "-o", "raw"][..], &["tools", "lint"], &["status", "-o", "raw"]] {
        let began = Instant::now();
        let ran = home.run(words);
        assert!(began.elapsed() < SOON, "{words:?}: {:?}", began.elapsed());
        if words[0] == "status" {
            assert_eq!(ran.ok(), "mute\tconnecting\nsample\tready\n");
        } else {
            assert!(ran.talk.contains("`mute` is still connecting after "), "{words:?}: {ran:?}");
        }
    }
    // A required server gets its full timeout.
    home.configure(&format!(
        r#"{{"mcpServers":{{"mute":{{"command":"{program}","args":["{what}"],"required":true,"timeouts":{{"connect":4}}}},
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#
    ));
    let ran = home.run(&["tools"]);
    assert!(ran.talk.contains("`mute` is unavailable: no answer to the handshake within 4s"), "{ran:?}");
    ran.failed(4, "required_missing");
}

#[test]
fn connected_server_without_lists_is_reported() {
    let home = Home::new();
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}"#;
    let script = home.write("half.sh", &format!("read line\necho '{reply}'\nexec sleep 60\n"));
    home.configure(&format!(
        r#"{{"mcpServers":{{"half":{{"command":"sh","args":["{}"],"era":"legacy","timeouts":{{"connect":2}}}}}}}}"#,
        script.display()
    ));
    let error = home.run(&["tools", "half"]).failed(4, "timed_out");
    assert_eq!(error["message"], "connected, but did not list its items in time");
    let ran = home.run(&["status", "-o", "human"]);
    assert_eq!(ran.ok(), "half  not listed  connected, but did not list its items in time\n");
    home.run(&["doctor"]).failed(4, "unhealthy");
}

#[test]
fn timeout_option_overrides_every_wait() {
    let home = Home::new();
    let mute = odd("mute");
    let (program, what) = mute.split_once(' ').unwrap();
    home.configure(&format!(
        r#"{{"mcpServers":{{"mute":{{"command":"{program}","args":["{what}"]}},
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#
    ));
    let began = Instant::now();
    let ran = home.run(&["tools", "--timeout", "3", "-o", "raw"]);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(ran.ok().lines().count(), 7);
    assert_eq!(
        ran.talk,
        "toolway: server `mute` is unavailable: no answer to the handshake within 3s (connect timeout)\n"
    );
}

#[test]
fn listing_fails_if_no_server_is_available() {
    let home = Home::new();
    home.configure(r#"{"mcpServers":{"a":{"command":"/no/such/program"},"b":{"command":"x","disabled":true}}}"#);
    let ran = home.run(&["tools"]);
    ran.failed(4, "unreachable");
    assert_eq!(ran.out, "");
    home.configure(r#"{"mcpServers":{"b":{"command":"x","disabled":true}}}"#);
    home.run(&["tools"]).failed(2, "disabled");
}

/// An installer that takes longer than a server that hangs is waited for.
#[test]
fn first_time_installation_is_waited_for_and_not_ended() {
    let home = Home::new();
    let npx = home.write(
        "bin/npx",
        &format!(
            "#!/bin/sh\ntrap 'echo ended > {0}; exit 1' TERM INT HUP\nsleep 7 & wait $!\nexec {TOOLWAY} sample\n",
            home.path("ended").display()
        ),
    );
    std::fs::set_permissions(&npx, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.configure(&format!(
        r#"{{"mcpServers":{{"memory":{{"command":"{}","args":["-y","server-memory"]}},
            "sample":{{"command":"{TOOLWAY}","args":["sample"]}}}}}}"#,
        npx.display()
    ));
    let ran = home.run(&["tools", "-o", "human"]);
    assert!(ran.ok().contains("memory__echo") && ran.out.contains("sample__echo"), "{ran:?}");
    let said = "toolway: waiting for server `memory`: `npx` may install it on the first start; waiting up to 5 min, Ctrl-C stops\n";
    assert!(ran.talk.starts_with(said), "{}", ran.talk);
    assert!(!home.path("ended").exists());
}

#[test]
fn nothing_is_said_about_installing_what_is_installed() {
    let home = Home::new();
    let npx = home.write("bin/npx", &format!("#!/bin/sh\nsleep 2.5\nexec {TOOLWAY} sample\n"));
    std::fs::set_permissions(&npx, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = format!("{} -y @x/memory@1.2", npx.display());
    let call = || home.run(&["call", "--stdio", &server, "echo", "text=hi", "-o", "raw"]);
    let first = call();
    assert!(first.ok() == "hi\n" && first.talk.contains("may install it"), "{first:?}");
    home.write(".npm/_npx/0a1b/node_modules/@x/memory/package.json", "{}");
    home.write(".npm/_npx/0a1b/node_modules/.package-lock.json", "{}");
    let second = call();
    assert_eq!((second.ok(), second.talk.as_str()), ("hi\n", ""));
}
