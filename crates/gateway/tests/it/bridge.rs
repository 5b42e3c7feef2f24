//! What passes between callers and servers of either era, cell by cell, and the page that says so.
//!
//! One story per row, told in every column and at both doors of the gateway. `docs/reference/bridge.md` is what a run
//! proved and nothing else: `UPDATE_BRIDGE=1` writes it anew.

mod asking;
mod calling;
mod changing;
mod page;
mod refusing;
mod scene;
mod tasking;
mod telling;
mod undeclared;

use std::panic::AssertUnwindSafe;

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use self::scene::{Column, Door, House, Scene};

/// One row of the table.
struct Row {
    name: &'static str,
    /// What its story shows, in a sentence.
    proves: &'static str,
    /// What its caller may notice of the bridge all the same.
    note: &'static str,
    story: for<'a> fn(&'a Scene) -> BoxFuture<'a, ()>,
}

/// What came of a story: nothing went wrong, or this did.
type Proven = Result<(), String>;

macro_rules! rows {
    ($($name:literal: $proves:literal $note:literal $story:path;)*) => {
        const ROWS: &[Row] =
            &[$(Row { name: $name, proves: $proves, note: $note, story: |scene| Box::pin($story(scene)) }),*];
    };
}

rows! {
    "call": "A tool is called and what it says comes back: text, a picture, a sound, a resource." "" calling::call;
    "read": "A text, a picture and a resource from a template are read." "" calling::read;
    "prompt": "A prompt is got with its arguments put in; one that asks first gets its answer." "" calling::prompt;
    "complete": "An argument of a prompt and a variable of a template are completed." "" calling::complete;
    "progress": "Three steps of a call are heard in order, before its result." "" telling::progress;
    "log": "A call's log lines are heard from the level that was asked for on, and not below." "" telling::log;
    "cancel": "A caller leaves a call, and the server is told." "" telling::cancel;
    "elicit form": "A form is filled in, in the middle of a call; then two, one after the other." "" asking::form;
    "elicit url": "An address is opened in the middle of a call; then one that a call requires first."
        "Between two sessions an address that a call requires first is error -32042, as the server said; to everybody \
         else it is a question, after which the call is made again."
        asking::address;
    "sample": "The caller's model is asked in the middle of a call." "" asking::sample;
    "sample with tools": "The caller's model is given a tool, and wants to use it." "" asking::sample_with_tools;
    "roots": "The caller's folders are asked for; then three questions at once, all answered." "" asking::roots;
    "subscribe": "A change of a resource is told to whoever subscribed to it; an unknown one cannot be subscribed to."
        "" changing::subscribe;
    "list change": "A change of the tools and one of the prompts are told to whoever listens."
        "A 2025 server that is a process runs once per caller: a change in a caller's own process is told to that \
         caller, and lists are those of the process that the catalog is made of."
        changing::lists;
    "task": "A call becomes a task, is looked at and followed to its result; one fails, one is stopped."
        "A 2025 caller that wants a task of a 2026 server is given one of the gateway's own, which ends with it."
        tasking::task;
    "task with input": "A task asks one thing, another one two at once; both go on with the answers." ""
        tasking::input;
    "error codes": "Unknown things, failed tools and codes of the server's own are told in the caller's era."
        "A 2026 server says -32602 of a resource it does not have, and at `/servers/<id>/mcp` a 2025 caller hears \
         that; at `/mcp`, where the gateway knows that nobody has it, -32002."
        refusing::codes;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_page_says_what_this_run_proved() {
    let columns = join_all(Column::ALL.map(column)).await;
    let failures: Vec<String> = columns.iter().flatten().filter_map(|proven| proven.clone().err()).collect();
    let page = page::rendered(ROWS, &columns);
    page::compare(&page);
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

/// Every story in one column, each at both doors.
async fn column(column: Column) -> Vec<Proven> {
    let house = House::of(column).await;
    let mut proven = Vec::new();
    for row in ROWS {
        let mut cell = Ok(());
        for door in Door::BOTH {
            let scene = house.scene(door).await;
            let told = AssertUnwindSafe((row.story)(&scene)).catch_unwind().await;
            scene.client.close().await;
            cell = cell.and(told.map_err(|panic| format!("{} · {column} · {door:?}: {}", row.name, words(&*panic))));
        }
        proven.push(cell);
    }
    proven
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
