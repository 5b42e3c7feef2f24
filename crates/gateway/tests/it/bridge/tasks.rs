//! Calls that become tasks.

use serde_json::{Value, json};
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{ExchangeTimeouts, Handover, Outcome},
    revision::Era,
    task::{Task, TaskDetail, TaskStatus},
};

use super::scenario::{Scenario, answered, text};

pub(super) async fn task(scenario: &Scenario) {
    let tasks = scenario.client.tasks(None);
    let start_task = start_task(scenario, "slow_compute", &json!({ "seconds": 0.5 })).await;
    assert_eq!(start_task.status, TaskStatus::Working);
    assert_eq!(tasks.get(&start_task.id, TaskDetail::Status).await.unwrap().status, TaskStatus::Working);
    assert_eq!(text(&follow(scenario, &start_task).await), "Computed for 0.5 seconds.");
    assert_eq!(tasks.get(&start_task.id, TaskDetail::Status).await.unwrap().status, TaskStatus::Completed);
    let failing = self::start_task(scenario, "failing_job", &json!({})).await;
    let failed = follow(scenario, &failing).await;
    assert_eq!((text(&failed).as_str(), &failed["isError"]), ("The job failed.", &json!(true)));
    let endless = self::start_task(scenario, "slow_compute", &json!({ "seconds": 600 })).await;
    assert_eq!(tasks.cancel(&endless.id).await.unwrap().status, TaskStatus::Cancelled);
    let unknown = tasks.get("unknown-task", TaskDetail::Status).await;
    assert!(unknown.is_err(), "{unknown:?}");
}

pub(super) async fn input(scenario: &Scenario) {
    let one = start_task(scenario, "confirm_delete", &json!({ "filename": "notes.txt" })).await;
    assert_eq!(text(&follow(scenario, &one).await), r#"notes.txt: action=accept, content={"confirm":true}"#);
    assert_eq!(scenario.user.take_requests().len(), 1);
    let two = start_task(scenario, "multi_input", &json!({})).await;
    assert_eq!(text(&follow(scenario, &two).await), "Ada and Ada");
    assert_eq!(scenario.user.take_requests().len(), 2);
}

/// Starts a call as a task: requested in a session, allowed otherwise.
async fn start_task(scenario: &Scenario, tool: &str, arguments: &Value) -> Task {
    let mut call = scenario.call_of(tool, arguments);
    call.handover = match scenario.column.client {
        Era::Legacy => Handover::Wanted(None),
        Era::Modern => Handover::Allowed,
    };
    match scenario.outcome(call).await {
        Outcome::HandedOff(task) => *task,
        other => panic!("{other:?}"),
    }
}

/// Follows a task to its result; the scripted user answers server requests.
async fn follow(scenario: &Scenario, task: &Task) -> Value {
    let exchange = scenario.client.tasks(None).follow(&task.id, ExchangeTimeouts::call());
    answered(within("the end of a task", exchange.outcome_with(Some(&*scenario.user), |_| {})).await)
}
