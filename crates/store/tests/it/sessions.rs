//! Sessions of servers: who may resume which.

use toolway_host::connection::{SessionOwner, SessionStore, StoredSession};
use toolway_store::Uuid;

use crate::stage::Stage;

pub(super) fn owner(caller: &str, entry: &str) -> SessionOwner {
    let server = "files".parse().unwrap();
    SessionOwner { server, caller: caller.to_owned(), profile: "none".to_owned(), entry: entry.to_owned() }
}

pub(super) fn session(id: &str) -> StoredSession {
    StoredSession { id: id.to_owned(), revision: "2025-11-25".to_owned(), hello: "{}".to_owned() }
}

#[tokio::test]
async fn session_is_claimed_once_after_its_process_has_ended() {
    let stage = Stage::new();
    let (first, second) = (stage.open(), stage.open());
    first.put(Uuid::now_v7(), owner("ada", "e"), session("s1")).await.unwrap();
    assert_eq!(second.claim(owner("ada", "e")).await.unwrap(), None, "its process uses it");
    drop(first);
    let next = stage.open();
    assert_eq!(next.claim(owner("ben", "e")).await.unwrap(), None, "of another caller");
    let another_sign_in = SessionOwner { profile: "other".to_owned(), ..owner("ada", "e") };
    assert_eq!(next.claim(another_sign_in).await.unwrap(), None, "of another sign-in");
    let claimed = next.claim(owner("ada", "e")).await.unwrap().unwrap();
    assert_eq!(claimed.session, session("s1"));
    assert!(!format!("{claimed:?}").contains("s1"));
    assert_eq!(next.claim(owner("ada", "e")).await.unwrap(), None, "handed out once");
    // Given back, it can be claimed again, until it is removed.
    next.release(claimed.slot).await.unwrap();
    assert!(second.claim(owner("ada", "e")).await.unwrap().is_some());
    second.release(claimed.slot).await.unwrap();
    second.remove(claimed.slot).await.unwrap();
    assert_eq!(next.claim(owner("ada", "e")).await.unwrap(), None);
}

#[tokio::test]
async fn changed_entry_begins_anew_and_a_revoked_client_leaves_nothing() {
    let stage = Stage::new();
    let store = stage.open();
    let slots = [Uuid::now_v7(), Uuid::now_v7()];
    store.put(slots[0], owner("ada", "old"), session("s1")).await.unwrap();
    store.put(slots[1], owner("ben", "old"), session("s2")).await.unwrap();
    for slot in slots {
        store.release(slot).await.unwrap();
    }
    assert_eq!(store.claim(owner("ada", "new")).await.unwrap(), None);
    assert_eq!(store.claim(owner("ada", "old")).await.unwrap(), None, "it was removed with the change");
    store.remove_sessions_of("ben".to_owned()).await.unwrap();
    assert_eq!(store.claim(owner("ben", "old")).await.unwrap(), None);
}
