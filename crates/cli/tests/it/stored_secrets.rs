//! Secrets in the vault, and the references `${secret:NAME}` to them.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use serde_json::{Value, json};
use toolway_testkit::secret_scan::SecretScan;

use crate::{
    configuring::run_in,
    console::serving,
    home::{Home, Ran, TOOLWAY},
    project_servers::accept,
    terminal::Terminal,
};

/// The value of most stories.
pub(crate) const VALUE: &str = "ghp_planted0f3b5d7e9a1c";
/// The beginning of the SHA-256 of [`VALUE`].
const WANTED: &str = "65b19104";
/// Starts the sample server if `TOKEN` has the value of the stories, which the script itself does not contain.
const CHECK: &str = r#"[ "$(printf %s "$TOKEN" | sha256sum | cut -c 1-8)" = "$WANTED" ] || exit 3; exec "$0" sample"#;

/// An entry whose server only starts if the variable `TOKEN` resolves to [`VALUE`].
pub(crate) fn checking_entry(token: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", CHECK, TOOLWAY], "env": { "TOKEN": token, "WANTED": WANTED } })
}

/// Asserts that the value is neither in the output of a command nor in a file of the home.
#[track_caller]
pub(crate) fn assert_hidden(home: &Home, ran: &[&Ran]) {
    let scan = SecretScan::of(&[VALUE.to_owned()]);
    for ran in ran {
        assert_eq!(scan.found_in(ran.out.as_bytes()), Vec::<&str>::new(), "{ran:?}");
        assert_eq!(scan.found_in(ran.talk.as_bytes()), Vec::<&str>::new(), "{ran:?}");
    }
    assert_eq!(scan.found_below(&home.path("")).unwrap(), Vec::<String>::new());
}

fn configured(home: &Home) -> Value {
    serde_json::from_str(&std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap()).unwrap()
}

#[test]
fn secret_is_set_used_listed_and_removed() {
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "shop": checking_entry("${secret:shop-token}") } }).to_string());
    let error = home.run(&["ping", "shop"]).failed(2, "config");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("`shop.env.TOKEN` needs the secret `shop-token`, which is not stored; store it with `toolway secret set shop-token`"),
        "{message}"
    );
    assert_eq!(home.run(&["secret", "list"]).json()["secrets"][0]["setAt"], Value::Null);

    let set = home.run_with_input(&["secret", "set", "shop-token"], &format!("{VALUE}\n"));
    assert_eq!(set.json()["change"], "stored");
    let pinged = home.run(&["ping", "shop", "-v", "--log-level", "trace"]);
    pinged.ok();
    let listed = home.run(&["secret", "list"]);
    let row = &listed.json()["secrets"][0];
    assert_eq!((&row["name"], &row["usedBy"][0]["server"]), (&json!("shop-token"), &json!("shop")));
    assert_eq!(row["usedBy"][0]["key"], "mcpServers.shop.env.TOKEN");
    assert!(row["setAt"].as_str().unwrap().ends_with('Z'), "{row}");
    let loud =
        json!({ "command": "sh", "args": ["-c", "echo \"${1#<}\" >&2; exit 3", "sh", "<${secret:shop-token}>"] });
    home.run_with_input(&["servers", "add", "loud", "--snippet", "-"], &loud.to_string()).ok();
    let told = home.run(&["ping", "loud"]);
    assert!(told.failed(4, "ended")["message"].as_str().unwrap().ends_with("output: [hidden]>"), "{told:?}");
    home.run(&["servers", "remove", "loud"]).ok();
    let shown = home.run(&["config", "show"]);
    assert!(shown.ok().contains("${secret:shop-token}"));

    let audit = home.run(&["audit", "query", "--kind", "secret"]);
    assert_eq!(audit.json()[0]["subject"], "shop-token");
    let removed = home.run(&["secret", "remove", "shop-token"]);
    assert_eq!(removed.json()["usedBy"][0]["server"], "shop");
    home.run(&["secret", "remove", "shop-token"]).failed(2, "unknown_secret");
    home.run(&["ping", "shop"]).failed(2, "config");
    assert_eq!(home.run(&["audit", "query", "--kind", "secret"]).json().as_array().unwrap().len(), 2);
    assert_hidden(&home, &[&set, &pinged, &told, &listed, &shown, &audit, &removed]);
}

