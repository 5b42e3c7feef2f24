//! The operator log: what an operator sees of a failing server, where and in which format.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::{
    gateway::Serving,
    home::{Home, TOOLWAY},
};

/// A home whose server `broken` cannot be started.
fn broken() -> Home {
    let home = Home::new();
    home.configure(&format!(
        r#"{{ "mcpServers": {{ "broken": {{ "command": "false" }},
            "sample": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#
    ));
    home
}

/// Runs a gateway until its server has failed; returns its metrics and its standard error.
fn served(home: &Home, words: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let serving = Serving::start_with(home, words, variables);
    home.settled(&serving, "broken", "waiting");
    home.settled(&serving, "sample", "ready");
    assert_eq!(serving.get("/servers", "tw_wrong").status, 401);
    let metrics = serving.get("/metrics", serving.key()).body;
    (metrics, serving.stop())
}

fn warning(talk: &str) -> Option<&str> {
    talk.lines().find(|line| line.contains(" WARN cannot connect ") && line.contains(" server=broken"))
}

#[test]
fn failing_server_is_a_warning_on_standard_error_and_in_the_metrics() {
    let (metrics, talk) = served(&broken(), &[], &[]);
    let warning = warning(&talk).unwrap_or_else(|| panic!("{talk}"));
    assert!(warning.contains(" error=\""), "{warning}");
    assert!(talk.contains(" refused caller=- "), "the access log is in the same place: {talk}");
    assert!(!talk.contains(" INFO "), "{talk}");
    let failures = "toolway_connection_failures_total{server=\"broken\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(failures)).unwrap();
    assert!(1 <= count.parse::<u64>().unwrap(), "{metrics}");
    assert!(metrics.contains("toolway_connection_attempts_total{server=\"sample\"} 1\n"), "{metrics}");
    let logged = "toolway_errors_total{module=\"host::connection::supervisor::publish\",level=\"warn\"} ";
    assert!(metrics.contains(logged), "{metrics}");
}

#[test]
fn json_log_has_structured_fields() {
    for words in [["--log-format", "json"], ["--log", "json"]] {
        let (_, talk) = served(&broken(), &words, &[]);
        let lines = talk.lines().filter(|line| !line.starts_with("toolway: "));
        let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let warning = lines.iter().find(|line| line["event"] == "log" && line["level"] == "warn").unwrap();
        assert_eq!((&warning["server"], &warning["message"]), (&"broken".into(), &"cannot connect".into()));
        assert!(warning["error"].is_string() && warning["time"].is_string(), "{warning}");
        assert!(lines.iter().any(|line| line["event"] == "refused" && line["status"] == 401), "{talk}");
    }
}

#[test]
fn log_file_is_private_and_has_both_logs() {
    let home = broken();
    let path = home.path("gateway.log");
    let (_, talk) = served(&home, &["--log-file", path.to_str().unwrap()], &[]);
    assert!(warning(&talk).is_none() && !talk.contains("refused"), "{talk}");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(warning(&written).is_some() && written.contains(" refused caller=- "), "{written}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // A later run appends.
    served(&home, &["--log-file", path.to_str().unwrap()], &[]);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&written));
}

#[test]
fn log_level_is_an_option_or_a_variable() {
    for (words, variables) in [(&["--log-level", "off"][..], &[][..]), (&[], &[("TOOLWAY_LOG", "off")])] {
        let (metrics, talk) = served(&broken(), words, variables);
        assert!(warning(&talk).is_none(), "{talk}");
        assert!(talk.contains(" refused caller=- "), "the access log has an option of its own: {talk}");
        assert!(metrics.contains("toolway_errors_total{module=\"host::"), "errors are still counted: {metrics}");
    }
    let (_, talk) = served(&broken(), &["--log-level", "off,host=info"], &[("TOOLWAY_LOG", "off")]);
    assert!(talk.lines().any(|line| line.contains(" INFO connected server=sample")), "{talk}");
}

#[test]
fn other_commands_log_errors_only_and_never_to_standard_output() {
    let home = broken();
    let quiet = home.run(&["tools"]);
    assert!(warning(&quiet.talk).is_none(), "{}", quiet.talk);
    let ran = home.run_with(&["tools"], &[("TOOLWAY_LOG", "warn")], "");
    assert!(warning(&ran.talk).is_some(), "{}", ran.talk);
    assert_eq!(ran.out, quiet.out);
}

#[test]
fn invalid_log_options_are_usage_errors() {
    let home = Home::new();
    let wrong = home.run(&["tools", "--log-level", "loud"]);
    assert!(wrong.code == 2 && wrong.talk.contains("unknown level `loud`"), "{wrong:?}");
    let error = home.run_with(&["tools"], &[("TOOLWAY_LOG", "loud")], "").failed(2, "usage");
    assert!(error["message"].as_str().unwrap().starts_with("`TOOLWAY_LOG=loud`: unknown level `loud`"), "{error}");
    let error = home.run(&["tools", "--log-file", "missing/folder/log"]).failed(2, "usage");
    assert!(error["message"].as_str().unwrap().contains("cannot open the log file"), "{error}");
}
