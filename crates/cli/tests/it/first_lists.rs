//! The first lists of a client that starts `toolway serve --stdio` with its session.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    home::{Home, odd},
    stdio_client::StdioClient,
};

/// How long a first list waits at most, with time to start on a busy machine.
const BOUND: Duration = Duration::from_secs(12);
/// Well below what a first list waits at most, and what it waited for the view of the caller.
const AT_ONCE: Duration = Duration::from_secs(4);
/// A server that never answers.
const HANGS: &str = "sleep 600";

/// A home with these servers, each a command of the shell.
fn home(servers: &[(&str, &str)]) -> Home {
    let home = Home::new();
    let entry = |script: &str| json!({ "command": "sh", "args": ["-c", script] });
    let servers: serde_json::Map<String, Value> =
        servers.iter().map(|(name, script)| ((*name).to_owned(), entry(script))).collect();
    home.configure(&json!({ "mcpServers": servers }).to_string());
    home
}

/// Capabilities as most clients declare them.
fn usual() -> Value {
    json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": {} })
}

fn tools(client: &mut StdioClient) -> Vec<String> {
    let listed = client.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The servers whose listings are stored.
fn stored(home: &Home) -> Vec<String> {
    let Ok(files) = fs::read_dir(home.path(".local/state/toolway/catalog")) else { return Vec::new() };
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".json")).map(|name| name.split('.').next().unwrap().to_owned()).collect()
}

#[test]
fn the_first_list_without_stored_listings_has_the_tools_of_a_server_that_starts_slowly() {
    for capabilities in [json!({}), usual()] {
        let home = home(&[("slow", &format!("sleep 2; exec {}", odd("legacy")))]);
        let mut client = StdioClient::with_capabilities(&home, capabilities.clone());
        assert_eq!(tools(&mut client), ["slow__hello", "slow__odd"], "{capabilities}");
        client.leave();
        assert_eq!(stored(&home), ["slow"], "{capabilities}");
    }
}

#[test]
fn a_server_that_hangs_delays_the_first_lists_together_within_a_bound() {
    let home = home(&[("hangs", HANGS), ("slow", &format!("sleep 2; exec {}", odd("legacy")))]);
    let mut client = StdioClient::with_capabilities(&home, usual());
    let began = Instant::now();
    assert_eq!(tools(&mut client), ["slow__hello", "slow__odd"]);
    for list in ["prompts/list", "resources/list", "resources/templates/list", "tools/list"] {
        client.request(list, json!({}));
    }
    let took = began.elapsed();
    assert!(took < BOUND, "{took:?}");
    client.leave();
    assert_eq!(stored(&home), ["slow"]);
}

#[test]
fn stored_listings_are_offered_without_waiting_for_a_server_that_hangs() {
    let script = format!("test -e hang && {HANGS}; exec {}", odd("legacy"));
    for capabilities in [json!({}), usual()] {
        let home = home(&[("files", &script), ("notes", &script)]);
        let expected = ["files__hello", "files__odd", "notes__hello", "notes__odd"];
        let mut client = StdioClient::with_capabilities(&home, capabilities.clone());
        assert_eq!(tools(&mut client), expected);
        client.leave();
        home.write("hang", "");
        let mut client = StdioClient::with_capabilities(&home, capabilities.clone());
        let began = Instant::now();
        assert_eq!(tools(&mut client), expected);
        let took = began.elapsed();
        assert!(took < AT_ONCE, "{capabilities}: {took:?}");
    }
}

#[test]
fn a_server_that_lists_more_to_the_client_is_waited_for_although_its_listing_is_stored() {
    let home = home(&[("own", &format!("test -e slow && sleep 2; exec {}", odd("form-tool")))]);
    for start in ["fast", "slow"] {
        home.write(start, "");
        let mut client = StdioClient::with_capabilities(&home, usual());
        assert_eq!(tools(&mut client), ["own__hello", "own__odd", "own__form"], "{start}");
        client.leave();
    }
}

#[test]
fn what_a_server_lists_to_a_new_kind_of_client_is_announced_later() {
    let home = home(&[("own", &format!("test -e slow && sleep 2; exec {}", odd("form-tool")))]);
    let mut client = StdioClient::start(&home);
    assert_eq!(tools(&mut client), ["own__hello", "own__odd"]);
    client.leave();
    home.write("slow", "");
    let mut client = StdioClient::with_capabilities(&home, usual());
    assert_eq!(tools(&mut client), ["own__hello", "own__odd"]);
    client.until_notified("notifications/tools/list_changed");
    assert_eq!(tools(&mut client), ["own__hello", "own__odd", "own__form"]);
}

#[test]
fn a_listing_that_has_begun_is_finished_and_stored_after_the_client_has_left() {
    let record = "record.txt";
    let home = home(&[("lists", &format!("exec {} {record}", odd("slow-list:1500")))]);
    let client = StdioClient::start(&home);
    let began = Instant::now();
    while !fs::read_to_string(home.path(record)).unwrap_or_default().contains("tools/list") {
        assert!(began.elapsed() < BOUND, "the server is not listed");
    }
    assert_eq!(stored(&home), Vec::<String>::new());
    client.leave();
    assert_eq!(stored(&home), ["lists"]);
}
