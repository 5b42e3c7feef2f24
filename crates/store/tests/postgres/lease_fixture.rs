//! Postgres as a store of the stories of leases. Each registration is made by a store of its own, as by a process.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_host::{
    cluster::{
        ClientSessionLimits, ClusterMember, GatewayId, LeaseClaim, LeaseError, LeaseKey, LeaseReply, LeaseStore,
        Member, PeerAddress, TakeOver, TakenOver,
    },
    task::{AnsweredBy, KeptBy, TaskRow},
};
use toolway_store::{
    Reader, RegisteredBy, Store, StoreError, StoreOptions, Uuid,
    calls::{CallBody, CallRow, CallState, Delivery},
};
use toolway_testkit::lease_stories::{CallWrite, LeaseFixture};

use crate::{
    client_sessions::row,
    stage::{Stage, begun, ended},
};

/// An empty database, and the stores of the members that registered in it.
pub(crate) struct PostgresLeases {
    pub(crate) stage: Stage,
    reader: Mutex<Reader>,
    /// Asks for members that were never registered.
    other: Arc<dyn LeaseStore>,
    /// Writes rows of client sessions.
    sessions: Store,
    stores: Mutex<BTreeMap<Member, Store>>,
}

impl PostgresLeases {
    pub(crate) fn new() -> Self {
        let stage = Stage::new();
        let sessions = open_member(&stage);
        let other = sessions.leases().unwrap();
        Self { reader: stage.reader().into(), stage, other, sessions, stores: Mutex::default() }
    }

    /// The store of a member.
    pub(crate) fn store(&self, member: Member) -> Option<Store> {
        self.stores.lock().get(&member).cloned()
    }

    fn of(&self, member: Member) -> Arc<dyn LeaseStore> {
        self.store(member).and_then(|store| store.leases()).unwrap_or_else(|| Arc::clone(&self.other))
    }

    fn row(&self, call: Uuid) -> Option<CallRow> {
        self.reader.lock().call(call).unwrap().map(|stored| stored.row)
    }

    /// Writes a call, and compares it before and after.
    fn write(&self, by: Member, row: CallRow, write: fn(&Store, CallRow) -> Written) -> LeaseReply<'_, CallWrite> {
        Box::pin(async move {
            let id = row.id;
            let before = self.row(id);
            match write(&self.store(by).unwrap(), row).await {
                Ok(()) => {}
                Err(StoreError::NotOwned(_)) => return Ok(CallWrite::Without),
                Err(error) => return Err(of_member(error, by)),
            }
            let is_written = self.row(id) != before;
            Ok(if is_written { CallWrite::Written } else { CallWrite::Without })
        })
    }
}

/// A write whose commit is awaited.
type Written = BoxFuture<'static, Result<(), StoreError>>;

/// A store of a process that is registered by its cluster.
pub(crate) fn open_member(stage: &Stage) -> Store {
    Store::open(&StoreOptions { registered_by: RegisteredBy::Cluster, ..stage.options() }).unwrap().0
}

fn of_member(error: StoreError, member: Member) -> LeaseError {
    match error {
        StoreError::Expired => LeaseError::Fenced(member),
        error => LeaseError::Store(error.into()),
    }
}

fn call(id: Uuid, state: CallState) -> CallRow {
    CallRow { id, state, ..begun("read") }
}

impl LeaseFixture for PostgresLeases {
    fn leases(&self) -> &dyn LeaseStore {
        self
    }

    /// Longer than a story takes on a busy machine.
    fn lease(&self) -> Duration {
        Duration::from_secs(120)
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        let micros = time.as_micros();
        self.stage.tamper(&format!("UPDATE runs SET expires_at = expires_at - {micros} * interval '1 microsecond'"));
        Box::pin(std::future::ready(()))
    }

    fn begin_session(&self, session: Uuid) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let sessions = self.sessions.client_sessions().unwrap();
            let limits = ClientSessionLimits { idle: Duration::from_secs(600), per_principal: 100 };
            sessions.begin(session, row("editor"), limits).await.unwrap();
        })
    }

    fn end_session(&self, session: Uuid) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.sessions.client_sessions().unwrap().end(session).await.unwrap() })
    }

    fn begin(&self, by: Member, id: Uuid) -> LeaseReply<'_, CallWrite> {
        self.write(by, call(id, CallState::Pending), |store, row| Box::pin(store.write_call(row, CallBody::default())))
    }

    fn begin_task(&self, by: Member, id: Uuid) -> LeaseReply<'_, CallWrite> {
        self.write(by, call(id, CallState::Running), |store, row| {
            let task =
                TaskRow { remote_id: "t-1".to_owned(), ..TaskRow::begun(row.id, KeptBy::Server, AnsweredBy::Host) };
            let call = store.write_call(row, CallBody::default());
            let task = store.write_task(task);
            Box::pin(async move {
                call.await?;
                task.await
            })
        })
    }

    fn claim_task(&self, by: Member, task: Uuid) -> LeaseReply<'_, bool> {
        let claimed = self.store(by).unwrap().claim_task(task);
        Box::pin(async move { claimed.await.map_err(|error| of_member(error, by)) })
    }

    fn mark_sent(&self, by: Member, id: Uuid) -> LeaseReply<'_, CallWrite> {
        self.write(by, call(id, CallState::Running), |store, row| Box::pin(store.write_call(row, CallBody::default())))
    }

    fn end(&self, by: Member, id: Uuid, outcome: Delivery) -> LeaseReply<'_, CallWrite> {
        let row = CallRow { outcome: Some(outcome), ..ended(&call(id, CallState::Running), CallState::Succeeded) };
        self.write(by, row, |store, row| Box::pin(store.end_call(row, CallBody::default())))
    }

    fn outcome(&self, call: Uuid) -> BoxFuture<'_, Option<Delivery>> {
        Box::pin(std::future::ready(self.row(call).and_then(|row| row.outcome)))
    }
}

impl LeaseStore for PostgresLeases {
    fn register(&self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> LeaseReply<'_, Member> {
        Box::pin(async move {
            let store = open_member(&self.stage);
            let member = store.leases().unwrap().register(gateway, address, lease).await?;
            self.stores.lock().insert(member, store);
            Ok(member)
        })
    }

    fn renew(&self, member: Member) -> LeaseReply<'_, ()> {
        Box::pin(async move { self.of(member).renew(member).await })
    }

    fn check(&self, member: Member) -> LeaseReply<'_, ()> {
        Box::pin(async move { self.of(member).check(member).await })
    }

    fn leave(&self, member: Member) -> LeaseReply<'_, TakenOver> {
        Box::pin(async move { self.of(member).leave(member).await })
    }

    fn members(&self) -> LeaseReply<'_, Vec<ClusterMember>> {
        self.other.members()
    }

    fn take_over(&self, by: Member, from: Member) -> LeaseReply<'_, TakeOver> {
        Box::pin(async move { self.of(by).take_over(by, from).await })
    }

    fn claim(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, LeaseClaim> {
        Box::pin(async move { self.of(by).claim(by, key).await })
    }

    fn take_server(&self, by: Member, key: LeaseKey, from: Member) -> LeaseReply<'_, LeaseClaim> {
        Box::pin(async move { self.of(by).take_server(by, key, from).await })
    }

    fn release(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, ()> {
        Box::pin(async move { self.of(by).release(by, key).await })
    }
}
