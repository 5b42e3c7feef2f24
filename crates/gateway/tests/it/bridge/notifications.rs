//! Progress, log messages and cancellation during a call.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{ExchangeEvent, ExchangeTimeouts, LogLevel, Outcome},
    revision::Era,
};

use super::scenario::{Scenario, answered, text};

pub(super) async fn progress(scenario: &Scenario) {
    let mut heard = Vec::new();
    let call = scenario.call_of("test_tool_with_progress", &json!({})).with_progress();
    let outcome = scenario.seen(call, |happening| {
        if let ExchangeEvent::Progress(params) = happening {
            heard.push(params.read::<Value>().unwrap());
        }
    });
    assert_eq!(text(&answered(outcome.await)), "It is done.");
    let steps: Vec<(&Value, &Value)> = heard.iter().map(|step| (&step["progress"], &step["total"])).collect();
    let total = json!(100);
    assert_eq!(steps, [(&json!(0), &total), (&json!(50), &total), (&json!(100), &total)]);
    assert_eq!(heard[2]["message"], "100 of 100");
}

pub(super) async fn log(scenario: &Scenario) {
    let lines = logged_from(scenario, LogLevel::Debug).await;
    assert_eq!(lines, ["Tool execution started", "Tool processing data", "Tool execution completed"]);
    assert!(logged_from(scenario, LogLevel::Error).await.is_empty());
}

/// Log messages of a tool at this level, set for the session or for the request.
async fn logged_from(scenario: &Scenario, level: LogLevel) -> Vec<String> {
    let mut call = scenario.call_of("test_tool_with_logging", &json!({}));
    match scenario.column.client {
        Era::Legacy => scenario.client.set_log_level(level).await.unwrap(),
        Era::Modern => call.log_level = Some(level),
    }
    let mut lines = Vec::new();
    let outcome = scenario.seen(call, |happening| {
        if let ExchangeEvent::Log(params) = happening {
            lines.push(params.read::<Value>().unwrap()["data"].as_str().unwrap().to_owned());
        }
    });
    assert_eq!(text(&answered(outcome.await)), "Three lines were logged.");
    lines
}

pub(super) async fn cancel(scenario: &Scenario) {
    let label = json!({ "label": scenario.label("cancel") });
    let mut exchange = scenario.client.open(scenario.call_of("wait", &label).with_progress(), ExchangeTimeouts::call());
    let begun = within("the beginning of a call", exchange.next()).await;
    assert!(matches!(begun, Some(ExchangeEvent::Progress(_))), "{begun:?}");
    assert_eq!(scenario.said("was_left", &label).await, "not left");
    exchange.cancel("no longer wanted");
    assert!(matches!(within("its end", exchange.outcome()).await, Outcome::Cancelled));
    within("the cancellation at the server", async {
        while scenario.said("was_left", &label).await != "left" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
