//! Commands that control a running gateway over its control socket.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use serde_json::Value;

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY},
};

fn one_server() -> Home {
    let home = Home::new();
    home.configure(&config(""));
    home
}

fn config(more: &str) -> String {
    format!(r#"{{ "mcpServers": {{ "sample": {{ "command": "{TOOLWAY}", "args": ["sample"] }}{more} }} }}"#)
}

#[test]
fn control_commands_need_a_running_gateway() {
    let home = one_server();
    for words in [
        &["servers", "connect", "sample"][..],
        &["servers", "disconnect", "sample"],
        &["servers", "restart", "sample"],
        &["servers", "refresh", "sample"],
        &["config", "reload"],
    ] {
        let error = home.run(words).failed(2, "no_gateway");
        assert!(error["message"].as_str().unwrap().starts_with("this command needs a running gateway"), "{error}");
        assert!(error["hint"].as_str().unwrap().contains("toolway serve"), "{error}");
    }
    // Status works without a gateway.
    assert_eq!(home.run(&["servers", "status", "-o", "raw"]).ok(), "sample\tready\n");
}

#[test]
fn server_of_the_gateway_is_connected_and_disconnected() {
    let home = one_server();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "sample", "ready");
    let status = home.run(&["servers", "status"]);
    assert!(status.talk.starts_with("toolway: reported by the running gateway (PID "), "{status:?}");
    let before = status.json()["servers"][0].clone();
    assert_eq!((&before["name"], &before["state"], &before["tools"]), (&"sample".into(), &"ready".into(), &7.into()));
    let process = |view: &Value| view["process"].as_u64().unwrap();

    let again = home.run(&["servers", "restart", "sample"]).json()["servers"][0].clone();
    assert_ne!(process(&again), process(&before), "another process runs");
    let refreshed = home.run(&["servers", "refresh", "sample", "-o", "human"]);
    assert!(refreshed.ok().starts_with("sample  ready  7 tools; "), "{refreshed:?}");

    let gone = home.run(&["servers", "disconnect", "sample", "-o", "raw"]);
    assert_eq!(gone.ok(), "sample\tstopped\n");
    assert_eq!(home.settled(&serving, "sample", "stopped")["because"], "disconnected");
    assert_eq!(home.run(&["servers", "connect", "Sample", "-o", "raw"]).ok(), "sample\tready\n");
    let error = home.run(&["servers", "connect", "nothing"]).failed(2, "unknown_server");
    assert_eq!(error["message"], "unknown server `nothing`");
}

