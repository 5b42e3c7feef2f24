//! What is told in the middle of a call, and callers who leave.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{Happening, LogLevel, Outcome, Terms},
    revision::Era,
};

use super::scene::{Scene, answered, text};

pub(super) async fn progress(scene: &Scene) {
    let mut heard = Vec::new();
    let call = scene.call_of("test_tool_with_progress", &json!({})).with_progress();
    let outcome = scene.seen(call, |happening| {
        if let Happening::Progress(params) = happening {
            heard.push(params.read::<Value>().unwrap());
        }
    });
    assert_eq!(text(&answered(outcome.await)), "It is done.");
    let steps: Vec<(&Value, &Value)> = heard.iter().map(|step| (&step["progress"], &step["total"])).collect();
    let total = json!(100);
    assert_eq!(steps, [(&json!(0), &total), (&json!(50), &total), (&json!(100), &total)]);
    assert_eq!(heard[2]["message"], "100 of 100");
}

pub(super) async fn log(scene: &Scene) {
    let lines = logged_from(scene, LogLevel::Debug).await;
    assert_eq!(lines, ["Tool execution started", "Tool processing data", "Tool execution completed"]);
    assert!(logged_from(scene, LogLevel::Error).await.is_empty());
}

/// What a tool logs to a caller who wants to hear from this level on: of the session, or of the request.
async fn logged_from(scene: &Scene, level: LogLevel) -> Vec<String> {
    let mut call = scene.call_of("test_tool_with_logging", &json!({}));
    match scene.column.client {
        Era::Legacy => scene.client.set_log_level(level).await.unwrap(),
        Era::Modern => call.log_level = Some(level),
    }
    let mut lines = Vec::new();
    let outcome = scene.seen(call, |happening| {
        if let Happening::Log(params) = happening {
            lines.push(params.read::<Value>().unwrap()["data"].as_str().unwrap().to_owned());
        }
    });
    assert_eq!(text(&answered(outcome.await)), "Three lines were logged.");
    lines
}

pub(super) async fn cancel(scene: &Scene) {
    let label = json!({ "label": scene.label("cancel") });
    let mut exchange = scene.client.open(scene.call_of("wait", &label).with_progress(), Terms::call());
    let begun = within("the beginning of a call", exchange.next()).await;
    assert!(matches!(begun, Some(Happening::Progress(_))), "{begun:?}");
    assert_eq!(scene.said("was_left", &label).await, "not left");
    exchange.cancel("no longer wanted");
    assert!(matches!(within("its end", exchange.outcome()).await, Outcome::Cancelled));
    within("word of it at the server", async {
        while scene.said("was_left", &label).await != "left" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