#[test]
fn value_is_typed_at_a_hidden_prompt() {
    let home = Home::new();
    let mut terminal = Terminal::start(home.command(&["secret", "set", "token"]));
    terminal.until("(hidden): ");
    terminal.types(&format!("{VALUE}\r"));
    let (status, shown) = terminal.end(Duration::from_secs(20));
    assert!(status.success(), "{shown}");
    assert!(shown.contains("Stored `token` in") && shown.contains("${secret:token}"), "{shown}");
    assert!(!shown.contains(VALUE) && !shown.contains("ghp_"), "{shown}");
    home.configure(&json!({ "mcpServers": { "shop": checking_entry("${secret:token}") } }).to_string());
    home.run(&["ping", "shop"]).ok();
}

#[test]
fn bad_input_is_explained() {
    let home = Home::new();
    for name in ["", "a b", "a/b", "-x", "${x}"] {
        home.run_with_input(&["secret", "set", "--", name], VALUE).failed(2, "secret");
    }
    let named = home.run_with_input(&["secret", "set", VALUE], "x");
    named.failed(2, "secret");
    let given = home.run(&["secret", "set", "token", VALUE]);
    assert!(given.failed(2, "arguments")["message"].as_str().unwrap().contains("cannot be an argument"));
    home.run_with_input(&["secret", "set", "token"], "").failed(2, "secret");
    home.run_with_input(&["secret", "set", "token"], &"x".repeat(64 * 1024 + 1)).failed(2, "secret");
    assert_eq!(home.run(&["secret", "list"]).json()["secrets"], json!([]));
    assert_hidden(&home, &[&named, &given]);
}

