//! Servers of both eras at a terminal: a call that can be answered reaches them in the era in which they ask.

use crate::home::{Home, root};

/// The server on FastMCP, whose tools ask in one way each.
fn asking() -> String {
    let python = root().join(".interop/venv/bin/python");
    assert!(python.exists(), "{} is missing: run ./test, which installs it", python.display());
    format!("{} {}", python.display(), root().join("tests/interop/servers/asking_fastmcp.py").display())
}

#[test]
fn call_answers_both_ways_in_which_tools_of_fastmcp_ask() {
    let (home, server) = (Home::new(), asking());
    let call = |tool| home.run(&["call", "--stdio", &server, tool, "--answer", "name=Ada", "-o", "human"]);
    assert_eq!(call("pushed").ok(), "hello Ada\n");
    // FastMCP refuses such a result in a session. The call is not repeated, the next one is sent without a session.
    let first = call("by_result");
    assert!(first.code == 8 && first.talk.contains("InputRequiredResult"), "{first:?}");
    assert_eq!(call("by_result").ok(), "hello Ada\n");
    assert_eq!(call("pushed").ok(), "hello Ada\n");
}
