//! What is particular to a database: its schema, its registrations, and connections that end.

use futures_util::future::join_all;
use toolway_config::Secret;
use toolway_host::record::RecordsError;
use toolway_store::{
    Reader, Store, StoreError, StoreOptions,
    audit::{AuditFilter, Verified},
    calls::{CallBody, CallFilter, CallState, Delivery},
};

use crate::stage::{Stage, begun, ended, record};

fn url(text: &str) -> StoreOptions {
    StoreOptions { url: Some(Secret::new(text)), ..StoreOptions::default() }
}

/// A call that was sent by a process that then did not renew its registration, and one that was not sent.
async fn left_by(stage: &Stage, store: &Store) -> [toolway_store::Uuid; 2] {
    let (sent, pending) = (begun("sent"), begun("pending"));
    let running = toolway_store::calls::CallRow { state: CallState::Running, ..sent.clone() };
    store.write_call(running, CallBody::default()).await.unwrap();
    store.write_call(pending.clone(), CallBody::default()).await.unwrap();
    stage.tamper("UPDATE runs SET expires_at = clock_timestamp() - interval '1 second'");
    [sent.id, pending.id]
}

#[tokio::test]
async fn processes_that_open_an_empty_database_at_once_make_one_schema() {
    let stage = Stage::new();
    let open = |_| {
        let options = stage.options();
        tokio::task::spawn_blocking(move || Store::open(&options).unwrap().0)
    };
    let stores: Vec<Store> = join_all((0..4).map(open)).await.into_iter().map(|opened| opened.unwrap()).collect();
    for store in &stores {
        record(store, "read", CallState::Succeeded).await;
    }
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 4, checkpoint: 0 });
}

#[tokio::test]
async fn a_later_schema_is_used_if_it_only_adds_and_refused_otherwise() {
    let stage = Stage::new();
    record(&stage.open(), "read", CallState::Succeeded).await;
    stage.tamper("ALTER TABLE calls ADD COLUMN later TEXT; UPDATE toolway_schema SET version = 99");
    record(&stage.open(), "read", CallState::Succeeded).await;
    stage.tamper("UPDATE toolway_schema SET runs_with = 98");
    let refused = Store::open(&stage.options()).unwrap_err();
    assert!(matches!(refused, StoreError::NewerDatabase { found: 99, .. }), "{refused}");
    assert!(matches!(RecordsError::from(refused), RecordsError::Newer(_)));
}

#[tokio::test]
async fn calls_of_a_process_that_did_not_renew_are_closed_once_by_another() {
    let stage = Stage::new();
    let first = stage.open();
    let [sent, pending] = left_by(&stage, &first).await;
    let others = [stage.open(), stage.open()];
    drop(others);
    let outcome = |id| stage.reader().call(id).unwrap().unwrap().row.outcome;
    assert_eq!((outcome(sent), outcome(pending)), (Some(Delivery::Unknown), Some(Delivery::NotSent)));
    let entries = stage.reader().audit(&AuditFilter { limit: 9, ..AuditFilter::default() }).unwrap();
    assert_eq!(entries.iter().filter(|entry| entry.kind == "recovery").count(), 2, "{entries:?}");
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { .. }));
}

#[tokio::test]
async fn a_process_that_was_taken_for_dead_cannot_write_until_it_has_registered_anew() {
    let stage = Stage::new();
    let store = stage.open();
    let [sent, _] = left_by(&stage, &store).await;
    let refused = store.write_call(begun("read"), CallBody::default()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Expired), "{refused}");
    // It has registered under another id, and closed what it had left open itself.
    record(&store, "read", CallState::Succeeded).await;
    store.catch_up();
    assert_eq!(stage.reader().call(sent).unwrap().unwrap().row.outcome, Some(Delivery::Unknown));
}

#[tokio::test]
async fn a_write_that_cannot_be_applied_takes_no_other_with_it() {
    let stage = Stage::new();
    let store = stage.open();
    stage.tamper("ALTER TABLE call_days RENAME TO away");
    let call = ended(&begun("read"), CallState::Succeeded);
    let writes = [store.end_call(call.clone(), CallBody::default()), store.end_call(call.clone(), CallBody::default())];
    let broken = store.append_audit(toolway_store::audit::AuditEvent::default());
    join_all(writes).await.into_iter().for_each(|written| written.unwrap());
    broken.await.unwrap();
    stage.tamper("ALTER TABLE away RENAME TO call_days");
    assert_eq!(stage.reader().calls(&CallFilter { limit: 9, ..CallFilter::default() }).unwrap(), [call]);
    assert_eq!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 2, checkpoint: 0 });
}

#[tokio::test]
async fn connections_that_the_server_ended_are_opened_again() {
    let stage = Stage::new();
    let store = stage.open();
    record(&store, "before", CallState::Succeeded).await;
    let reader = stage.reader();
    assert_eq!(reader.calls(&CallFilter { limit: 9, ..CallFilter::default() }).unwrap().len(), 1);
    stage.database.as_ref().unwrap().disconnect_all();
    // A write that was on its way may fail; the store recovers without being opened again.
    let call = ended(&begun("after"), CallState::Succeeded);
    while store.end_call(call.clone(), CallBody::default()).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row, call);
}

#[test]
fn a_database_that_cannot_be_used_is_named_without_its_password() {
    for (text, said) in [
        ("postgres://ada:hunter2@127.0.0.1:1/toolway?sslmode=disable", "`toolway` at 127.0.0.1:1"),
        ("postgres://ada:hunter2@127.0.0.1:1/toolway?sslrootcert=/none.pem", "/none.pem"),
        ("postgres://ada:hunter2@127.0.0.1:1/toolway?colour=red", "`store.url`"),
    ] {
        let error = Store::open(&url(text)).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
        assert!(Reader::connect(&Secret::new(text)).is_err());
    }
}

#[tokio::test]
async fn a_character_that_postgres_does_not_have_is_replaced_and_the_chain_is_intact() {
    let stage = Stage::new();
    let store = stage.open();
    let call = ended(&begun("re\0ad"), CallState::Succeeded);
    store.end_call(call.clone(), CallBody { arguments: Some("a\0b".to_owned()), result: None }).await.unwrap();
    let found = stage.reader().call(call.id).unwrap().unwrap();
    assert_eq!(found.body.arguments.as_deref(), Some("a\u{fffd}b"));
    assert!(matches!(stage.reader().verify_audit().unwrap(), Verified::Intact { entries: 1, .. }));
}

#[tokio::test]
async fn the_certificate_of_the_server_is_verified() {
    let stage = Stage::new();
    let database = stage.database.as_ref().unwrap();
    let of_others = Store::open(&url(database.tls_url().expose())).unwrap_err().to_string();
    assert!(of_others.contains("certificate"), "{of_others}");
    let trusted = format!("{}&sslrootcert={}", database.tls_url().expose(), database.certificate().display());
    let (store, _) = Store::open(&url(&trusted)).unwrap();
    record(&store, "read", CallState::Succeeded).await;
    let another_name = trusted.replace("localhost", "127.0.0.1");
    let error = Store::open(&url(&another_name)).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
