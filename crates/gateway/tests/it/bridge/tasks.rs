//! Calls that go on as tasks.

use serde_json::{Value, json};
use toolway_testkit::test_host::within;
use toolway_wire::{
    exchange::{Handover, Outcome, Terms},
    revision::Era,
    task::{Depth, Status, Task},
};

use super::scene::{Scene, answered, text};

pub(super) async fn task(scene: &Scene) {
    let tasks = scene.client.tasks(None);
    let begun = begun(scene, "slow_compute", &json!({ "seconds": 0.5 })).await;
    assert_eq!(begun.status, Status::Working);
    assert_eq!(tasks.look(&begun.id, Depth::Status).await.unwrap().status, Status::Working);
    assert_eq!(text(&followed(scene, &begun).await), "Computed for 0.5 seconds.");
    assert_eq!(tasks.look(&begun.id, Depth::Status).await.unwrap().status, Status::Completed);
    let failing = self::begun(scene, "failing_job", &json!({})).await;
    let failed = followed(scene, &failing).await;
    assert_eq!((text(&failed).as_str(), &failed["isError"]), ("The job failed.", &json!(true)));
    let endless = self::begun(scene, "slow_compute", &json!({ "seconds": 600 })).await;
    assert_eq!(tasks.cancel(&endless.id).await.unwrap().status, Status::Cancelled);
    let stranger = tasks.look("somebody-else", Depth::Status).await;
    assert!(stranger.is_err(), "{stranger:?}");
}

pub(super) async fn input(scene: &Scene) {
    let one = begun(scene, "confirm_delete", &json!({ "filename": "notes.txt" })).await;
    assert_eq!(text(&followed(scene, &one).await), r#"notes.txt: action=accept, content={"confirm":true}"#);
    assert_eq!(scene.person.asked().len(), 1);
    let two = begun(scene, "multi_input", &json!({})).await;
    assert_eq!(text(&followed(scene, &two).await), "Ada and Ada");
    assert_eq!(scene.person.asked().len(), 2);
}

/// The task that a call becomes: a session asks for one, everybody else says that one will do.
async fn begun(scene: &Scene, tool: &str, arguments: &Value) -> Task {
    let mut call = scene.call_of(tool, arguments);
    call.handover = match scene.column.client {
        Era::Legacy => Handover::Wanted(None),
        Era::Modern => Handover::Allowed,
    };
    match scene.outcome(call).await {
        Outcome::HandedOff(task) => *task,
        other => panic!("{other:?}"),
    }
}

/// What comes of a task; what it asks is put to the person.
async fn followed(scene: &Scene, task: &Task) -> Value {
    let exchange = scene.client.tasks(None).see_through(&task.id, Terms::call());
    answered(within("the end of a task", exchange.outcome_with(Some(&*scene.person), |_| {})).await)
}
