//! What the terminal shows of `chat`, approvals, `doctor` and `calls list` at 60, 80 and 120 columns, as files in
//! `tests/golden`. `UPDATE_GOLDEN=1` writes them anew; look at them then.

use std::path::Path;

use serde_json::json;
use toolway_host::{
    record::{CallBody, CallRow, CallState, Delivery},
    time,
};
use toolway_store::{Store, StoreOptions};
use uuid::Uuid;

use crate::{
    chat_screen::ChatScreen,
    home::{Home, TOOLWAY},
};

const WIDTHS: [u16; 3] = [60, 80, 120];

/// Compares a screen with its file. Seconds differ from run to run; their number of digits does not.
fn compare(name: &str, columns: u16, lines: &[String]) {
    let lines = lines.iter().map(|line| without_seconds(line.trim_end()));
    let shown = lines.collect::<Vec<_>>().join("\n").trim_end().to_owned() + "\n";
    let wide = shown.lines().find(|line| line.chars().count() > columns.into());
    assert_eq!(wide, None, "{name} at {columns} columns");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}-{columns}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &shown).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(shown, expected, "{name} at {columns} columns; UPDATE_GOLDEN=1 writes {}", file.display());
}

/// `0.3 s` becomes `N.N s`.
fn without_seconds(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    let is_digit = |index: usize| letters.get(index).is_some_and(char::is_ascii_digit);
    let is_part = |index: usize| {
        let starts = |start: usize| {
            let rest: String = letters.iter().skip(start + 1).step_by(1).take(4).collect();
            is_digit(start) && rest.starts_with('.') && is_digit(start + 2) && rest.ends_with(" s")
        };
        is_digit(index) && (starts(index) || index.checked_sub(2).is_some_and(starts))
    };
    (0..letters.len()).map(|index| if is_part(index) { 'N' } else { letters[index] }).collect()
}

#[test]
fn chat_with_a_list_code_calls_and_an_approval() {
    let text = "Two things:\n\n- a list with an entry that is long enough to be broken on a narrow terminal\n- a short one\n\n\
                ```rust\nfn main() { println!(\"hello\"); }\n```\n";
    let edits = json!([{ "oldText": "bread\ntea\n", "newText": "bread\nmilk\ntea\n" }]);
    let memo = json!({ "text": "bread, milk, tea", "path": "/home/ada/notes/shopping.txt", "edits": edits });
    for columns in WIDTHS {
        let home = Home::with_script(&json!([
            { "text": text, "calls": [{ "tool": "sample__add", "arguments": { "a": 2, "b": 3 } }] },
            { "calls": [{ "tool": "sample__write_memo", "arguments": memo.clone() }] },
            { "text": "Milk is on the list." },
        ]));
        let mut chat = ChatScreen::start(&home, &["chat", "--model", "scripted:script.json"], columns);
        chat.prompts(1).types("put milk on the list\r").sees("[x] never this tool");
        compare("approval", columns, &chat.lines());
        chat.types("y").sees("Milk is on the list.").sees("tokens in").prompts(2);
        compare("chat", columns, &chat.lines());
        chat.types("/exit\r");
        assert!(chat.end().0.success());
    }
}

#[test]
fn doctor_with_healthy_broken_and_disabled_servers() {
    for columns in WIDTHS {
        let home = Home::new();
        let broken = json!({ "command": "sh", "args": ["-c", "echo no database >&2; exit 3"] });
        let sample = json!({ "command": TOOLWAY, "args": ["sample"] });
        let servers = json!({ "broken": broken, "notes": sample.clone(), "shop": sample });
        home.configure(&json!({ "mcpServers": servers }).to_string());
        let mut screen = ChatScreen::start(&home, &["doctor", "--no-store"], columns);
        screen.sees("unhealthy");
        compare("doctor", columns, &without_variables(&screen.lines()));
        assert_eq!(screen.end().0.code(), Some(4));
    }
}

#[tokio::test]
async fn calls_with_local_times_short_ids_and_the_time_of_a_person() {
    let home = Home::new();
    home.configure("{}");
    let options = StoreOptions { path: Some(home.path(".local/state/toolway/toolway.db")), ..StoreOptions::default() };
    std::fs::create_dir_all(home.path(".local/state/toolway")).unwrap();
    let (store, _) = Store::open(&options).unwrap();
    let minute = 60 * 1_000_000;
    let now = time::now();
    let old = time::parse_rfc3339("2026-01-02T03:04:05Z").unwrap();
    for (number, tool, state, started_at, waited) in [
        (1, "files__read_text_file", CallState::Succeeded, old, 0),
        (2, "files__write_file", CallState::Refused, now - 200 * minute, 0),
        (3, "shop__order", CallState::Succeeded, now - 3 * minute - minute / 2, 42_000_000),
        (4, "shop__a_tool_with_a_long_name_that_does_not_fit", CallState::TimedOut, now - 2 * minute, 0),
    ] {
        let call = call(number, tool, state, started_at, waited);
        store.end_call(call, CallBody::default()).await.unwrap();
    }
    drop(store);
    for columns in WIDTHS {
        let mut screen = ChatScreen::start(&home, &["calls", "list"], columns);
        // The id of the oldest call, which is the last one.
        screen.sees("12345678");
        compare("calls-list", columns, &screen.lines());
        assert!(screen.end().0.success());
    }
}

/// The lines without the variables that a program does not get, which depend on the machine.
fn without_variables(lines: &[String]) -> Vec<String> {
    let mut is_left_out = false;
    let mut is_stable = |line: &&String| {
        is_left_out = line.contains("not passed") || is_left_out && line.starts_with("      ");
        !is_left_out
    };
    lines.iter().filter(|line| is_stable(line)).cloned().collect()
}

/// A call with a fixed id.
fn call(number: u64, tool: &str, state: CallState, started_at: time::Micros, waited: i64) -> CallRow {
    let millis = u128::try_from(started_at / 1_000).unwrap();
    // The random digits of an id are those that are shown.
    let id = (millis << 80) | (0x7 << 76) | (0x8 << 60) | u128::from(number * 0x1234_5678);
    CallRow {
        id: Uuid::from_u128(id),
        started_at,
        duration: Some(12_300),
        waited,
        prepared: Some(300),
        caller: "client:editor".to_owned(),
        surface: "gateway".to_owned(),
        kind: "tool".to_owned(),
        name: tool.to_owned(),
        server: tool.split("__").next().map(str::to_owned),
        tool: Some(tool.to_owned()),
        state,
        outcome: Some(Delivery::Answered),
        idempotent: false,
        from_cache: false,
        rule: Some("default".to_owned()),
        approved_by: None,
        error: None,
        code: None,
        conversation: None,
        argument_bytes: 24,
        result_bytes: 80,
        server_requests: 0,
        task: None,
    }
}
