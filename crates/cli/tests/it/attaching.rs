//! Files and resources before a prompt: `run --attach` and `--resource`, and `@` in `chat`.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::fixture_server::FixtureServer;
use toolway_wire::revision::Era;

use crate::{
    chat_screen::ChatScreen,
    home::{Home, Ran, TOOLWAY},
};

const CHAT: [&str; 3] = ["chat", "--model", "scripted:script.json"];

fn run(home: &Home, words: &[&str]) -> Ran {
    home.run(&[&["run", "--model", "scripted:script.json"], words].concat())
}

fn answers(count: usize) -> Home {
    let turns: Vec<Value> = (1..=count).map(|number| json!({ "text": format!("Answer {number}.") })).collect();
    Home::with_script(&json!(turns))
}

/// Roles and texts of the last conversation.
fn messages(home: &Home) -> Vec<[String; 2]> {
    let shown = home.run(&["history", "show", "last", "-o", "json"]).json();
    let texts = shown["messages"].as_array().unwrap().iter();
    texts.map(|message| ["role", "text"].map(|key| message[key].as_str().unwrap().to_owned())).collect()
}

#[test]
fn run_gives_the_model_files_and_resources_before_the_prompt_and_says_how_large_they_are() {
    let home = answers(1);
    home.write("my notes.txt", "Buy bread.");
    let words =
        ["compare", "--attach", "my notes.txt", "--resource", "memo://today", "--resource", "sample.greeting://Ada"];
    let ran = run(&home, &[&words[..], &["-o", "human"]].concat());
    assert_eq!(ran.ok(), "Answer 1.\n");
    assert!(ran.talk.contains("toolway: attached file `my notes.txt` (about 3 tokens)\n"), "{}", ran.talk);
    assert!(ran.talk.contains("toolway: attached resource `memo://today` (about "), "{}", ran.talk);
    let messages = messages(&home);
    let roles: Vec<&str> = messages.iter().map(|[role, _]| role.as_str()).collect();
    assert_eq!(roles, ["attachment", "attachment", "attachment", "user", "assistant"]);
    assert!(messages[0][1].contains("`my notes.txt`") && messages[0][1].contains("\nBuy bread.\n"), "{messages:?}");
    assert!(messages[1][1].contains("of the tool server `sample`"), "{messages:?}");
    assert!(messages[2][1].contains("Hello, Ada."), "{messages:?}");
    assert_eq!(messages[3][1], "compare");

    let calls = home.run(&["calls", "list"]).json();
    let calls = calls.as_array().unwrap();
    assert!(calls.iter().all(|call| call["caller"] == "agent" && call["surface"] == "run"), "{calls:?}");
    assert_eq!(calls.len(), 2);
    assert_eq!(home.run(&["history", "list"]).json()[0]["title"], "compare");

    let stream = run(&home, &["x", "--attach", "my notes.txt", "--resource", "memo://today", "-o", "stream-json"]);
    let lines: Vec<Value> = stream.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "type": "attached", "file": "my notes.txt", "tokens": 3 }));
    assert_eq!((&lines[1]["server"], &lines[1]["uri"]), (&json!("sample"), &json!("memo://today")));
    let result = run(&home, &["x", "--attach", "my notes.txt"]).json();
    let parts = result["context"]["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["part"] == "attachments"), "{result}");
}

#[test]
fn what_cannot_be_attached_ends_the_run_before_the_model_is_asked() {
    let home = answers(1);
    home.folder("src");
    home.write("program", "\u{0}ELF");
    home.write("large.txt", &"x".repeat(2 << 20));
    for (words, problem) in [
        (["--attach", "nothing.txt"], "cannot attach `nothing.txt`: No such file or directory"),
        (["--attach", "src"], "cannot attach `src`: it is a directory; attach its files one by one"),
        (["--attach", "program"], "cannot attach `program`: it is neither UTF-8 text nor an image"),
        (["--attach", "large.txt"], "cannot attach `large.txt`: it is larger than 1048576 bytes"),
        (["--attach", "/dev/zero"], "cannot attach `/dev/zero`: it is not a regular file"),
    ] {
        let error = run(&home, &["look", words[0], words[1]]).failed(2, "arguments");
        assert!(error["message"].as_str().unwrap().starts_with(problem), "{error}");
    }
    run(&home, &["look", "--resource", "sample.memo://tomorrow"]).failed(7, "no_approver");
    run(&home, &["look", "--resource", "nowhere://x"]).failed(2, "unknown_name");
    assert_eq!(home.run(&["history", "list"]).json(), json!([]));
}

