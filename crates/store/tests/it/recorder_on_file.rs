//! What a recorder finds in the file of an earlier release, and in one that another process writes to.

use serde_json::json;
use toolway_host::{
    policy::{ApprovalAnswer, ApprovalKey, SavedApproval, SavedApprovals, SavedEffect, Scope},
    record::{CallState, Requirement},
};
use toolway_store::{StoreRecorder, approvals::StoredApproval};

use crate::{
    recorder::{always, files, host},
    stage::Stage,
};

/// A file of the release before answers had a scope.
fn former(approvals: &[StoredApproval]) -> Stage {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.path().parent().unwrap()).unwrap();
    for migration in [
        include_str!("../../migrations/sqlite/0001.sql"),
        include_str!("../../migrations/sqlite/0002.sql"),
        include_str!("../../migrations/sqlite/0003.sql"),
        include_str!("../../migrations/sqlite/0004.sql"),
    ] {
        stage.tamper(migration);
    }
    for StoredApproval { approval, .. } in approvals {
        let (id, tool) = (approval.id.replace('-', ""), &approval.key.tool);
        let (digest, effect) = (&approval.key.digest, approval.effect.as_str());
        stage.tamper(&format!(
            "INSERT INTO approvals (id, created_at, caller, server, tool, arguments, digest, effect, created_by) VALUES
             (x'{id}', 1, 'terminal', 'files', '{tool}', NULL, '{digest}', '{effect}', 'terminal')"
        ));
    }
    stage.tamper("PRAGMA user_version = 4");
    stage
}

#[tokio::test]
async fn approvals_of_the_former_schema_allow_nothing_and_its_refusals_stay() {
    let (first, server) = (Stage::new(), files());
    let store = first.open();
    let asking = host(&server, &store, Requirement::Required).asking(always()).start().await;
    asking.ready("files").await;
    drop(asking.call("files__write").await);
    asking.answering(ApprovalAnswer::never("terminal"));
    drop(asking.call("files__fail").await);
    let approvals = first.reader().approvals().unwrap();
    assert_eq!(approvals.len(), 2);

    let stage = former(&approvals);
    let store = stage.open();
    let host = host(&server, &store, Requirement::Required).asking(ApprovalAnswer::Unavailable).start().await;
    host.ready("files").await;
    assert_eq!(host.call("files__write").await.state(), CallState::Refused);
    assert!(host.reasons()[0].starts_with("a saved approval no longer applies"), "{:?}", host.reasons());
    let refused = host.call("files__fail").await.message().unwrap().into_string();
    assert!(refused.starts_with("denied by policy"), "{refused}");
    assert_eq!(host.asked().len(), 1, "a refusal stays");
    host.answering(always());
    assert_eq!(host.call("files__write").await.state(), CallState::Succeeded);
    host.answering(ApprovalAnswer::Unavailable);
    assert_eq!(host.call("files__write").await.state(), CallState::Succeeded);
    assert_eq!((host.asked().len(), host.reasons().len()), (2, 2));
    drop(host.call_with("files__write", Some(json!({ "path": "b" }))).await);
    assert_eq!((host.asked().len(), host.reasons().len()), (3, 2), "the notice is not repeated");
    let kept = stage.reader().approvals().unwrap();
    assert_eq!(kept.len(), 2, "the answer replaced the one from before: {kept:?}");
}

#[tokio::test]
async fn looking_for_an_approval_does_not_wait_for_writes() {
    let stage = Stage::new();
    let store = stage.open();
    let recorder = StoreRecorder::new(store.clone(), Requirement::Required, "terminal");
    let key = ApprovalKey {
        caller: "agent".to_owned(),
        server: "files".parse().unwrap(),
        entry: "e".to_owned(),
        tool: "write".to_owned(),
        digest: String::new(),
    };
    let saved = SavedApproval::new(key.clone(), Scope::Any, SavedEffect::Allow);
    recorder.save(saved.clone()).await.unwrap();
    let lock = rusqlite::Connection::open(stage.path()).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = store.append_audit(Default::default());
    let begun = std::time::Instant::now();
    let found = recorder.of_item(&key.server, &key.tool).await.unwrap();
    assert_eq!(found.iter().map(|found| &found.id).collect::<Vec<_>>(), [&saved.id]);
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "a query that waits for writes takes as long");
    drop(lock);
    waiting.await.unwrap();
}
