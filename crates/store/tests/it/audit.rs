//! The audit log: what was tampered with is found.

use toolway_store::{
    Store,
    audit::{AuditEvent, AuditFilter, AuditGroup, Verified, kind},
    calls::CallState,
    time,
};

use crate::stage::{Stage, record};

async fn append(store: &Store, kind: &'static str, subject: &str) {
    let subject = Some(subject.to_owned());
    let event = AuditEvent { at: time::now(), kind, subject, details: "{}".to_owned(), ..AuditEvent::default() };
    store.append_audit(event).await.unwrap();
}

#[tokio::test]
async fn calls_and_events_form_one_chain_over_two_writers() {
    let stage = Stage::new();
    let (first, second) = (stage.open(), stage.open());
    for number in 0..20 {
        record(&first, &format!("a{number}"), CallState::Succeeded).await;
        append(&second, kind::KEY, "editor").await;
    }
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 40, checkpoint: 0 });
    let keys = AuditFilter { kind: Some(kind::KEY.to_owned()), limit: 5, ..AuditFilter::default() };
    let found = stage.reader().audit(&keys).unwrap();
    assert_eq!(found.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [40, 38, 36, 34, 32]);
}

#[tokio::test]
async fn a_changed_removed_or_added_entry_is_found() {
    for (sql, broken) in [
        ("UPDATE audit SET caller = 'client:other' WHERE seq = 3", 3),
        ("UPDATE audit SET details = '{}' WHERE seq = 2", 2),
        ("UPDATE audit SET at = at + 1 WHERE seq = 5", 5),
        ("DELETE FROM audit WHERE seq = 4", 4),
        ("DELETE FROM audit WHERE seq = 5", 5),
        (
            "INSERT INTO audit SELECT 6, at, kind, caller, server, subject, call, details, hash FROM audit WHERE seq = 5",
            6,
        ),
    ] {
        let stage = Stage::new();
        let store = stage.open();
        for _ in 0..5 {
            record(&store, "read", CallState::Succeeded).await;
        }
        assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 5, checkpoint: 0 });
        stage.tamper(sql);
        assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Broken { seq: broken }, "{sql}");
    }
}

#[tokio::test]
async fn entries_are_found_by_call_and_followed_from_a_position() {
    let stage = Stage::new();
    let store = stage.open();
    let call = record(&store, "read", CallState::Refused).await;
    append(&store, kind::SIGN_IN, "mail").await;
    let reader = stage.reader();
    let of_call = reader.audit(&AuditFilter { call: Some(call.id), limit: 9, ..AuditFilter::default() }).unwrap();
    assert_eq!(of_call.len(), 1);
    assert!(of_call[0].details.contains(r#""state":"refused""#), "{}", of_call[0].details);
    let later = reader.audit(&AuditFilter { after: Some(1), limit: 9, ..AuditFilter::default() }).unwrap();
    assert_eq!(later.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), ["sign-in"]);
}

#[tokio::test]
async fn a_group_has_exactly_the_entries_that_belong_to_it() {
    let stage = Stage::new();
    let store = stage.open();
    record(&store, "read", CallState::Succeeded).await;
    let relayed = r#"{"method":"sampling/createMessage"}"#;
    let form = r#"{"method":"elicitation/create"}"#;
    for (kind, details) in [
        (kind::CONNECTION, "{}"),
        (kind::CALL, r#"{"kind":"prompt"}"#),
        (kind::RECOVERY, r#"{"kind":"resource"}"#),
        (kind::CALL, r#"{"kind":"method"}"#),
        (kind::SAMPLING, "{}"),
        (kind::SERVER_REQUEST, relayed),
        (kind::SERVER_REQUEST, form),
        (kind::SIGN_IN, "{}"),
        (kind::KEY, "{}"),
        (kind::CONFIGURATION, "{}"),
    ] {
        let event = AuditEvent { at: time::now(), kind, details: details.to_owned(), ..AuditEvent::default() };
        store.append_audit(event).await.unwrap();
    }
    let reader = stage.reader();
    let all = reader.audit(&AuditFilter { limit: 99, ..AuditFilter::default() }).unwrap();
    for (group, count) in AuditGroup::ALL.into_iter().zip([1, 1, 1, 1, 2, 2]) {
        let found = reader.audit(&AuditFilter { group: Some(group), limit: 99, ..AuditFilter::default() }).unwrap();
        assert_eq!(found.len(), count, "{group:?}");
        let said: Vec<_> = all.iter().filter(|entry| AuditGroup::of(entry) == Some(group)).cloned().collect();
        assert_eq!(found, said, "{group:?}");
    }
}

#[tokio::test]
async fn entries_are_found_between_two_times() {
    let stage = Stage::new();
    let store = stage.open();
    for at in [10, 20, 30, 40] {
        let event = AuditEvent { at, kind: kind::KEY, details: "{}".to_owned(), ..AuditEvent::default() };
        store.append_audit(event).await.unwrap();
    }
    let between = AuditFilter { since: Some(20), until: Some(30), limit: 9, ..AuditFilter::default() };
    let found = stage.reader().audit(&between).unwrap();
    assert_eq!(found.iter().map(|entry| entry.at).collect::<Vec<_>>(), [30, 20]);
}
