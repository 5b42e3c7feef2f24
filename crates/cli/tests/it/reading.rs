//! `toolway resources`, `toolway prompts`, `toolway complete` and `toolway rpc`.

use crate::home::Home;

#[test]
fn resources_are_listed_and_read() {
    let home = Home::with_sample();
    let listed = "memo://today  Today's memo (text/plain): A text that `write_memo` replaces\n";
    assert_eq!(home.run(&["resources", "sample", "-o", "human"]).ok(), listed);
    assert_eq!(home.run(&["resources", "list", "sample", "-o", "human"]).ok(), listed);
    assert_eq!(home.run(&["@sample", "resources", "-o", "raw"]).ok(), "memo://today\n");
    assert_eq!(home.run(&["resources", "sample"]).json()["resources"][0]["uri"], "memo://today");

    let templates = "greeting://{name}  greeting (text/plain): A greeting by name\n";
    assert_eq!(home.run(&["resources", "templates", "sample", "-o", "human"]).ok(), templates);

    assert_eq!(home.run(&["resources", "read", "sample", "greeting://Ada", "-o", "human"]).ok(), "Hello, Ada.\n");
    assert_eq!(home.run(&["@sample", "resources", "read", "memo://today", "-o", "raw"]).ok(), "Buy bread.");
    let read = home.run(&["resources", "read", "sample", "memo://today"]).json();
    assert_eq!(read["contents"][0]["text"], "Buy bread.");

    let saved = home.run(&["resources", "read", "sample", "memo://today", "--save", "memo.txt", "-o", "human"]);
    assert_eq!((saved.ok(), saved.talk.as_str()), ("", "Written: memo.txt\n"));
    assert_eq!(std::fs::read_to_string(home.path("memo.txt")).unwrap(), "Buy bread.");

    let error = home.run(&["resources", "read", "sample", "memo://tomorrow"]).failed(8, "rpc_error");
    assert_eq!(error["error"]["data"]["uri"], "memo://tomorrow");
}

#[test]
fn prompts_are_listed_and_got() {
    let home = Home::with_sample();
    assert_eq!(
        home.run(&["prompts", "sample", "-o", "human"]).ok(),
        "introduce(name)  Ask a model to introduce a person\n"
    );
    assert_eq!(
        home.run(&["prompts", "get", "sample.introduce", "name=Ada", "-o", "human"]).ok(),
        "user:\n    Introduce Ada in two sentences.\n"
    );
    assert_eq!(
        home.run(&["@sample", "prompts", "get", "introduce", "Ada", "-o", "raw"]).ok(),
        "Introduce Ada in two sentences.\n"
    );
    let got = home.run(&["prompts", "get", "sample.introduce", "name=Ada"]).json();
    assert_eq!(got["messages"][0]["role"], "user");
    let error = home.run(&["prompts", "get", "sample.introduce"]).failed(2, "arguments");
    assert_eq!(error["message"], "prompt `introduce`: missing argument `name`");
    let error = home.run(&["prompts", "get", "sample.introdice", "name=Ada"]).failed(2, "unknown_prompt");
    assert_eq!(error["message"], "server `sample` has no prompt `introdice`; did you mean `introduce`?");
}

#[test]
fn arguments_are_completed_by_the_server() {
    let home = Home::with_sample();
    let words = ["complete", "sample", "--prompt", "introduce", "name=A"];
    assert_eq!(home.run(&[&words[..], &["-o", "human"]].concat()).ok(), "Ada\nAlan\n");
    assert_eq!(home.run(&words).json()["completion"]["total"], 2);
    let words = ["@sample", "complete", "--template", "greeting://{name}", "name=E", "-o", "raw"];
    assert_eq!(home.run(&words).ok(), "Edsger\n");
}

#[test]
fn any_request_can_be_sent() {
    let home = Home::with_sample();
    let params = r#"{"name":"echo","arguments":{"text":"hi"}}"#;
    let said = home.run(&["rpc", "old-sample", "tools/call", params]);
    assert_eq!(said.ok(), "{\"content\":[{\"text\":\"hi\",\"type\":\"text\"}],\"isError\":false}\n");
    assert_eq!(home.run(&["@old-sample", "rpc", "ping", "-o", "human"]).ok(), "{}\n");
    let error = home.run(&["rpc", "sample", "no/such"]).failed(8, "rpc_error");
    assert_eq!(error["error"]["code"], -32601);
    home.run(&["rpc", "sample", "tools/call", "[]"]).failed(2, "arguments");
    let piped = home.run_with_input(&["rpc", "old-sample", "tools/call", "-"], params);
    assert_eq!(piped.ok(), said.ok());
}
