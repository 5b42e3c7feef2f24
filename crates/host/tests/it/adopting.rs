//! Tasks that are followed here or were left by another process: what becomes of them when they are found again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;
use toolway_host::{
    host::SessionUsers,
    record::RecordsError,
    task::{AnsweredBy, KeptBy, SettledCall, StoredTask, TaskLog, TaskRow},
};
use toolway_testkit::{
    odd::{
        compliant::{self, SupportedEras},
        http::{OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, within},
};
use toolway_wire::time::Micros;
use uuid::Uuid;

use crate::fixtures::address;

/// The log of a process that finds one task, which every claim gives to it.
struct FoundTask {
    row: TaskRow,
    claims: watch::Sender<usize>,
    /// Set when the task is left to other processes.
    is_released: watch::Sender<bool>,
    settled: Arc<AtomicUsize>,
}

impl FoundTask {
    fn new() -> Self {
        let row = TaskRow {
            remote_id: "sisyphus".to_owned(),
            server: "jobs".to_owned(),
            tool: "jobs__odd".to_owned(),
            caller: "terminal".to_owned(),
            ..TaskRow::begun(Uuid::now_v7(), KeptBy::Server, AnsweredBy::Host)
        };
        Self { row, claims: watch::Sender::new(0), is_released: watch::Sender::new(false), settled: Arc::default() }
    }
}

impl TaskLog for FoundTask {
    fn write(&self, _: &TaskRow) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn claim(&self, _: Uuid) -> BoxFuture<'static, Result<bool, RecordsError>> {
        self.claims.send_modify(|claims| *claims += 1);
        Box::pin(async { Ok(true) })
    }

    fn unclaimed(&self) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        let row = self.row.clone();
        Box::pin(async { Ok(vec![row]) })
    }

    fn find(&self, _: Uuid) -> BoxFuture<'static, Result<Option<StoredTask>, RecordsError>> {
        let row = self.row.clone();
        Box::pin(async { Ok(Some(StoredTask { row, result: None })) })
    }

    fn hosted_for(&self, _: &str, _: Micros, _: usize) -> BoxFuture<'static, Result<Vec<TaskRow>, RecordsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn release(&self, _: Uuid) {
        self.is_released.send_replace(true);
    }

    fn settle(&self, _: &TaskRow, _: SettledCall) -> BoxFuture<'static, Result<(), RecordsError>> {
        self.settled.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    }
}

/// A server with sessions whose task works, or that does not know it in any session.
async fn jobs(knows_it: bool) -> OddHttp {
    let odd = OddHttp::start(move |seen| match seen.method() {
        "tasks/get" if knows_it => {
            let task = json!({ "taskId": "sisyphus", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 3_600_000, "pollInterval": 20 });
            Reply::json(200, &compliant::answered(seen.id(), &task))
        }
        "tasks/get" => Reply::json(200, &compliant::error(seen.id(), -32602, "unknown task")),
        _ => compliant_http(SupportedEras::Legacy, seen),
    });
    odd.await.unwrap()
}

/// A registration that was lost for a moment frees the task, or gives it to the next one, while it is followed.
#[tokio::test]
async fn a_task_that_is_followed_is_claimed_again_and_not_given_away() {
    let odd = jobs(true).await;
    let log = Arc::new(FoundTask::new());
    let mut claims = log.claims.subscribe();
    let mut builder = TestHost::new().wanted(address("jobs", &odd.url()));
    builder.ports.tasks = Arc::clone(&log) as _;
    let host = builder.start().await;
    host.ready("jobs").await;
    assert!(host.host.adopt_task(log.row.id).await.unwrap());
    host.host.adopt_taken_tasks(vec![log.row.id, log.row.id]);
    within("the claims", claims.wait_for(|claims| *claims == 3)).await.unwrap();
    assert!(!*log.is_released.borrow() && host.host.follows_task(log.row.id));
}

#[tokio::test]
async fn a_task_that_a_server_knows_in_a_session_of_another_gateway_alone_is_left_open() {
    for users in [SessionUsers::Cluster, SessionUsers::OneProcess] {
        let odd = jobs(false).await;
        let log = Arc::new(FoundTask::new());
        let mut is_released = log.is_released.subscribe();
        let mut builder = TestHost::new().wanted(address("jobs", &odd.url()));
        builder.ports.tasks = Arc::clone(&log) as _;
        builder.options.session_users = users;
        let host = builder.start().await;
        host.ready("jobs").await;
        assert!(host.host.adopt_task(log.row.id).await.unwrap());
        let ended = async {
            while log.settled.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        match users {
            SessionUsers::Cluster => {
                within("the release", is_released.wait_for(|is_released| *is_released)).await.unwrap();
                assert_eq!(log.settled.load(Ordering::SeqCst), 0, "it is not lost");
            }
            // The session of the process before is resumed, and the task is not known in it.
            SessionUsers::OneProcess => within("the end", ended).await,
        }
    }
}
