//! Rows of client sessions, from which another gateway rebuilds a session.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use toolway_host::cluster::{ClientSessionChanges, ClientSessionLimits, ClientSessionRow, ClientSessionStore};
use toolway_store::Uuid;

use crate::stage::Stage;

const IDLE: Duration = Duration::from_secs(600);
const LIMITS: ClientSessionLimits = ClientSessionLimits { idle: IDLE, per_principal: 2 };

pub(crate) fn row(principal: &str) -> ClientSessionRow {
    ClientSessionRow {
        principal: principal.to_owned(),
        key: "fingerprint".to_owned(),
        revision: "2025-11-25".to_owned(),
        capabilities: r#"{"elicitation":{}}"#.to_owned(),
        log_level: None,
        subscriptions: BTreeSet::from(["memo://one".to_owned()]),
    }
}

fn sessions(stage: &Stage) -> Arc<dyn ClientSessionStore> {
    stage.open().client_sessions().unwrap()
}

async fn begin(sessions: &Arc<dyn ClientSessionStore>, principal: &str) -> Uuid {
    let id = Uuid::now_v7();
    sessions.begin(id, row(principal), LIMITS).await.unwrap();
    id
}

#[tokio::test]
async fn session_is_found_by_another_gateway_with_what_was_set_at_each() {
    let stage = Stage::new();
    let first = sessions(&stage);
    let second = sessions(&stage);
    let id = begin(&first, "editor").await;
    assert_eq!(second.find(id, IDLE).await.unwrap(), Some(row("editor")));
    let two = ClientSessionChanges { subscribed: vec!["memo://two".to_owned()], ..Default::default() };
    assert!(second.change(id, two).await.unwrap());
    let unsubscribed = vec!["memo://one".to_owned(), "memo://none".to_owned()];
    let level = Some("error".to_owned());
    assert!(
        first.change(id, ClientSessionChanges { log_level: level, subscribed: vec![], unsubscribed }).await.unwrap()
    );
    assert!(first.change(id, ClientSessionChanges::default()).await.unwrap());
    let found = second.find(id, IDLE).await.unwrap().unwrap();
    assert_eq!(found.log_level.as_deref(), Some("error"));
    assert_eq!(found.subscriptions, BTreeSet::from(["memo://two".to_owned()]));
    second.end(id).await.unwrap();
    assert_eq!(first.find(id, IDLE).await.unwrap(), None);
    assert!(!first.change(id, ClientSessionChanges::default()).await.unwrap());
}

#[tokio::test]
async fn idle_session_ends_and_so_does_the_oldest_beyond_the_limit_of_its_principal() {
    let stage = Stage::new();
    let sessions = sessions(&stage);
    let idle = begin(&sessions, "editor").await;
    stage.tamper("UPDATE client_sessions SET seen_at = seen_at - interval '601 seconds'");
    assert_eq!(sessions.find(idle, IDLE).await.unwrap(), None);
    let other = begin(&sessions, "other").await;
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(begin(&sessions, "editor").await);
    }
    let goes_on = async |id| sessions.find(id, IDLE).await.unwrap().is_some();
    assert!(goes_on(other).await && !goes_on(own[0]).await && goes_on(own[1]).await && goes_on(own[2]).await);
    assert!(sessions.find(idle, IDLE * 100).await.unwrap().is_none(), "the idle one is not removed");
}

#[tokio::test]
async fn sessions_of_a_database_that_is_away_are_unavailable() {
    let stage = Stage::new();
    let sessions = sessions(&stage);
    let id = begin(&sessions, "editor").await;
    stage.database.as_ref().unwrap().refuse_connections();
    assert!(sessions.find(id, IDLE).await.is_err());
    stage.database.as_ref().unwrap().accept_connections();
    assert!(sessions.find(id, IDLE).await.unwrap().is_some());
}
