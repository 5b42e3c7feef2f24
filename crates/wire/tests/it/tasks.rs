//! Calls that become tasks, over every transport and era, directly and through a relay.

mod task_service;
mod wire_format;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Handover, Outcome, Request},
    json::Raw,
    message::RpcError,
    revision::Era,
    task::{Task, TaskContent, TaskDetail, TaskError, TaskStatus},
    up::{Peer, PeerTasks, TaskHint},
};

use self::task_service::TaskService;
use crate::{
    relay::Relay,
    routes::{self, Ada, Connected, Route},
};

/// Calls a tool as a task; returns the task id.
async fn begin(peer: &Peer, tool: &str) -> String {
    let mut request = Request::new("tools/call", Some(Raw::of(&json!({ "name": tool })))).unwrap();
    request.handover = Handover::Wanted(Some(Duration::from_secs(60)));
    let outcome = peer.open(request, ExchangeTimeouts::call()).outcome().await;
    let Outcome::HandedOff(task) = outcome else { panic!("{tool}: {outcome:?}") };
    assert_eq!(task.ttl, Some(Duration::from_secs(60)));
    task.id
}

/// Polls until the task has this status.
async fn until(tasks: &PeerTasks, id: &str, status: TaskStatus) -> Task {
    for _ in 0..200 {
        let task = tasks.get(id, TaskDetail::Full).await.unwrap();
        if task.status == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("`{id}` never was {status}")
}

/// A peer, the route to it, and the servers behind.
struct Reached {
    name: String,
    peer: Peer,
    /// Eras of the hops, ours first.
    eras: Vec<Era>,
    _all: Vec<Connected>,
}

/// A task service over each route, and over each route through a relay.
async fn reached() -> Vec<Reached> {
    let mut all = Vec::new();
    for up in routes::ALL {
        let direct = up.connect(TaskService::new()).await;
        all.push(Reached {
            name: format!("{up:?}"),
            peer: direct.peer.clone(),
            eras: vec![up.era()],
            _all: vec![direct],
        });
        for down in routes::ALL {
            let behind = up.connect(TaskService::new()).await;
            let front: Connected = Route::connect(down, Arc::new(Relay(behind.peer.clone()))).await;
            all.push(Reached {
                name: format!("{down:?} to {up:?}"),
                peer: front.peer.clone(),
                eras: vec![down.era(), up.era()],
                _all: vec![front, behind],
            });
        }
    }
    all
}

fn text(task: &Task) -> Value {
    let TaskContent::Result(result) = &task.content else { panic!("no result: {task:?}") };
    result.read::<Value>().unwrap()["content"][0]["text"].clone()
}

#[tokio::test]
async fn task_with_a_server_request_completes_over_every_route() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "ask").await);
        let asking = until(&tasks, &id, TaskStatus::InputRequired).await;
        let TaskContent::Requests(questions) = &asking.content else { panic!("{name}: {asking:?}") };
        let [question] = questions.as_slice() else { panic!("{name}: {questions:?}") };
        assert_eq!(question.method, "elicitation/create", "{name}");
        let key = question.key.clone().unwrap();

        tasks.answer(&id, Raw::of(&json!({ "nothing": {} }))).await.unwrap();
        assert_eq!(tasks.get(&id, TaskDetail::Full).await.unwrap().status, TaskStatus::InputRequired, "{name}");
        tasks
            .answer(&id, Raw::of(&json!({ key: { "action": "accept", "content": { "name": "Ada" } } })))
            .await
            .unwrap();
        let done = until(&tasks, &id, TaskStatus::Completed).await;
        assert_eq!(text(&done), "hello Ada", "{name}");
    }
}

#[tokio::test]
async fn task_is_followed_to_its_end_over_every_route() {
    for Reached { name, peer, .. } in &reached().await {
        let id = begin(peer, "ask").await;
        let outcome = peer.tasks(None).follow(&id, ExchangeTimeouts::call()).outcome_with(Some(&Ada), |_| {}).await;
        let Outcome::Answered(result) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(result.read::<Value>().unwrap()["content"][0]["text"], "hello Ada", "{name}");

        let id = begin(peer, "break").await;
        let outcome = peer.tasks(None).follow(&id, ExchangeTimeouts::call()).outcome().await;
        let Outcome::Refused(error) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!((error.code(), error.message().as_str()), (-32603, "it broke"), "{name}");
    }
}

