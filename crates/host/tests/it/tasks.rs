//! Calls that their server continues as tasks.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::Environment;
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest, TaskHandling},
    connection::{Program, ServerAddress, WantedServer, Way},
    event::TaskEvent,
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

#[tokio::test]
async fn what_a_server_reports_during_a_task_is_told_to_listeners() {
    let program = PathBuf::from(std::env::current_exe().unwrap().ancestors().nth(2).unwrap()).join("odd-server");
    assert!(program.exists(), "{} is missing: run ./test, which builds it", program.display());
    let program = Program {
        command: program.to_str().unwrap().to_owned(),
        arguments: vec!["progress-task".to_owned()],
        directory: None,
        variables: Environment::default(),
    };
    let mut jobs = WantedServer::new(name("jobs"), Way::Address(ServerAddress::Process(program)));
    jobs.era = toolway_wire::up::EraChoice::Legacy;
    let host = TestHost::new().wanted(jobs).start().await;
    host.ready("jobs").await;
    let mut events = host.host.listen_tasks();
    let request = host.request("jobs__odd", None);
    let outcome = host.call_of(CallRequest { task: TaskHandling::Background, ..request }).await;
    assert!(matches!(outcome, CallOutcome::HandedOff(_)), "{outcome}");
    let mut seen: Vec<(f64, String)> = Vec::new();
    let reported = async {
        while let Some(event) = events.next().await {
            let TaskEvent::Changed(row) = event else { continue };
            let (Some(progress), Some(message)) = (row.progress, &row.message) else { continue };
            assert_eq!(progress.total, Some(10.0));
            seen.push((progress.done, message.to_string()));
            if progress.done == 5.0 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reported).await.unwrap();
    assert!(seen.iter().all(|(done, message)| *message == format!("wall {done}")), "{seen:?}");
    assert!(seen.is_sorted_by(|one, other| one.0 < other.0), "{seen:?}");
}
