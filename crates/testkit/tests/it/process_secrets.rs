//! Output, logs and files of a process contain no token, code, verifier or client secret.

use std::{fs, process::Output};

use toolway_testkit::{
    authorization::{Endpoint, Quirk, ServerQuirk},
    secret_scan::SecretScan,
};

use crate::signed_in::SharedHome;

/// Standard output of a process, in lines.
fn stdout_lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

/// Sign-in, calls, refresh, step-up, a host and its records, and failures with a server that repeats requests in its
/// errors.
async fn everything(home: &SharedHome, last: &str) -> Vec<Output> {
    home.server.set_quirks([ServerQuirk::RequiresScope { tool: "write".to_owned(), scope: "write".to_owned() }]);
    home.login.set_quirks([Quirk::TokenLifetime(0), Quirk::IssuesClientSecrets]);
    let first = home.process(&["sign-in"]).output().await;
    home.login.set_quirks([Quirk::IssuesClientSecrets]);
    let second = home.process(&["calls:2", "call:write", "call:hello", "host:hello"]).output().await;
    home.login.set_quirks([Quirk::IssuesClientSecrets, Quirk::ExpiredCodes, Quirk::EchoesRequest]);
    let refused = home.process(&["sign-in"]).output().await;
    let out = home.process(&[last, "sign-out", "calls:1", "host:hello"]).output().await;
    vec![first, second, refused, out]
}

#[tokio::test]
async fn output_logs_and_files_contain_no_secret() {
    let home = SharedHome::new().await;
    let outputs = everything(&home, "call:hello").await;
    assert!(stdout_lines(&outputs[0])[0].starts_with("Ok(()) Caller"), "{:?}", stdout_lines(&outputs[0]));
    let hello = "Ok(\"hello ada\")";
    assert_eq!(stdout_lines(&outputs[1])[..5], ["ready", hello, hello, hello, hello]);
    let hosted = &stdout_lines(&outputs[1])[5];
    assert!(hosted.contains("hello ada") && hosted.contains("CallRecord"), "{hosted}");
    assert!(
        stdout_lines(&outputs[2])[0].contains("`invalid_grant` (the code has expired"),
        "{:?}",
        stdout_lines(&outputs[2])
    );
    assert_eq!(stdout_lines(&outputs[3])[..3], [hello, "forgot 1", "ready"]);
    for endpoint in [Endpoint::Registration, Endpoint::Page, Endpoint::Code, Endpoint::Refresh] {
        assert!(home.login.count(endpoint) != 0, "{endpoint:?} was not used");
    }

    let scan = SecretScan::of(&home.login.secrets());
    assert!(30 < scan.size(), "too few secrets: {}", scan.size());
    for output in &outputs {
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("TRACE"), "nothing was logged");
        assert_eq!(scan.found_in(&output.stdout), Vec::<&str>::new());
        assert_eq!(scan.found_in(&output.stderr), Vec::<&str>::new());
    }
    // The sealed file and its key are included.
    assert!(fs::read_dir(home.path().join("vault")).unwrap().count() >= 2);
    assert_eq!(scan.found_below(&home.path()).unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn leaked_secret_is_found() {
    let home = SharedHome::new().await;
    let outputs = everything(&home, "betray").await;
    let scan = SecretScan::of(&home.login.secrets());
    assert!(!scan.found_in(&outputs[3].stdout).is_empty());
    assert!(!scan.found_in(&outputs[3].stderr).is_empty());
    fs::write(home.path().join("vault/left-behind"), home.login.newest_refresh().unwrap()).unwrap();
    assert!(!scan.found_below(&home.path()).unwrap().is_empty());
}