#[tokio::test]
async fn failed_tool_completes_its_task_and_an_error_fails_it() {
    for Reached { name, peer, .. } in &reached().await {
        let tasks = peer.tasks(None);
        let failed = until(&tasks, &begin(peer, "fail").await, TaskStatus::Completed).await;
        let TaskContent::Result(result) = &failed.content else { panic!("{name}: {failed:?}") };
        assert_eq!(result.read::<Value>().unwrap()["isError"], true, "{name}");
        let broken = until(&tasks, &begin(peer, "break").await, TaskStatus::Failed).await;
        let TaskContent::Error(error) = &broken.content else { panic!("{name}: {broken:?}") };
        assert_eq!(error.message(), "it broke", "{name}");
    }
}

#[tokio::test]
async fn task_is_cancelled_once_and_unknown_ids_are_refused() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "wait").await);
        assert_eq!(tasks.get(&id, TaskDetail::Status).await.unwrap().status, TaskStatus::Working, "{name}");
        assert_eq!(tasks.cancel(&id).await.unwrap().status, TaskStatus::Cancelled, "{name}");
        assert_eq!(tasks.cancel(&id).await.unwrap().status, TaskStatus::Cancelled, "{name}: cancelled again");
        for problem in [tasks.get("t0", TaskDetail::Full).await.unwrap_err(), tasks.cancel("t0").await.unwrap_err()] {
            let TaskError::Refused(error) = problem else { panic!("{name}: {problem:?}") };
            assert_eq!(error.code(), RpcError::INVALID_PARAMS, "{name}");
        }
    }
}

#[tokio::test]
async fn tasks_are_listed_if_every_hop_supports_it() {
    for Reached { name, peer, eras, .. } in &reached().await {
        let id = begin(peer, "wait").await;
        match peer.tasks(None).list(None).await {
            Ok(page) => {
                assert!(eras.iter().all(|era| *era == Era::Legacy), "{name}");
                assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [id], "{name}");
            }
            Err(TaskError::Refused(error)) => {
                assert!(eras.contains(&Era::Modern), "{name}");
                assert_eq!(error.code(), RpcError::METHOD_NOT_FOUND, "{name}");
            }
            Err(problem) => panic!("{name}: {problem}"),
        }
    }
}

#[tokio::test]
async fn a_server_without_sessions_announces_the_change_of_a_task_that_it_was_asked_about() {
    for route in routes::ALL.into_iter().filter(|route| route.era() == Era::Modern) {
        let connected = route.connect(TaskService::polled_every(Duration::from_secs(600))).await;
        let peer = &connected.peer;
        let id = begin(peer, "wait").await;
        let tasks = peer.tasks(None);
        let mut hints = tasks.hints(&id);
        // When it has accepted, for what changed before.
        assert!(matches!(hints.next().await, TaskHint::Changed), "{route:?}");
        tasks.cancel(&id).await.unwrap();
        let announced = tokio::time::timeout(Duration::from_secs(10), hints.next()).await;
        assert!(matches!(announced, Ok(TaskHint::Changed)), "{route:?}");
    }
}

#[tokio::test]
async fn call_without_task_gets_the_result() {
    for Reached { name, peer, .. } in &reached().await {
        let outcome = peer.call_tool("fail", None).unwrap().outcome().await;
        assert!(matches!(outcome, Outcome::Answered(_)), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn dropping_a_follower_does_not_stop_the_task() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "ask").await);
        let mut following = tasks.follow(&id, ExchangeTimeouts::call());
        let Some(toolway_wire::exchange::ExchangeEvent::ServerRequest(ask)) = following.next().await else {
            panic!("{name}")
        };
        drop((ask, following));
        assert!(!tasks.get(&id, TaskDetail::Status).await.unwrap().status.is_finished(), "{name}");
    }
}
