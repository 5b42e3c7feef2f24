//! Calls that their server continues as tasks.

use std::sync::Arc;

use serde_json::json;
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest, TaskHandling},
    connection::{WantedServer, Way},
    record::CallState,
};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    test_host::{TestHost, name},
};
use toolway_wire::budget::MemoryBudget;

/// Bytes of the host's budget.
const BUDGET: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn a_task_that_cannot_be_followed_is_not_said_to_go_on() {
    let server = Arc::new(ConformanceServer::new());
    let mut builder = TestHost::new().wanted(WantedServer::new(name("jobs"), Way::InProcess(server)));
    builder.options.limits.memory = MemoryBudget::new(BUDGET);
    let host = builder.start().await;
    host.ready("jobs").await;
    let begin = async |host: &TestHost| {
        let request = host.request("jobs__long_job", Some(json!({ "seconds": 600 })));
        host.call_of(CallRequest { task: TaskHandling::Background, ..request }).await
    };
    assert!(matches!(begin(&host).await, CallOutcome::HandedOff(_)));
    let memory = host.host.memory();
    // Less than a followed task needs.
    let _held = memory.charge(BUDGET - memory.used() - 6 * 1024).unwrap();
    let outcome = begin(&host).await;
    assert!(matches!(outcome, CallOutcome::Failed(CallError::TaskLost { .. })), "{outcome}");
    let record = host.records().pop().unwrap();
    assert_eq!(record.state, CallState::Failed, "the record says what the caller is told");
    assert_eq!(record.message, outcome.message().map(|text| text.into_string()));
}