#[test]
fn client_connections_are_shown() {
    let home = one_server();
    home.configure(&config("").replace(r#"["sample"]"#, r#"["sample", "--era", "legacy"]"#));
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "sample", "ready");
    assert_eq!(home.run(&["servers", "status"]).json()["servers"][0].get("connections"), None);
    let echo = serde_json::json!({ "name": "sample__echo", "arguments": { "text": "hi" } });
    assert!(Answer::of(serving.call("tools/call", echo)).body.contains("hi"));

    let view = home.run(&["servers", "status"]).json()["servers"][0].clone();
    let connection = &view["connections"][0];
    assert_eq!((&connection["caller"], &connection["calls"]), (&"client:@first".into(), &0.into()), "{view}");
    // The process that made the first listing is handed to the first client.
    assert!(connection["process"].is_u64() && connection["process"] == view["process"], "{view}");
    let shown = home.run(&["servers", "status", "-o", "human"]).ok().to_owned();
    assert!(shown.contains("1 client connection"), "{shown}");
    let shown = home.run(&["servers", "status", "--verbose", "-o", "human"]).ok().to_owned();
    assert!(shown.contains("client:@first: 0 calls in flight, 0 of them waiting for user input, PID "), "{shown}");
}

#[test]
fn logs_come_from_the_running_gateway() {
    let home = one_server();
    home.write("talk.sh", &format!("echo started >&2\nexec {TOOLWAY} sample\n"));
    let script = home.path("talk.sh").display().to_string();
    home.configure(&format!(r#"{{ "mcpServers": {{ "talk": {{ "command": "sh", "args": ["{script}"] }} }} }}"#));
    let serving = Serving::start(&home, &[]);
    let process = || home.run(&["servers", "status"]).json()["servers"][0]["process"].clone();
    home.settled(&serving, "talk", "ready");
    let before = process();
    assert_eq!(home.run(&["servers", "logs", "talk", "-o", "raw"]).ok(), "started\n");
    assert_eq!(home.run(&["servers", "logs", "talk"]).json()["lines"][0], "started");
    assert_eq!(process(), before, "nothing was started for it");
    drop(serving);
}

#[test]
fn edit_of_a_server_takes_effect_in_the_running_gateway_at_once() {
    let home = one_server();
    let serving = Serving::start(&home, &[]);
    let states = || home.run(&["servers", "status", "-o", "raw"]).out;
    let added = home.run(&["servers", "add", "more", "--", TOOLWAY, "sample"]);
    assert!(added.code == 0 && added.talk.contains("in the running gateway: "), "{added:?}");
    assert!(added.talk.contains("`more` started"), "{added:?}");
    assert!(states().contains("more\t"), "{}", states());
    let updated = home.run(&["servers", "update", "more", "--env", "LEVEL=debug"]);
    assert!(updated.talk.contains("`more` reconnected: env changed"), "{updated:?}");
    let removed = home.run(&["servers", "remove", "more"]);
    assert!(removed.talk.contains("`more` closed"), "{removed:?}");
    assert!(!states().contains("more"), "{}", states());
    drop(serving);
    let alone = home.run(&["servers", "add", "more", "--", TOOLWAY, "sample"]);
    assert!(alone.code == 0 && !alone.talk.contains("gateway"), "{alone:?}");
}

#[test]
fn reload_reports_what_happened_to_each_server() {
    let home = one_server();
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "sample", "ready");
    let more = format!(r#", "more": {{ "command": "{TOOLWAY}", "args": ["sample", "--era", "legacy"] }}"#);
    home.configure(&config(&more));
    assert_eq!(home.run(&["config", "reload", "-o", "human"]).ok(), "more: started\nsample: kept\n");
    home.settled(&serving, "more", "ready");

    // An invalid edit changes nothing and is reported.
    for (wrong, why) in [
        (config(&format!("{more}, \"broken\": {{ \"comand\": 1 }}")), "broken"),
        (config("").replace('}', ""), "toolway.json"),
        (config(r#", "sample": { "command": "x" }"#), "sample"),
    ] {
        home.configure(&wrong);
        let error = home.run(&["config", "reload"]).failed(2, "config");
        assert!(error["message"].as_str().unwrap().contains(why), "{error}");
        assert_eq!(error["hint"], "the gateway keeps its current configuration");
        let servers = serving.get("/servers", serving.key()).json();
        let states: Vec<_> = servers["servers"].as_array().unwrap().iter().map(|server| &server["state"]).collect();
        assert_eq!(states, ["ready", "ready"], "{servers}");
    }

    home.configure(&config("").replace(r#"["sample"]"#, r#"["sample", "--era", "legacy"]"#));
    let said = home.run(&["config", "reload"]).json();
    assert_eq!(said["servers"][0], serde_json::json!({ "name": "more", "happened": "closed" }));
    assert_eq!(said["servers"][1]["happened"], "reconnected: args changed");
}

#[test]
fn socket_is_private_and_refuses_unknown_orders() {
    let home = one_server();
    let serving = Serving::start(&home, &[]);
    let folder = home.path(".local/state/toolway/run");
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let socket = folder.join("gateway.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let say = |text: &[u8]| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut read = BufReader::new(stream.try_clone().unwrap());
        let mut greeting = String::new();
        read.read_line(&mut greeting).unwrap();
        // The gateway may close the connection early.
        let _gone = stream.write_all(text);
        let _gone = stream.shutdown(std::net::Shutdown::Write);
        let mut said = String::new();
        let _gone = read.read_to_string(&mut said);
        (greeting, said)
    };
    let (greeting, said) = say(b"{\"order\":\"exec\",\"command\":\"id\"}\n");
    let greeting: Value = serde_json::from_str(&greeting).unwrap();
    assert_eq!((&greeting["toolway"], &greeting["control"]), (&env!("CARGO_PKG_VERSION").into(), &1.into()));
    assert!(said.contains("\"failed\"") && said.contains("\"order\""), "{said}");
    assert_eq!(say(b"no line").1, "");
    assert_eq!(say(&[b'x'; 200_000]).1, "");
    assert!(home.run(&["servers", "status"]).ok().contains("sample"));

    // In a directory that others can enter, another process could impersonate the gateway; commands refuse to use it.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = home.run(&["servers", "status"]).failed(4, "control");
    assert!(error["message"].as_str().unwrap().contains("is accessible to other users"), "{error}");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();

    // A second gateway of the same configuration works and reports that commands reach the first.
    let other = Serving::start(&home, &[]);
    assert!(other.stop().contains("another gateway is running with this configuration"));
    assert!(home.run(&["servers", "status"]).ok().contains("sample"));
    serving.stop();
    assert!(!socket.exists());
}

#[test]
fn stale_socket_is_replaced() {
    let home = one_server();
    drop(Serving::start(&home, &[]));
    assert!(home.path(".local/state/toolway/run/gateway.sock").exists(), "it was killed");
    home.run(&["config", "reload"]).failed(2, "no_gateway");
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "sample", "ready");
    assert_eq!(home.run(&["config", "reload", "-o", "human"]).ok(), "sample: kept\n");
}

#[test]
fn runtime_directory_and_config_file_determine_the_socket() {
    let home = one_server();
    let run = home.path("run");
    std::fs::create_dir(&run).unwrap();
    let file = home.write("other.json", &config(""));
    let words = ["--config", file.to_str().unwrap()];
    let serving = Serving::start_with(&home, &words, &[("XDG_RUNTIME_DIR", run.to_str().unwrap())]);
    let names: Vec<_> =
        std::fs::read_dir(run.join("toolway")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().starts_with("gateway-")), "{names:?}");
    let reload = |words: &[&str]| {
        let output = home.command(words).env("XDG_RUNTIME_DIR", &run).output().unwrap();
        output.status.code()
    };
    assert_eq!(reload(&["config", "reload"]), Some(2), "that is another configuration");
    assert_eq!(reload(&["config", "reload", "--config", file.to_str().unwrap()]), Some(0));
    drop(serving);
}
