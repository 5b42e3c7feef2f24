//! Tasks in the store: who follows them, and what is left of them when a process ends.

use std::sync::Arc;

use toolway_host::{
    record::{CallBody, Requirement},
    task::{AnsweredBy, KeptBy, SettledCall, TaskLog, TaskStatus},
};
use toolway_store::{
    Store, StoreRecorder,
    audit::AuditFilter,
    calls::{CallRow, CallState},
    tasks::{TaskFilter, TaskRow},
    time,
};

use crate::stage::{Stage, begun};

/// A call that was sent and continued as a task.
async fn started(store: &Store, kept_by: KeptBy) -> TaskRow {
    let call = CallRow { state: CallState::Running, server: Some("jobs".to_owned()), ..begun("paint") };
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let task = TaskRow {
        remote_id: "t-1".to_owned(),
        server: "jobs".to_owned(),
        tool: call.name,
        caller: call.caller,
        ..TaskRow::begun(call.id, kept_by, AnsweredBy::Host)
    };
    store.write_task(task.clone()).await.unwrap();
    task
}

fn log(store: &Store) -> Arc<StoreRecorder> {
    Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "terminal"))
}

#[tokio::test]
async fn a_task_that_outlives_its_process_is_followed_by_one_other() {
    let stage = Stage::new();
    let task = started(&stage.open(), KeptBy::Server).await;
    let reader = stage.reader();
    assert_eq!(reader.call(task.id).unwrap().unwrap().row.state, CallState::Running, "its task goes on");
    let (first, second) = (stage.open(), stage.open());
    assert_eq!(log(&first).unclaimed().await.unwrap().len(), 1);
    let claims = [log(&first).claim(task.id).await.unwrap(), log(&second).claim(task.id).await.unwrap()];
    assert_eq!(claims, [true, false]);
    assert!(log(&second).unclaimed().await.unwrap().is_empty());
    let settled = SettledCall {
        state: CallState::ToolError,
        error: None,
        body: CallBody { arguments: None, result: Some("{\"isError\":true}".to_owned()) },
        result_bytes: 16,
    };
    let ended = TaskRow { status: TaskStatus::Completed, ..task.clone() };
    log(&first).settle(&ended, settled).await.unwrap();
    let call = stage.reader().call(task.id).unwrap().unwrap();
    assert_eq!((call.row.state, call.row.task), (CallState::ToolError, Some(TaskStatus::Completed)));
    assert_eq!((call.row.result_bytes, call.body.result.as_deref()), (16, Some("{\"isError\":true}")));
    assert!(call.row.duration.is_some());
    let audit = stage.reader().audit(&AuditFilter { limit: 10, ..AuditFilter::default() }).unwrap();
    assert_eq!(audit.iter().filter(|entry| entry.call == Some(task.id)).count(), 1, "a call ends once: {audit:?}");
    // A late word of the process before changes nothing.
    second.write_task(task.clone()).await.unwrap();
    assert_eq!(stage.reader().task(task.id).unwrap().unwrap().status, TaskStatus::Completed);
}

#[tokio::test]
async fn a_task_of_a_process_that_ended_is_lost_with_its_call() {
    let stage = Stage::new();
    let task = started(&stage.open(), KeptBy::Process).await;
    drop(stage.open());
    let found = stage.reader().task(task.id).unwrap().unwrap();
    assert_eq!((found.status, found.process), (TaskStatus::Lost, None));
    assert!(found.message.unwrap().to_string().contains("ended with the process"));
    assert_eq!(stage.reader().call(task.id).unwrap().unwrap().row.state, CallState::Interrupted);
}

#[tokio::test]
async fn a_task_that_no_process_follows_for_long_is_forgotten_with_its_call() {
    let stage = Stage::new();
    let task = started(&stage.open(), KeptBy::Server).await;
    let other = started(&stage.open(), KeptBy::Server).await;
    let ago = time::now() - 40 * 24 * 60 * 60 * 1_000_000;
    drop(stage.open());
    stage.tamper(&format!("UPDATE tasks SET updated_at = {ago}"));
    let limits = toolway_store::retention::RetentionLimits {
        max_age: Some(std::time::Duration::from_secs(30 * 24 * 60 * 60)),
        ..Default::default()
    };
    stage.open().prune(&limits).await.unwrap();
    assert_eq!(stage.reader().task(task.id).unwrap().unwrap().status, TaskStatus::Lost);
    assert_eq!(stage.reader().call(task.id).unwrap().unwrap().row.state, CallState::Interrupted);
    let open = TaskFilter { is_open: Some(true), limit: 10, ..TaskFilter::default() };
    assert!(stage.reader().tasks(&open).unwrap().is_empty());
    let audit = stage.reader().audit(&AuditFilter { limit: 10, ..AuditFilter::default() }).unwrap();
    for id in [task.id, other.id] {
        let ends: Vec<_> = audit.iter().filter(|entry| entry.call == Some(id)).collect();
        assert_eq!(ends.len(), 1, "each call has its own entry: {audit:?}");
        assert!(ends[0].kind == "recovery" && ends[0].details.contains("interrupted"), "{ends:?}");
    }
}
