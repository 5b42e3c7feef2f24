//! What is particular to a database: its schema, its registrations, and connections that end.

use std::io::{Read as _, Write as _};

use futures_util::future::join_all;
use toolway_config::Secret;
use toolway_host::{
    policy::{Baseline, Baselines, SeenItem},
    record::{CallRecorder as _, IdempotencyKey, KEPT, KeyClaim, KeyHolder, RecordsError, Requirement},
    task::{AnsweredBy, KeptBy, TaskStatus},
};
use toolway_store::{
    Reader, Store, StoreError, StoreOptions, StoreRecorder,
    audit::{AuditFilter, Verified},
    calls::{CallBody, CallFilter, CallState, Delivery},
    tasks::TaskRow,
};

use crate::{
    keys::claim as key_claim,
    stage::{Stage, begun, ended, record},
};

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
async fn a_process_that_expired_keeps_what_no_other_has_closed() {
    let stage = Stage::new();
    let store = stage.open();
    let [sent, _] = left_by(&stage, &store).await;
    // It registers under another id.
    record(&store, "read", CallState::Succeeded).await;
    store.recover().unwrap();
    store.catch_up();
    let open = stage.reader().call(sent).unwrap().unwrap().row;
    assert_eq!((open.state, open.outcome), (CallState::Running, None));
    store.end_call(ended(&open, CallState::Succeeded), CallBody::default()).await.unwrap();
    assert_eq!(stage.reader().call(sent).unwrap().unwrap().row.outcome, Some(Delivery::Answered));
}

/// The process that slept finds that its call was closed as not sent, so it must not send it: its repetition is another call.
#[tokio::test]
async fn a_call_that_another_process_has_closed_is_not_sent_and_takes_no_key() {
    let stage = Stage::new();
    let slept = stage.open();
    let pending = begun("write");
    slept.write_call(pending.clone(), CallBody::default()).await.unwrap();
    stage.tamper("UPDATE runs SET expires_at = clock_timestamp() - interval '1 second'");
    let other = stage.open();
    other.catch_up();
    let outcome = |id| stage.reader().call(id).unwrap().unwrap().row.outcome;
    assert_eq!(outcome(pending.id), Some(Delivery::NotSent));
    let running = toolway_store::calls::CallRow { state: CallState::Running, ..pending.clone() };
    // The first write of the process after its sleep, and that of another client in the same batch, which is not harmed.
    let both = [slept.write_call(running, CallBody::default()), slept.write_call(begun("read"), CallBody::default())];
    let [closed, written]: [_; 2] = join_all(both).await.try_into().unwrap();
    assert!(matches!(closed, Err(StoreError::NotOwned(_))), "{closed:?}");
    assert!(matches!(RecordsError::from(closed.unwrap_err()), RecordsError::NotOwned(_)));
    written.unwrap();

    let claim = |call| KeyClaim {
        key: IdempotencyKey::new("editor", "k-1").unwrap(),
        item: "files__write".to_owned(),
        digest: vec![7; 32],
        call,
        at: std::time::SystemTime::now(),
        idempotent: false,
    };
    let recorder = |store: &Store| StoreRecorder::new(store.clone(), Requirement::BestEffort, "gateway");
    let late = recorder(&slept).claim_key(claim(pending.id)).await.unwrap();
    assert!(!matches!(late, KeyHolder::Claimed), "{late:?}");
    assert!(matches!(recorder(&other).claim_key(claim(begun("write").id)).await.unwrap(), KeyHolder::Claimed));
    // A late end is an audit event.
    let late = slept.end_call(ended(&pending, CallState::Succeeded), CallBody::default()).await;
    assert!(matches!(late, Err(StoreError::NotOwned(_))), "{late:?}");
    assert_eq!(outcome(pending.id), Some(Delivery::NotSent));
    let entries = stage.reader().audit(&AuditFilter { limit: 20, ..AuditFilter::default() }).unwrap();
    let of_call: Vec<_> = entries.iter().filter(|entry| entry.call == Some(pending.id)).collect();
    assert_eq!(of_call.len(), 2, "{entries:?}");
    assert!(of_call.iter().any(|entry| entry.kind == "recovery" && entry.details.contains("answered")), "{of_call:?}");
}

