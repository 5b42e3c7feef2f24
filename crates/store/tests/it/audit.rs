//! The audit log: what was tampered with is found.

use toolway_store::{
    Store,
    audit::{AuditEvent, AuditFilter, Verified, kind},
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