#[test]
fn an_at_sign_in_chat_attaches_files_resources_and_prompts_with_their_size_before_sending() {
    let home = answers(3);
    home.write("my notes.txt", "Buy bread.");
    for columns in [100, 60] {
        let mut chat = ChatScreen::start(&home, &CHAT, columns);
        chat.prompts(1).types("read @\"my notes.txt\", @sample.memo://today and me@example.org\r");
        chat.sees("attached file `my notes.txt` (about 3 tokens)").sees("attached resource `memo://today`");
        chat.sees("Answer 1.").sees_times("tokens in", 1).prompts(2);
        chat.types("use @sample.introduce\r").sees("name:").types("Ada\r");
        chat.sees("attached prompt `sample.introduce`").sees("Answer 2.").sees_times("tokens in", 2).prompts(3);
        chat.types("ask @unknown about it\r").sees("`@unknown` is no file, resource or prompt; it is sent as text.");
        chat.sees("Answer 3.").sees_times("tokens in", 3).prompts(4);
        chat.types("/usage\r").sees("attachments ").prompts(5).types("/exit\r");
        assert!(chat.end().0.success());
        let messages = messages(&home);
        let roles: Vec<&str> = messages.iter().map(|[role, _]| role.as_str()).collect();
        assert_eq!(
            roles,
            ["attachment", "attachment", "user", "assistant", "attachment", "user", "assistant", "user", "assistant"]
        );
        assert_eq!(messages[2][1], "read @\"my notes.txt\", @sample.memo://today and me@example.org");
        assert!(messages[4][1].contains("Introduce Ada"), "{messages:?}");
    }
}

#[test]
fn files_and_resources_are_completed_behind_an_at_sign() {
    let home = answers(1);
    home.write("notes and plans.txt", "Buy bread.");
    home.write("src/main.rs", "fn main() {}");
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    // The server is connected when its tools are listed.
    chat.prompts(1).types("/tools\r").sees("sample.add").prompts(2);
    chat.types("see @not\t").sees("> see @\"notes and plans.txt\"");
    chat.types("and @sr\t").sees("@src/").types("m\t").sees("@src/main.rs");
    chat.types("and @memo\t").sees("@sample.memo://today").types("\r");
    chat.sees("attached file `").sees("attached resource `memo://today`").sees("Answer 1.").sees("tokens in");
    chat.prompts(3).types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(messages(&home).len(), 5);
}

#[test]
fn a_file_outside_of_the_folder_is_asked_about_and_a_folder_is_not_sent() {
    let home = answers(1);
    home.write("work/.env", "KEY=secret");
    home.folder("work/src");
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("read @work/.env\r").sees("outside the working folder, or hidden").types("\r");
    chat.sees("The message was not sent").prompts(2);
    chat.types("read @work/src/\r").sees("it is a directory; attach its files one by one").prompts(3).types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(home.run(&["history", "list"]).json(), json!([]));
}

#[test]
fn lines_of_standard_input_attach_nothing() {
    let home = answers(1);
    home.write("notes.txt", "Buy bread.");
    home.run_with_input(&CHAT, "read @notes.txt\n").ok();
    assert_eq!(messages(&home)[0], ["user", "read @notes.txt"]);
}

