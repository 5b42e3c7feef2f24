//! Notifications that no listener reads: they are kept within the byte budget, and what is not kept is missed.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::{
    budget::MemoryBudget,
    limit::Limits,
    notice::{List, Notice},
    up::Peer,
};

use crate::cancellation::{Wire, scripted_within};

const BUDGET: usize = 1024 * 1024;
const LARGE: usize = 20_000;

/// A connection within a budget, and what a listener that does not read has after these messages of the server.
async fn unread(messages: impl IntoIterator<Item = Value>) -> (Vec<Notice>, MemoryBudget) {
    let memory = MemoryBudget::new(BUDGET);
    let (peer, mut server) = scripted_within(Limits { memory: memory.clone(), ..Limits::default() }).await;
    let before = memory.used();
    let mut notices = peer.notices();
    // A task that is looked at does not read either.
    let hints = peer.tasks(None).hints("t");
    for message in messages {
        server.send(message).await;
    }
    in_order(&peer, &mut server).await;
    assert!(memory.used() <= BUDGET);
    drop(hints);
    let mut read = Vec::new();
    while let Ok(notice) = notices.try_recv() {
        read.push(notice);
    }
    if read.iter().any(|notice| bytes(notice) > LARGE) {
        assert!(memory.used() > before + LARGE, "what is kept is charged");
    }
    (read, memory)
}

/// Waits until the connection has read everything that was sent.
async fn in_order(peer: &Peer, server: &mut Wire) {
    let answered = async {
        let ping = server.next().await;
        server.send(json!({ "id": ping["id"], "result": {} })).await;
    };
    let (ping, ()) = tokio::join!(peer.ping(), answered);
    ping.unwrap();
}

/// Bytes of what a notice keeps.
fn bytes(notice: &Notice) -> usize {
    match notice {
        Notice::Log(params) => params.as_bytes().len(),
        Notice::Updated { uri, params } => uri.len() + params.as_bytes().len(),
        Notice::UrlCompleted { id, params } => id.len() + params.as_bytes().len(),
        Notice::Other { method, params } => method.len() + params.as_ref().map_or(0, |params| params.as_bytes().len()),
        Notice::Fault(error) => error.to_string().len(),
        Notice::Changed(_) | Notice::Missed(_) => 0,
    }
}

fn is_missed(notice: &Notice) -> bool {
    matches!(notice, Notice::Missed(_))
}

#[tokio::test]
async fn notifications_that_are_not_read_are_kept_within_the_budget_and_others_are_missed() {
    let text = "x".repeat(LARGE);
    let kinds = [
        json!({ "method": "notifications/x", "params": { "a": text } }),
        json!({ "method": "notifications/message", "params": { "level": "info", "data": text } }),
        json!({ "method": "notifications/resources/updated", "params": { "uri": text } }),
        json!({ "method": "notifications/elicitation/complete", "params": { "elicitationId": text } }),
    ];
    for kind in kinds {
        let (notices, memory) = unread(vec![kind.clone(); 200]).await;
        let kept: usize = notices.iter().map(bytes).sum();
        assert!(LARGE < kept && kept <= BUDGET, "{kept} bytes of {}", kind["method"]);
        assert!(notices.iter().any(is_missed), "{}", kind["method"]);
        let used = memory.used();
        drop(notices);
        assert!(memory.used() + LARGE < used, "the charge ends with the last reader");
    }
}

#[tokio::test]
async fn long_methods_ids_and_errors_of_a_server_do_not_stay() {
    let text = "x".repeat(LARGE);
    let kinds = [
        json!({ "method": text }),
        json!({ "id": text, "result": {} }),
        json!({ "error": { "code": -32000, "message": text } }),
    ];
    for kind in kinds {
        let (notices, _) = unread(vec![kind; 200]).await;
        let kept: usize = notices.iter().map(bytes).sum();
        assert!(200 <= notices.len() && kept < 200 * 1_200, "{kept} bytes of {} notices", notices.len());
    }
}

#[tokio::test]
async fn a_change_of_a_list_is_never_missed_and_small_notifications_arrive() {
    let changed = json!({ "method": "notifications/tools/list_changed", "params": { "a": "x".repeat(LARGE) } });
    let (notices, _) = unread(vec![changed; 200]).await;
    assert_eq!(notices.iter().filter(|notice| matches!(notice, Notice::Changed(List::Tools))).count(), 200);
    let (notices, _) = unread(vec![json!({ "method": "notifications/x", "params": { "a": 1 } }); 200]).await;
    assert!(!notices.iter().any(is_missed) && notices.len() == 200);
}

/// A task is read again if what was said about it may have been missed.
#[tokio::test]
async fn a_missed_notification_is_a_hint() {
    let memory = MemoryBudget::new(BUDGET);
    let (peer, mut server) = scripted_within(Limits { memory, ..Limits::default() }).await;
    let mut hints = peer.tasks(None).hints("t");
    let about = json!({ "taskId": "t", "status": "completed", "statusMessage": "x".repeat(BUDGET / 2 + 1) });
    server.send(json!({ "method": "notifications/tasks/status", "params": about })).await;
    let hint = tokio::time::timeout(Duration::from_secs(10), hints.next());
    hint.await.expect("a hint");
}
