//! Which features work between callers and servers of either era; generates the reference page.
//!
//! One test per row, run in every column and at both endpoints of the gateway. `docs/reference/bridge.md` must match the
//! results of the run; `UPDATE_BRIDGE=1` rewrites it.

mod calls;
mod changes;
mod errors;
mod notifications;
mod page;
mod scenario;
mod server_requests;
mod tasks;
mod undeclared;

use std::panic::AssertUnwindSafe;

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use self::scenario::{BridgeGateway, Column, Endpoint, Scenario};

/// One row of the table.
struct Row {
    name: &'static str,
    /// What the test checks, in one sentence.
    proves: &'static str,
    /// Differences that a caller can still notice.
    note: &'static str,
    story: for<'a> fn(&'a Scenario) -> BoxFuture<'a, ()>,
}

/// Result of one cell; the error is the message of the failed test.
type CellResult = Result<(), String>;

macro_rules! rows {
    ($($name:literal: $proves:literal $note:literal $story:path;)*) => {
        const ROWS: &[Row] =
            &[$(Row { name: $name, proves: $proves, note: $note, story: |scenario| Box::pin($story(scenario)) }),*];
    };
}

rows! {
    "call": "A tool is called and returns text, an image, audio and a resource." "" calls::call;
    "read": "A text resource, an image and a resource from a template are read." "" calls::read;
    "prompt": "A prompt is returned with its arguments filled in; a prompt that elicits input gets it." "" calls::prompt;
    "complete": "An argument of a prompt and a variable of a template are completed." "" calls::complete;
    "progress": "Three progress notifications of a call arrive in order, before its result." "" notifications::progress;
    "log": "Log messages of a call arrive from the requested level on, and none below it." "" notifications::log;
    "cancel": "A caller cancels a call, and the server is notified." "" notifications::cancel;
    "elicit form": "A form is filled in during a call; then two, one after the other." "" server_requests::form;
    "elicit url": "A URL is opened during a call; then a URL that a call requires first."
        "Between two sessions, a URL that a call requires first is error -32042, as the server sent it. Otherwise it \
         is a server request, after which the call is repeated."
        server_requests::address;
    "sample": "The model of the caller is sampled during a call." "" server_requests::sample;
    "sample with tools": "The model of the caller is given a tool and requests its use." ""
        server_requests::sample_with_tools;
    "roots": "The roots of the caller are requested; then three server requests at once, all answered."
        "Outside a call, a 2025 server can ask only a caller with a session; such a caller's changes \
         (`notifications/roots/list_changed`) are passed on to the servers on its own connections. A 2026 caller is asked \
         during its calls only; outside of them the server gets an error, never an empty list. A caller without roots gets \
         those of the configuration; without any, the server is not told that there are roots."
        server_requests::roots;
    "subscribe": "A subscriber is notified of a changed resource; a subscription to an unknown resource is refused."
        "" changes::subscribe;
    "list change": "A listener is notified of changed tools and of changed prompts."
        "A 2025 server that is a process runs once per caller. A change in the process of a caller is reported to \
         that caller only; lists come from the process that the catalog was read from."
        changes::lists;
    "task": "A call becomes a task, is polled and followed to its result; another fails, another is cancelled."
        "A 2025 caller that wants a task of a 2026 server gets a task hosted by the gateway, whose state and \
         result survive a crash of the gateway."
        tasks::task;
    "task with input": "A task sends one server request, another two at once; both continue with the answers." ""
        tasks::input;
    "error codes": "Unknown names, failed tools and custom error codes arrive in the form of the era of the caller."
        "A 2026 server answers -32602 for an unknown resource, and a 2025 caller at `/servers/<id>/mcp` gets this \
         code. At `/mcp` the gateway knows that no server has the resource and answers -32002."
        errors::codes;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bridge_page_matches_the_results() {
    let columns = join_all(Column::ALL.map(column)).await;
    let failures: Vec<String> = columns.iter().flatten().filter_map(|cell| cell.clone().err()).collect();
    let page = page::render(ROWS, &columns);
    page::compare(&page);
    assert!(failures.is_empty(), "{} cells failed:\n{}", failures.len(), failures.join("\n"));
}

/// Runs every row in one column, each at both endpoints.
async fn column(column: Column) -> Vec<CellResult> {
    let bridge_gateway = BridgeGateway::of(column).await;
    let mut results = Vec::new();
    for row in ROWS {
        let mut cell = Ok(());
        for endpoint in Endpoint::BOTH {
            let scenario = bridge_gateway.scenario(endpoint).await;
            let result = AssertUnwindSafe((row.story)(&scenario)).catch_unwind().await;
            scenario.client.close().await;
            cell = cell.and(
                result.map_err(|panic| format!("{} · {column} · {endpoint:?}: {}", row.name, panic_message(&*panic))),
            );
        }
        results.push(cell);
    }
    results
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