#[test]
fn resources_that_fit_a_message_are_attached_where_both_settings_say_so() {
    let home = answers(1);
    let configure = |on: bool, server: bool| {
        let server = json!({ "command": TOOLWAY, "args": ["sample"], "autoContext": server });
        let config =
            json!({ "mcpServers": { "sample": server }, "agent": { "autoContext": on, "resourceCache": "1m" } });
        home.configure(&config.to_string());
        let shown = home.run(&["config", "show", "-o", "json"]).json().to_string();
        assert!(shown.contains("agent.resourceCache"), "{shown}");
    };
    // The sample server annotates nothing for the assistant.
    configure(true, true);
    run(&home, &["what is on my memo today?"]).ok();
    assert_eq!(messages(&home).len(), 2);
    home.configure(r#"{"agent": {"resourceCache": "soon"}}"#);
    let error = run(&home, &["x"]).failed(2, "config");
    assert!(error["message"].as_str().unwrap().contains("must be 0, or a duration"), "{error}");
}

#[test]
fn a_resource_for_the_assistant_that_fits_the_message_stands_before_it_and_the_user_is_told() {
    let runtime = Runtime::new().unwrap();
    let resource = |uri: &str, name: &str, audience: &str| {
        let listed = json!({ "uri": uri, "name": name, "annotations": { "audience": [audience] } });
        (listed, json!([{ "uri": uri, "text": format!("{name}: on Friday") }]))
    };
    let listed = [
        resource("docs://plan", "release plan", "assistant"),
        resource("docs://draft", "release draft for people", "user"),
        resource("docs://menu", "lunch menu", "assistant"),
    ];
    let server =
        listed.into_iter().fold(FixtureServer::new("docs"), |server, (item, contents)| server.resource(item, contents));
    let http = runtime.block_on(server.over_http(Some(Era::Legacy))).unwrap();
    let home = answers(1);
    for (agent, of_server, attached) in [(true, true, 1), (false, true, 0), (true, false, 0)] {
        let server = json!({ "url": http.url(), "autoContext": of_server });
        home.configure(&json!({ "mcpServers": { "docs": server }, "agent": { "autoContext": agent } }).to_string());
        let ran = run(&home, &["when is the release?", "-o", "human"]);
        assert_eq!(ran.ok(), "Answer 1.\n");
        let told = "toolway: attached resource `docs://plan` of `docs` (about ";
        assert_eq!(ran.talk.matches(told).count(), attached, "{}", ran.talk);
        assert_eq!(ran.talk.matches("attached resource").count(), attached, "{}", ran.talk);
        let messages = messages(&home);
        assert_eq!(messages.len(), 2 + attached, "{messages:?}");
        if attached == 1 {
            assert!(
                messages[0][0] == "attachment" && messages[0][1].contains("release plan: on Friday"),
                "{messages:?}"
            );
            assert_eq!(messages[1][1], "when is the release?");
        }
    }
}

#[test]
fn a_read_that_an_earlier_result_answers_has_a_record_that_says_so() {
    let read = json!({ "calls": [{ "tool": "mcp_read_resource", "arguments": { "server_id": "sample", "uri": "memo://today" } }] });
    let home = Home::with_script(&json!([read, read, { "text": "Twice." }]));
    let configure = |cache: Value| {
        // A server of a later revision says itself how long.
        let server = json!({ "command": TOOLWAY, "args": ["sample", "--era", "legacy"] });
        home.configure(&json!({ "mcpServers": { "sample": server }, "agent": { "resourceCache": cache } }).to_string());
    };
    for (cache, expected) in [(json!("1m"), true), (json!(0), false)] {
        configure(cache);
        let result = run(&home, &["read it twice"]).json();
        let calls = result["toolCalls"].as_array().unwrap().iter();
        let shown = calls.map(|call| home.run(&["calls", "show", call["callId"].as_str().unwrap()]).json());
        let shown: Vec<Value> = shown.collect();
        assert_eq!((&shown[0]["fromCache"], &shown[1]["fromCache"]), (&json!(false), &json!(expected)));
        assert_eq!((&shown[1]["state"], &shown[1]["outcome"]), (&json!("succeeded"), &json!("answered")));
        assert_eq!(shown[0]["result"], shown[1]["result"], "{shown:?}");
    }
}

#[test]
fn prompts_are_commands_in_both_spellings_and_help_shows_both() {
    let home = answers(2);
    let mut chat = ChatScreen::start(&home, &CHAT, 100);
    chat.prompts(1).types("/help\r").sees("/SERVER/PROMPT").sees("`/SERVER.PROMPT` is the same").sees("@SERVER.URI");
    chat.prompts(2).types("/sample/introduce name=Ada\r").sees("Answer 1.").sees_times("tokens in", 1);
    chat.prompts(3).types("/sample.introduce Ada\r").sees("Answer 2.").sees_times("tokens in", 2);
    chat.prompts(4).types("/exit\r");
    assert!(chat.end().0.success());
    assert_eq!(messages(&home)[0], messages(&home)[2]);
}