#[tokio::test]
async fn a_task_that_another_process_has_taken_is_not_taken_back() {
    let stage = Stage::new();
    let slept = stage.open();
    let call = toolway_store::calls::CallRow { state: CallState::Running, ..begun("paint") };
    slept.write_call(call.clone(), CallBody::default()).await.unwrap();
    let task = TaskRow { remote_id: "t-1".to_owned(), ..TaskRow::begun(call.id, KeptBy::Server, AnsweredBy::Host) };
    slept.write_task(task.clone()).await.unwrap();
    stage.tamper("UPDATE runs SET expires_at = clock_timestamp() - interval '1 second'");
    let other = stage.open();
    other.catch_up();
    assert!(other.claim_task(task.id).await.unwrap());
    assert!(matches!(slept.write_task(task.clone()).await, Err(StoreError::NotOwned(_))));
    let ended = TaskRow { status: TaskStatus::Completed, ..task.clone() };
    other.write_task(ended).await.unwrap();
    slept.write_task(task.clone()).await.unwrap();
    assert_eq!(stage.reader().task(task.id).unwrap().unwrap().status, TaskStatus::Completed);
}

/// Several processes use one database, and the clock of one of them is two days away from those of the others.
#[tokio::test]
async fn a_clock_that_jumps_frees_no_key_of_others_and_loses_none_of_its_own() {
    let stage = Stage::new();
    let store = stage.open();
    let recorder = StoreRecorder::new(store.clone(), Requirement::Required, "call");
    let now = std::time::SystemTime::now();
    for [holder_at, next_at] in [[now, now + 2 * KEPT], [now - 2 * KEPT, now]] {
        stage.tamper("DELETE FROM idempotency_keys");
        let first = record(&store, "pay", CallState::Succeeded).await;
        let holder = recorder.claim_key(key_claim(first.id, holder_at)).await.unwrap();
        assert!(matches!(holder, KeyHolder::Claimed), "{holder:?}");
        let next = recorder.claim_key(key_claim(begun("pay").id, next_at)).await.unwrap();
        assert!(matches!(&next, KeyHolder::Held(held) if held.call == first.id), "{next:?}");
    }
}

/// An entry of an index has at most 2,704 bytes.
#[tokio::test]
async fn a_name_that_is_longer_than_an_entry_of_an_index_is_kept_like_others() {
    let stage = Stage::new();
    let store = stage.open();
    let long: String = (0..1_000).map(|number| format!("{:04x}", number * 7_919 % 65_536)).collect();
    let baseline = |name: &str, digest: &str| Baseline {
        server: "files".parse().unwrap(),
        item: SeenItem::parse(name).unwrap(),
        digest: digest.to_owned(),
        text: "{}".to_owned(),
        seen_at: std::time::SystemTime::UNIX_EPOCH,
    };
    let first = vec![baseline(&long, "one"), baseline("read", "one"), baseline("read", "two")];
    let saved = store.save_baselines(first);
    let call = store.write_call(begun("read"), CallBody::default());
    saved.await.unwrap();
    call.await.unwrap();
    store.save_baselines(vec![baseline(&long, "two")]).await.unwrap();
    let recorder = StoreRecorder::new(store.clone(), Requirement::Required, "gateway");
    let server = "files".parse().unwrap();
    for name in [&long, "read"] {
        let found = Baselines::find(&recorder, &server, &baseline(name, "").item).await.unwrap().unwrap();
        assert_eq!(found.digest, "two");
    }
    assert_eq!(recorder.digests(&server).await.unwrap().len(), 2);
}

/// The URL has no `sslmode`, and something on the way says that the server has no TLS.
#[test]
fn nothing_is_said_to_a_server_without_tls_unless_the_url_allows_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let between = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 8];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"N").unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        said
    });
    let error = Store::open(&url(&format!("postgres://ada:hunter2@127.0.0.1:{port}/toolway"))).unwrap_err();
    assert_eq!(between.join().unwrap(), b"", "{error}");
    let prefer = Store::open(&url("postgres://ada@127.0.0.1:1/toolway?sslmode=prefer")).unwrap_err().to_string();
    assert!(prefer.contains("`sslmode=prefer`"), "{prefer}");
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