#[test]
fn vault_in_memory_stores_nothing_and_says_so() {
    let home = Home::new();
    home.configure(r#"{ "signIn": { "vault": "memory" } }"#);
    let error = home.run_with_input(&["secret", "set", "token"], VALUE).failed(1, "vault");
    assert!(error["message"].as_str().unwrap().ends_with("it was not stored"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("signIn.vault"), "{error}");
}

#[test]
fn project_gets_a_secret_only_after_it_is_accepted() {
    let home = Home::new();
    home.run_with_input(&["secret", "set", "token"], VALUE).ok();
    let file = json!({ "mcpServers": { "theirs": checking_entry("${secret:token}") } });
    home.write("clone/toolway.json", &file.to_string());
    let refused = run_in(&home, "clone", &["ping", "theirs"]);
    refused.failed(7, "not_accepted");
    assert!(refused.talk.contains("hands over secret token"), "{}", refused.talk);
    for words in [&["config", "check"][..], &["doctor"], &["secret", "list"]] {
        assert_hidden(&home, &[&run_in(&home, "clone", words)]);
    }
    accept(&home, "clone", "theirs").ok();
    run_in(&home, "clone", &["ping", "theirs"]).ok();

    // Another secret is another server.
    home.run_with_input(&["secret", "set", "other"], VALUE).ok();
    home.write("clone/toolway.json", &file.to_string().replace("secret:token", "secret:other"));
    let refused = run_in(&home, "clone", &["ping", "theirs"]);
    refused.failed(7, "not_accepted");
    assert_hidden(&home, &[&refused]);
}

#[test]
fn secret_of_a_pasted_snippet_goes_to_the_vault() {
    let home = Home::new();
    let snippet = json!({ "mcpServers": { "shop": checking_entry(VALUE) } });
    let added = home.run_with_input(&["servers", "add", "--snippet", "-"], &snippet.to_string());
    assert_eq!(added.json()["secrets"], json!([{ "key": "env.TOKEN", "name": "shop-TOKEN" }]));
    assert!(added.talk.contains("the secret in `env.TOKEN` of `shop` is stored as `shop-TOKEN` in "), "{}", added.talk);
    assert_eq!(configured(&home)["mcpServers"]["shop"]["env"]["TOKEN"], "${secret:shop-TOKEN}");
    home.run(&["ping", "shop"]).ok();

    // The same value again has the same name, another one a number.
    let url = ["servers", "add", "shop-2", "--url", "https://example.com/mcp", "--header"];
    let flagged = home.run(&[&url[..], &[&format!("Authorization: Bearer {VALUE}")]].concat());
    assert_eq!(flagged.json()["secrets"][0]["name"], "shop-2-Authorization");
    let entry = configured(&home)["mcpServers"]["shop-2"].clone();
    assert_eq!(entry["headers"]["Authorization"], "Bearer ${secret:shop-2-Authorization}");
    let same = home.run(&["servers", "update", "shop", "--env", &format!("TOKEN={VALUE}")]);
    assert_eq!((&same.json()["changed"], &same.json()["secrets"][0]["name"]), (&json!(false), &json!("shop-TOKEN")));
    let audit = home.run(&["audit", "query", "--kind", "secret"]);
    assert_eq!((&audit.json()[0]["server"], &audit.json()[0]["details"]["key"]), (&json!("shop"), &json!("env.TOKEN")));
    assert_hidden(&home, &[&added, &flagged, &same, &audit]);
}

#[test]
fn new_value_of_a_key_replaces_its_secret_and_no_other() {
    let home = Home::new();
    home.run(&["servers", "add", "a", "--stdio", "x", "--env", "TOKEN=first-value"]).ok();
    home.run(&["servers", "update", "a", "--env", "TOKEN=second-value"]).ok();
    let names = || -> Vec<String> {
        let listed = home.run(&["secret", "list"]).json();
        listed["secrets"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(), ["a-TOKEN"]);
    // A second user of the secret keeps its value.
    home.run(&["servers", "add", "b", "--stdio", "x", "--env", "X=${secret:a-TOKEN}"]).ok();
    home.run(&["servers", "update", "a", "--env", "TOKEN=third-value"]).ok();
    assert_eq!(names(), ["a-TOKEN", "a-TOKEN-2"]);
    assert_eq!(configured(&home)["mcpServers"]["a"]["env"]["TOKEN"], "${secret:a-TOKEN-2}");
    assert_eq!(configured(&home)["mcpServers"]["b"]["env"]["X"], "${secret:a-TOKEN}");
}

#[test]
fn nothing_is_written_if_the_secret_cannot_be_stored() {
    let home = Home::new();
    let before = r#"{ "signIn": { "vault": "memory" } }"#;
    home.configure(before);
    let added = home.run(&["servers", "add", "a", "--stdio", "x", "--env", &format!("TOKEN={VALUE}")]);
    let error = added.failed(1, "vault");
    assert!(
        error["message"].as_str().unwrap().starts_with("the secret in `env.TOKEN` of `a` cannot be stored: "),
        "{error}"
    );
    assert!(error["hint"].as_str().unwrap().contains("`${NAME}`"), "{error}");
    assert_eq!(std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap(), before);
    assert_hidden(&home, &[&added]);
    home.write(
        ".cursor/mcp.json",
        &json!({ "mcpServers": { "b": { "command": "x", "env": { "KEY": "word" } } } }).to_string(),
    );
    let imported = home.run(&["import", "cursor", "--copy"]).json();
    let because = imported["entries"][0]["because"].as_str().unwrap();
    assert!(because.contains("only in memory") && because.contains("`${NAME}`"), "{because}");

    // A file that cannot be written leaves no secret behind.
    let home = Home::new();
    home.configure("{ not json");
    home.run(&["servers", "add", "a", "--stdio", "x", "--env", "TOKEN=word"]).failed(2, "config");
    home.configure("{}");
    assert_eq!(home.run(&["secret", "list"]).json()["secrets"], json!([]));
}

#[test]
fn imported_server_has_its_secret_and_the_file_has_not() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", &json!({ "mcpServers": { "shop": checking_entry(VALUE) } }).to_string());
    let imported = home.run(&["import", "cursor", "--copy"]);
    assert_eq!(imported.json()["entries"][0]["secrets"], json!([{ "key": "env.TOKEN", "name": "shop-TOKEN" }]));
    std::fs::remove_file(file).unwrap();
    home.run(&["ping", "shop"]).ok();
    let listed = home.run(&["secret", "list", "-o", "human"]);
    assert!(listed.ok().contains("mcpServers.shop.env.TOKEN"), "{}", listed.out);
    assert_hidden(&home, &[&imported, &listed]);
}

/// Ways to get a secret into a file that were tried.
#[test]
fn secrets_in_unusual_places_do_not_reach_the_file() {
    let bearer = format!("Bearer {VALUE}");
    for entry in [
        json!({ "command": "sh", "args": ["-c", format!("export X={VALUE}; exec server")] }),
        json!({ "command": "npx", "args": ["-y", "mcp-remote", "https://example.com/mcp", "--header", format!("Authorization:{bearer}")] }),
        json!({ "command": "npx", "args": [format!("--config={{\"token\":\"{VALUE}\"}}")] }),
        json!({ "command": "x", "env": { "OPENAPI_MCP_HEADERS": json!({ "Authorization": bearer }).to_string() } }),
        json!({ "command": "x", "env": { "LEVEL": format!("${{LEVEL:-{VALUE}}}") } }),
        json!({ "command": "x", "env": { "DATABASE": format!("postgres://ada:{VALUE}@db/x") } }),
        json!({ "command": "x", "settings": { "deep": { "api_key": VALUE } }, "http_headers": { "X": VALUE } }),
        json!({ "command": "x", "description": format!("the key is {VALUE}.") }),
        json!({ "url": format!("https://{VALUE}@example.com/mcp") }),
        json!({ "url": format!("https://example.com/{VALUE}/mcp") }),
        json!({ "url": format!("https://example.com/mcp?q={VALUE}#x") }),
        json!({ "url": "https://example.com/mcp", "headers": { "X-Anything": VALUE } }),
        json!({ "url": "https://example.com/mcp", "auth": { "kind": "bearer", "token": VALUE } }),
        json!({ "url": "https://example.com/mcp", "oauth": { "clientId": "c", "clientSecret": VALUE } }),
    ] {
        let home = Home::new();
        let added = home.run_with_input(&["servers", "add", "shop", "--snippet", "-"], &entry.to_string());
        added.ok();
        assert_hidden(&home, &[&added]);
        // Keys without an effect are not written at all.
        let is_left_out = entry.get("settings").is_some();
        assert_eq!(added.json()["secrets"].as_array().unwrap().is_empty(), is_left_out, "{entry}");
    }
    let home = Home::new();
    let set = home.run(&[
        "servers",
        "add",
        "a",
        "--stdio",
        "x",
        "--set",
        &format!("auth={{\"kind\":\"bearer\",\"token\":\"{VALUE}\"}}"),
    ]);
    assert_hidden(&home, &[&set]);
    let project = home.folder("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    let added =
        run_in(&home, "project", &["servers", "add", "b", "--project", "--stdio", "x", "--env", &format!("K={VALUE}")]);
    added.ok();
    assert_hidden(&home, &[&added]);
}

#[test]
fn doctor_names_secrets_in_clear_and_the_command_that_moves_them() {
    let home = Home::new();
    let entry = checking_entry(VALUE);
    let models = json!({ "big": { "vendor": "openai", "model": "m", "apiKey": VALUE } });
    let file = home.path(".config/toolway/toolway.json");
    home.configure(&format!("{{\n\"models\": {models},\n\"mcpServers\": {{\n\"Shop\": {entry} }} }}"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let found = home.run(&["doctor"]);
    let rows = &found.json()["secretsInClear"];
    let row = |index: usize| (rows[index]["key"].clone(), rows[index]["line"].clone());
    assert_eq!(row(0), (json!("models.big.apiKey"), json!(2)));
    assert_eq!(row(1), (json!("mcpServers.Shop.env.TOKEN"), json!(4)));
    assert_eq!((&rows[1]["file"], &rows[1]["readableByOthers"]), (&json!(file), &json!(true)));
    assert_eq!(rows[1]["advice"], "move it to the vault with `toolway secret move shop`");
    let advice = rows[0]["advice"].as_str().unwrap();
    assert!(advice.contains("toolway secret set big-apiKey") && advice.contains("${secret:big-apiKey}"), "{advice}");
    let told = home.run(&["doctor", "-o", "human"]);
    let line =
        format!("{}:4: `mcpServers.Shop.env.TOKEN` is a secret in clear, and other users can read it", file.display());
    assert!(told.ok().contains(&line), "{}", told.out);

    let moved = home.run(&["secret", "move", "shop"]);
    assert_eq!(moved.json()["secrets"], json!([{ "key": "env.TOKEN", "name": "shop-TOKEN" }]));
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600,
        "the key of the model is in clear"
    );
    home.run(&["ping", "shop"]).ok();
    home.run(&["secret", "move", "shop"]).failed(2, "secret");
    home.run_with_input(&["secret", "set", "big-apiKey"], VALUE).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    home.configure(&text.replace(VALUE, "${secret:big-apiKey}"));
    let clean = home.run(&["doctor"]);
    assert_eq!(clean.json()["secretsInClear"], json!([]));
    assert_hidden(&home, &[&found, &told, &moved, &clean]);
}

#[test]
fn console_adds_a_server_without_its_secret() {
    let home = Home::new();
    let (serving, browser) = serving(&home);
    let snippet = json!({ "mcpServers": { "shop": checking_entry(VALUE) } });
    let pasted = json!({ "text": snippet.to_string() });
    let (status, parsed) = browser.post("/api/v1/servers/parse", &pasted);
    assert_eq!((status, &parsed["entry"]["env"]["TOKEN"]), (200, &json!("${secret:shop-TOKEN}")));
    let warnings = parsed["warnings"].to_string();
    assert!(warnings.contains("the secret in `env.TOKEN` will be stored in the vault as `shop-TOKEN`"), "{warnings}");
    assert_eq!(home.run(&["secret", "list"]).json()["secrets"], json!([]), "nothing is stored before the consent");
    let source = json!({ "text": snippet.to_string(), "name": "shop" });
    let draft = json!({ "name": "shop", "entry": parsed["entry"], "pasted": source });
    let (_, planned) = browser.post("/api/v1/servers/plan", &draft);
    assert!(planned["difference"].to_string().contains("${secret:shop-TOKEN}"), "{planned}");
    let agreed = json!({ "draft": draft, "consent": true });
    let (_, tested) = browser.post("/api/v1/servers/test", &agreed);
    assert_eq!(tested["ok"], true, "{tested}");
    let (status, added) = browser.post("/api/v1/servers", &agreed);
    assert_eq!((status, &added["name"]), (200, &json!("shop")));
    assert!(added["notices"][0].as_str().unwrap().contains("is stored as `shop-TOKEN`"), "{added}");
    let ready = browser.until("shop", "connected");
    let shown = browser.get("/api/v1/servers/shop");
    let foreign = json!({ "url": "https://example.com/mcp", "headers": { "X": "${secret:shop-TOKEN}" } });
    let (_, foreign) = browser.post("/api/v1/servers/parse", &json!({ "text": foreign.to_string() }));
    assert_eq!(foreign["warnings"][0], "the server gets your stored secret `shop-TOKEN`");
    let command = format!("TOKEN={VALUE} npx -y thing --key {VALUE}");
    let (_, read) = browser.post("/api/v1/servers/parse", &json!({ "text": command }));
    let source = json!({ "text": command, "name": read["name"] });
    let draft = json!({ "name": "thing", "entry": read["entry"], "pasted": source });
    let (_, runs) = browser.post("/api/v1/servers/plan", &draft);
    assert_eq!(runs["runs"], "npx -y thing --key '${secret:thing-key}'", "{runs}");
    for answer in [&parsed, &planned, &tested, &read, &added, &ready, &shown, &runs] {
        assert!(!answer.to_string().contains(VALUE), "{answer}");
    }
    let talk = serving.stop();
    assert!(!talk.contains(VALUE), "{talk}");
    assert_hidden(&home, &[]);
}
