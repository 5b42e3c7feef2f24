//! An answer that cannot be recorded is not given: its record says that the outcome is unknown, or will say so.

use toolway_host::{
    call::{CallError, CallOutcome},
    record::{CallState, Requirement},
};
use toolway_store::calls::{CallBody, CallRow, Delivery};

use crate::{
    recorder::{calls, files, host},
    stage::{Stage, begun, ended},
};

/// Refuses the end of each call that succeeded.
const REFUSE: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
    $$BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END$$; \
    CREATE TRIGGER refuse BEFORE UPDATE ON calls FOR EACH ROW WHEN (NEW.state = 'succeeded') EXECUTE FUNCTION refuse()";

#[tokio::test]
async fn answer_that_cannot_be_recorded_is_withheld_where_records_are_required() {
    for requirement in [Requirement::Required, Requirement::BestEffort] {
        let stage = Stage::new();
        let server = files();
        let store = stage.open();
        let host = host(&server, &store, requirement).start().await;
        host.ready("files").await;
        stage.tamper(REFUSE);
        let outcome = host.call("files__write").await;
        assert_eq!(server.seen("tools/call").len(), 1);
        match requirement {
            Requirement::Required => {
                assert!(matches!(outcome, CallOutcome::Failed(CallError::Unrecorded)), "{outcome}");
            }
            Requirement::BestEffort => assert_eq!(outcome.state(), CallState::Succeeded),
        }
        assert_eq!(calls(&stage)[0].state, CallState::Running, "it is closed as unknown when the process ends");
        stage.tamper("DROP TRIGGER refuse ON calls");
        drop((host, store));
    }
}

/// The database is away for a moment when the answer comes.
#[tokio::test]
async fn end_is_held_until_the_database_is_back() {
    let stage = Stage::new();
    let store = stage.open();
    let call = CallRow { state: CallState::Running, ..begun("write") };
    store.write_call(call.clone(), CallBody::default()).await.unwrap();
    let database = stage.database.as_ref().unwrap();
    database.refuse_connections();
    let end = store.end_call(ended(&call, CallState::Succeeded), CallBody::default());
    // It was tried, and another write is refused meanwhile.
    store.write_call(begun("read"), CallBody::default()).await.unwrap_err();
    database.accept_connections();
    end.await.unwrap();
    assert_eq!(stage.reader().call(call.id).unwrap().unwrap().row.outcome, Some(Delivery::Answered));
}
