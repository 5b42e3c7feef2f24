//! Five everyday conversations: how often a user is asked, and that nothing is asked about twice.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentOptions, Conversation};
use toolway_host::policy::{ApprovalAnswer, ApprovalTerm, Scope, Surface};
use toolway_model::{Message, ScriptedModel};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::TestHost,
};

use crate::options;

/// A conversation: its name, what the user says, the calls of the model in order.
struct Story {
    name: &'static str,
    prompt: &'static str,
    calls: Vec<(&'static str, Value)>,
    /// Questions if each is answered with "this conversation".
    asked: usize,
}

fn stories() -> Vec<Story> {
    let write = |path: &str, text: &str| ("desk__write_file", json!({ "path": path, "content": text }));
    let note = |name: &str, text: &str| ("desk__write_note", json!({ "name": name, "text": text }));
    let fetch = |url: &str| ("desk__fetch", json!({ "url": url }));
    let shell = |command: &str| ("desk__shell", json!({ "command": command }));
    let open = |url: &str| ("desk__navigate", json!({ "url": url }));
    let click = |element: &str| ("desk__click", json!({ "element": element }));
    let read = |path: &str| ("desk__read_file", json!({ "path": path }));
    vec![
        Story {
            name: "edit files in a folder",
            prompt: "tidy up the project",
            calls: vec![
                read("/home/ada/project/src/main.rs"),
                write("/home/ada/project/src/main.rs", "fn main() {}"),
                write("/home/ada/project/src/lib.rs", "mod a;"),
                write("/home/ada/project/src/a.rs", "// a"),
                write("/home/ada/project/src/deep/b.rs", "// b"),
                write("/home/ada/project/src/main.rs", "fn main() { run() }"),
            ],
            // The first file, the folder.
            asked: 2,
        },
        Story {
            name: "search then fetch",
            prompt: "read the guide of example",
            calls: vec![
                ("desk__search", json!({ "query": "guide" })),
                fetch("https://docs.example/guide?id=7"),
                fetch("https://other.example/x"),
                fetch("https://docs.example/guide/next"),
                fetch("https://docs.example/guide/last"),
            ],
            // The host of a URL that stands nowhere.
            asked: 1,
        },
        Story {
            name: "several notes",
            prompt: "plan the week",
            calls: vec![
                note("shopping", "bread"),
                note("shopping", "bread, tea"),
                note("shopping", "bread, tea, milk"),
                note("monday", "call Ada"),
                note("tuesday", "write to Grace"),
                note("shopping", "bread"),
            ],
            // The first note, any text, any name.
            asked: 3,
        },
        Story {
            name: "a shell tool",
            prompt: "run the tests",
            calls: vec![shell("cargo test"), shell("cargo test"), shell("git status"), shell("git diff")],
            // The first command, any command.
            asked: 2,
        },
        Story {
            name: "a browser tool",
            prompt: "book a table at https://table.example/",
            calls: vec![
                open("https://table.example/"),
                open("https://table.example/book"),
                click("#date"),
                click("#people"),
                click("#send"),
                open("https://table.example/done"),
            ],
            // The first page, the host; the first element, any element.
            asked: 4,
        },
    ]
}

async fn desk() -> TestHost {
    let reads = json!({ "readOnlyHint": true });
    let found = "1. https://docs.example/guide?id=7 2. https://other.example/x";
    let server = FixtureServer::new("desk")
        .annotated("search", &reads, Behaviour::Say(found))
        .annotated("fetch", &reads, Behaviour::Say("a page"))
        .annotated("read_file", &reads, Behaviour::Say("a file"))
        .tool("write_file", "Write a file")
        .tool("write_note", "Write a note")
        .tool("shell", "Run a command")
        .tool("navigate", "Open a page")
        .tool("click", "Click an element");
    let host = TestHost::with(&server, "desk").start().await;
    host.ready("desk").await;
    host
}

/// How often the user is asked if each question gets this answer.
async fn questions(story: &Story, answer: ApprovalAnswer) -> usize {
    let host = desk().await;
    host.answering(answer);
    let call = |(tool, arguments): &(&str, Value)| json!({ "calls": [{ "tool": tool, "arguments": arguments }] });
    let mut turns: Vec<_> = story.calls.iter().map(call).collect();
    turns.push(json!({ "text": "done" }));
    let model = Arc::new(ScriptedModel::parse("script", &json!({ "turns": turns }).to_string()).unwrap());
    let agent = Agent::new(host.host.clone(), model, AgentOptions { surface: Surface::Chat, ..options() });
    let (mut conversation, cancel) = (Conversation::new(None), CancellationToken::new());
    let answer = agent.answer(&mut conversation, vec![Message::user(story.prompt)], &cancel, &mut |_| {}).await;
    assert_eq!(answer.unwrap().calls.len(), story.calls.len(), "{}", story.name);
    host.asked().len()
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the table of decision 21")]
async fn a_user_is_asked_once_about_each_new_thing() {
    println!("| conversation | calls | once | this conversation | any arguments |");
    println!("|---|---|---|---|---|");
    for story in stories() {
        let any = ApprovalAnswer::Approved {
            term: ApprovalTerm::Conversation,
            scope: Some(if story.name == "search then fetch" { Scope::AnyHost } else { Scope::Any }),
            by: "test".to_owned(),
        };
        let once = questions(&story, ApprovalAnswer::approved("test")).await;
        let scoped = questions(&story, ApprovalAnswer::approved_for(ApprovalTerm::Conversation, "test")).await;
        let free = questions(&story, any).await;
        println!("| {} | {} | {once} | {scoped} | {free} |", story.name, story.calls.len());
        assert_eq!(scoped, story.asked, "{}", story.name);
        assert!(free <= scoped && scoped <= once, "{}", story.name);
        // The same call is never asked about twice.
        let distinct: HashSet<String> = story.calls.iter().map(|(tool, given)| format!("{tool} {given}")).collect();
        assert!(scoped <= distinct.len(), "{}", story.name);
    }
}
