//! Tasks that the gateway hosted before it was restarted.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::{
    record::RecordsError,
    task::{SettledCall, StoredTask, TaskLog, TaskRow, TaskStatus},
};
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};
use toolway_wire::{seal::Sealer, time::Micros};
use uuid::Uuid;

use crate::{raw_client::request, test_gateway::TestGateway};

/// A store that cannot be read, for a reason that only the operator may know.
struct UnreadableTasks;

impl UnreadableTasks {
    fn fail<T>() -> BoxFuture<'static, Result<T, RecordsError>> {
        Box::pin(async { Err(RecordsError::unavailable("cannot open /home/ada/toolway.db")) })
    }
}

impl TaskLog for UnreadableTasks {
    fn write(&self, _: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        Self::fail()
    }

    fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        Self::fail()
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Self::fail()
    }

    fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        Self::fail()
    }

    fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Self::fail()
    }

    fn release(&self, _: Uuid) {}

    fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        Self::fail()
    }
}

#[tokio::test]
async fn a_client_is_not_told_why_the_store_cannot_be_read() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("ada", None, None).unwrap();
    let sealer = Arc::new(Sealer::with_random_key().unwrap());
    let start = async || {
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let mut builder = TestHost::with(&files, "files");
        builder.ports.tasks = Arc::new(UnreadableTasks);
        let gateway = TestGateway::sealed(builder, access, Arc::clone(&sealer)).await;
        gateway.host.ready("files").await;
        gateway
    };
    let (before, after) = (start().await, start().await);
    let session = async |gateway: &TestGateway| gateway.raw_client("/mcp", Some(key.expose())).start_session().await;
    let call = json!({ "name": "files__echo", "arguments": {}, "task": { "ttl": 60_000 } });
    let made = session(&before).await.post(&request(1, "tools/call", call)).await.answer().await;
    let id = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}"));
    let again = session(&after).await;
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        let answer = again.post(&request(2, method, json!({ "taskId": id }))).await.answer().await;
        assert!(!answer.to_string().contains("toolway.db"), "{method}: {answer}");
        let is_said = answer["error"]["message"].as_str().is_some_and(|why| why.contains("cannot be read now"));
        assert!(is_said || method == "tasks/list", "{method}: {answer}");
    }
}

/// A store whose writes take a while.
#[derive(Default)]
struct SlowTasks {
    rows: Arc<Mutex<Vec<TaskRow>>>,
}

impl TaskLog for SlowTasks {
    fn write(&self, task: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        let rows = Arc::clone(&self.rows);
        let row = task.clone();
        Box::pin(async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            rows.lock().push(row);
            Ok(())
        })
    }

    fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        Box::pin(async { Ok(false) })
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        Box::pin(async { Ok(None) })
    }

    fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn release(&self, _: Uuid) {}

    fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_hosted_task_is_stored_before_its_client_gets_its_id() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let log = SlowTasks::default();
    let rows = Arc::clone(&log.rows);
    let mut builder = TestHost::with(&files, "files");
    builder.ports.tasks = Arc::new(log);
    let gateway = TestGateway::with(builder).await;
    gateway.host.ready("files").await;
    let session = gateway.raw_client("/mcp", gateway.key.as_ref().map(|key| key.expose())).start_session().await;
    let call = json!({ "name": "files__echo", "arguments": {}, "task": { "ttl": 60_000 } });
    let made = session.post(&request(1, "tools/call", call)).await.answer().await;
    assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    let stored = rows.lock().first().cloned().unwrap_or_else(|| panic!("no row"));
    assert!(stored.hosted_for.is_some() && stored.status == TaskStatus::Working, "{stored:?}");
}
