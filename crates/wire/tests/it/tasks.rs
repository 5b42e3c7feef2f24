//! Calls that go on as tasks, over every way and through a relay from each era to each.

mod spelled;
mod workshop;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use toolway_wire::{
    exchange::{Handover, Outcome, Request, ExchangeTimeouts},
    json::Raw,
    message::RpcError,
    revision::Era,
    task::{Depth, Inside, Status, Task, Unanswered},
    up::{Peer, PeerTasks},
};

use self::workshop::Workshop;
use crate::{
    relay::Relay,
    ways::{self, Ada, Connected, Way},
};

/// Calls a tool and gets a task.
async fn begin(peer: &Peer, tool: &str) -> String {
    let mut request = Request::new("tools/call", Some(Raw::of(&json!({ "name": tool })))).unwrap();
    request.handover = Handover::Wanted(Some(Duration::from_secs(60)));
    let outcome = peer.open(request, ExchangeTimeouts::call()).outcome().await;
    let Outcome::HandedOff(task) = outcome else { panic!("{tool}: {outcome:?}") };
    assert_eq!(task.keeps, Some(Duration::from_secs(60)));
    task.id
}

/// Looks until the task stands like this.
async fn until(tasks: &PeerTasks, id: &str, status: Status) -> Task {
    for _ in 0..200 {
        let task = tasks.look(id, Depth::Whole).await.unwrap();
        if task.status == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("`{id}` never was {status}")
}

/// A peer, what it is reached by, and every server behind.
struct Reached {
    name: String,
    peer: Peer,
    /// The eras on the way, ours first.
    eras: Vec<Era>,
    _all: Vec<Connected>,
}

/// A workshop over each way, and over each way through a relay of each other way.
async fn reached() -> Vec<Reached> {
    let mut all = Vec::new();
    for up in ways::ALL {
        let direct = up.connect(Workshop::new()).await;
        all.push(Reached {
            name: format!("{up:?}"),
            peer: direct.peer.clone(),
            eras: vec![up.era()],
            _all: vec![direct],
        });
        for down in ways::ALL {
            let behind = up.connect(Workshop::new()).await;
            let front: Connected = Way::connect(down, Arc::new(Relay(behind.peer.clone()))).await;
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
    let Inside::Result(result) = &task.inside else { panic!("no result: {task:?}") };
    result.read::<Value>().unwrap()["content"][0]["text"].clone()
}

#[tokio::test]
async fn a_task_asks_is_answered_and_gives_its_result_over_every_way() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "ask").await);
        let asking = until(&tasks, &id, Status::InputRequired).await;
        let Inside::Asks(questions) = &asking.inside else { panic!("{name}: {asking:?}") };
        let [question] = questions.as_slice() else { panic!("{name}: {questions:?}") };
        assert_eq!(question.method, "elicitation/create", "{name}");
        let key = question.key.clone().unwrap();

        tasks.answer(&id, Raw::of(&json!({ "nothing": {} }))).await.unwrap();
        assert_eq!(tasks.look(&id, Depth::Whole).await.unwrap().status, Status::InputRequired, "{name}");
        tasks
            .answer(&id, Raw::of(&json!({ key: { "action": "accept", "content": { "name": "Ada" } } })))
            .await
            .unwrap();
        let done = until(&tasks, &id, Status::Completed).await;
        assert_eq!(text(&done), "hello Ada", "{name}");
    }
}

#[tokio::test]
async fn a_task_is_seen_through_to_its_end_over_every_way() {
    for Reached { name, peer, .. } in &reached().await {
        let id = begin(peer, "ask").await;
        let outcome = peer.tasks(None).see_through(&id, ExchangeTimeouts::call()).outcome_with(Some(&Ada), |_| {}).await;
        let Outcome::Answered(result) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(result.read::<Value>().unwrap()["content"][0]["text"], "hello Ada", "{name}");

        let id = begin(peer, "break").await;
        let outcome = peer.tasks(None).see_through(&id, ExchangeTimeouts::call()).outcome().await;
        let Outcome::Refused(error) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!((error.code(), error.message().as_str()), (-32603, "it broke"), "{name}");
    }
}

#[tokio::test]
async fn a_tool_that_failed_completes_its_task_and_an_error_fails_it_over_every_way() {
    for Reached { name, peer, .. } in &reached().await {
        let tasks = peer.tasks(None);
        let failed = until(&tasks, &begin(peer, "fail").await, Status::Completed).await;
        let Inside::Result(result) = &failed.inside else { panic!("{name}: {failed:?}") };
        assert_eq!(result.read::<Value>().unwrap()["isError"], true, "{name}");
        let broken = until(&tasks, &begin(peer, "break").await, Status::Failed).await;
        let Inside::Error(error) = &broken.inside else { panic!("{name}: {broken:?}") };
        assert_eq!(error.message(), "it broke", "{name}");
    }
}

#[tokio::test]
async fn a_task_is_stopped_once_and_a_stranger_is_unknown_over_every_way() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "wait").await);
        assert_eq!(tasks.look(&id, Depth::Status).await.unwrap().status, Status::Working, "{name}");
        assert_eq!(tasks.cancel(&id).await.unwrap().status, Status::Cancelled, "{name}");
        assert_eq!(tasks.cancel(&id).await.unwrap().status, Status::Cancelled, "{name}: over is over");
        for problem in [tasks.look("t0", Depth::Whole).await.unwrap_err(), tasks.cancel("t0").await.unwrap_err()] {
            let Unanswered::Refused(error) = problem else { panic!("{name}: {problem:?}") };
            assert_eq!(error.code(), RpcError::INVALID_PARAMS, "{name}");
        }
    }
}

#[tokio::test]
async fn tasks_are_listed_where_every_hop_can() {
    for Reached { name, peer, eras, .. } in &reached().await {
        let id = begin(peer, "wait").await;
        match peer.tasks(None).list(None).await {
            Ok(page) => {
                assert!(eras.iter().all(|era| *era == Era::Legacy), "{name}");
                assert_eq!(page.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [id], "{name}");
            }
            Err(Unanswered::Refused(error)) => {
                assert!(eras.contains(&Era::Modern), "{name}");
                assert_eq!(error.code(), RpcError::METHOD_NOT_FOUND, "{name}");
            }
            Err(problem) => panic!("{name}: {problem}"),
        }
    }
}

#[tokio::test]
async fn whoever_takes_no_task_gets_the_answer() {
    for Reached { name, peer, .. } in &reached().await {
        let outcome = peer.call_tool("fail", None).unwrap().outcome().await;
        assert!(matches!(outcome, Outcome::Answered(_)), "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn leaving_a_task_does_not_stop_it() {
    for Reached { name, peer, .. } in &reached().await {
        let (tasks, id) = (peer.tasks(None), begin(peer, "ask").await);
        let mut following = tasks.see_through(&id, ExchangeTimeouts::call());
        let Some(toolway_wire::exchange::ExchangeEvent::ServerRequest(ask)) = following.next().await else { panic!("{name}") };
        drop((ask, following));
        assert!(!tasks.look(&id, Depth::Status).await.unwrap().status.is_over(), "{name}");
    }
}
