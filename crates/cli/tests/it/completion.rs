//! Completion candidates, read from disk without connecting to servers.

use crate::home::{Home, odd};

fn candidates(home: &Home, line: &str) -> Vec<String> {
    let words: Vec<&str> = ["__complete", "--"].into_iter().chain(line.split(' ')).collect();
    let ran = home.run(&words);
    ran.ok().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn commands_options_and_servers_are_completed() {
    let home = Home::with_sample();
    assert_eq!(candidates(&home, "re"), ["resources"]);
    assert_eq!(candidates(&home, "@"), ["@old-sample", "@sample"]);
    assert_eq!(candidates(&home, "tools o"), ["old-sample"]);
    assert_eq!(candidates(&home, "doctor sample o"), ["old-sample"]);
    assert_eq!(candidates(&home, "tools lint s"), ["sample"]);
    assert_eq!(candidates(&home, "resources "), ["list", "templates", "read", "watch", "old-sample", "sample"]);
    assert_eq!(candidates(&home, "call --dry"), ["--dry-run"]);
    assert_eq!(candidates(&home, "--era "), ["auto", "legacy", "modern"]);
    assert_eq!(candidates(&home, "call --server s"), ["sample"]);
    assert_eq!(candidates(&home, "-o json @sample pi"), ["ping"]);
}

#[test]
fn tools_and_arguments_are_completed_from_the_cache() {
    let home = Home::with_sample();
    assert_eq!(candidates(&home, "call s"), ["sample."]);
    home.run(&["tools", "sample"]).ok();
    assert_eq!(candidates(&home, "call sample.e"), ["sample.echo"]);
    assert_eq!(candidates(&home, "@sample call a"), ["add"]);
    assert_eq!(candidates(&home, "call sample.count "), ["pause=", "to="]);
    assert_eq!(candidates(&home, "call sample.add a=1 b"), ["b="]);
    assert_eq!(candidates(&home, "tools sample w"), ["write_memo"]);
    assert_eq!(candidates(&home, "call sample e"), ["echo"]);
    assert_eq!(candidates(&home, "call sample count "), ["pause=", "to="]);
}

#[test]
fn excluded_tools_and_listings_of_another_definition_are_not_suggested() {
    let home = Home::with_sample();
    home.run(&["call", "sample.echo", "hi"]).ok();
    assert_eq!(candidates(&home, "call sample__e"), ["sample__echo"]);
    let text = std::fs::read_to_string(home.path(".config/toolway/toolway.json")).unwrap();
    home.configure(&text.replace("[\"sample\"] }", "[\"sample\"], \"excludeTools\": [\"echo\"] }"));
    assert_eq!(candidates(&home, "call sample.e"), Vec::<String>::new());
    assert_eq!(candidates(&home, "call sample.a"), ["sample.add"]);
    home.configure(&text.replace("[\"sample\"] }", "[\"sample\", \"--era\", \"modern\"] }"));
    assert_eq!(candidates(&home, "call s"), ["sample."]);
}

#[test]
fn listing_one_kind_keeps_the_others_in_the_cache() {
    let home = Home::with_sample();
    home.run(&["tools", "sample"]).ok();
    home.run(&["prompts", "sample"]).ok();
    assert_eq!(candidates(&home, "call sample.e"), ["sample.echo"]);
}

#[test]
fn completion_starts_no_server_and_suggests_no_unsafe_name() {
    let home = Home::new();
    let record = home.path("record");
    let words: Vec<String> = odd("paints").split(' ').map(str::to_owned).collect();
    home.configure(&format!(
        r#"{{"mcpServers":{{"odd":{{"command":"{}","args":["{}","{}"]}}}}}}"#,
        words[0],
        words[1],
        record.display()
    ));
    assert_eq!(candidates(&home, "call "), ["odd."]);
    assert!(!record.exists());
    home.run(&["tools", "odd"]).ok();
    let heard = std::fs::read(&record).unwrap();
    assert_eq!(candidates(&home, "call "), ["odd.hello", "odd.odd"]);
    assert_eq!(std::fs::read(&record).unwrap(), heard);
}
