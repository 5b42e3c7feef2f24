//! Records in a Postgres database: every command reads what another wrote, and calls are refused while it is away.

use serde_json::{Value, json};
use toolway_testkit::postgres::TestDatabase;

use crate::{
    home::{Home, TOOLWAY},
    stdio_client::StdioClient,
};

/// A home whose records are in a database.
fn home(database: &TestDatabase) -> Home {
    let home = Home::new();
    let servers = json!({ "shop": { "command": TOOLWAY, "args": ["sample"] } });
    let store = json!({ "url": database.url().expose() });
    home.configure(&json!({ "mcpServers": servers, "store": store }).to_string());
    home
}

fn calls(home: &Home) -> Vec<Value> {
    home.run(&["calls", "list", "-o", "json"]).json().as_array().unwrap().clone()
}

#[test]
fn calls_of_several_machines_are_in_one_database_and_none_in_a_file() {
    let database = TestDatabase::new();
    let machines = [home(&database), home(&database)];
    assert!(calls(&machines[0]).is_empty());
    machines.iter().for_each(|home| drop(home.run(&["call", "shop.echo", "text=hi"]).ok().to_owned()));
    for home in &machines {
        let found = calls(home);
        let states: Vec<_> = found.iter().map(|call| &call["state"]).collect();
        assert_eq!(states, ["succeeded", "succeeded"], "{found:?}");
        let shown = home.run(&["calls", "show", found[0]["id"].as_str().unwrap(), "-o", "json"]).json();
        assert!(shown.to_string().contains("hi"), "{shown}");
        home.run(&["audit", "verify"]).ok();
        assert!(!home.path(".local/state/toolway/toolway.db").exists());
    }
    let plan = machines[0].run(&["store", "plan", "-o", "json"]).json();
    assert!(0 < plan["bytes"].as_u64().unwrap() && plan["maxBytes"].is_null(), "{plan}");
    assert_eq!(machines[0].run(&["store", "prune", "-o", "json"]).json()["calls"], 0);
    let refused = machines[0].run(&["store", "backup", "backup.db"]);
    assert!(refused.code == 2 && refused.talk.contains("pg_dump"), "{refused:?}");
}

#[test]
fn calls_of_clients_are_refused_while_the_database_is_away() {
    let database = TestDatabase::new();
    let home = home(&database);
    let mut client = StdioClient::start(&home);
    let mut echo = |text: &str| client.call("shop__echo", json!({ "text": text }));
    assert_eq!(echo("first")["content"][0]["text"], "first");
    database.refuse_connections();
    let refused = echo("second");
    let text = refused["content"][0]["text"].as_str().unwrap_or_default();
    assert!(refused["isError"] == true && text.contains("not sent because it cannot be recorded"), "{refused}");
    assert!(!text.contains("database") && !text.contains("127.0.0.1"), "the cause is for the operator: {refused}");
    database.accept_connections();
    // The gateway notices by itself, within a second.
    while echo("third")["isError"] == true {}
    client.leave();
    let succeeded = home.run(&["calls", "list", "--state", "succeeded", "-o", "json"]).json();
    assert_eq!(succeeded.as_array().unwrap().len(), 2, "{succeeded}");
    home.run(&["audit", "verify"]).ok();
}

#[test]
fn the_url_is_read_from_a_variable_and_shown_without_its_password() {
    let home = Home::new();
    home.configure(r#"{ "store": { "url": "env:STORE_URL" } }"#);
    let missing = home.run(&["calls", "list"]);
    assert!(missing.talk.contains("`store.url`") && missing.talk.contains("STORE_URL"), "{missing:?}");
    let variables = [("STORE_URL", "postgres://ada:hunter2@127.0.0.1:1/none?sslmode=disable")];
    let away = home.run_with(&["calls", "list"], &variables, "");
    assert!(away.talk.contains("`none` at 127.0.0.1:1") && !away.talk.contains("hunter2"), "{away:?}");
    home.configure(r#"{ "store": { "url": "env:STORE_URL", "maxBytes": "1GB" } }"#);
    let both = home.run_with(&["calls", "list"], &variables, "");
    assert!(both.talk.contains("maxBytes") && both.code == 2, "{both:?}");
}
