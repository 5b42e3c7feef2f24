//! Members of a cluster, and what only one of them may hold: the port of leases.
//!
//! A member is a row of `runs`; what it writes is fenced by that row, here as in every batch. Rows are locked in the order of
//! decision 0028: the member that asks, the one that is taken over, leases, calls.

use std::{fmt, sync::Arc, time::Duration};

use deadpool_postgres::Object;
use futures_util::future::{BoxFuture, FutureExt};
use tokio_postgres::Row;
use toolway_host::cluster::{
    ClusterMember, GatewayId, LeaseClaim, LeaseError, LeaseHolder, LeaseKey, LeaseReply, LeaseStore, Member,
    MemberGeneration, MemberState, PeerAddress, TakeOver, TakenOver,
};
use uuid::Uuid;

use super::{
    batch::{Filling, undo_if_failed},
    database::Database,
    pipeline::{self, Value},
    registration::Registration,
    runs::{self, Ending},
};
use crate::{StoreError, queue::Queue, time};

/// The port of leases.
#[derive(Clone)]
pub(crate) struct PostgresMembers {
    database: Arc<Database>,
    registration: Arc<Registration>,
    queue: Arc<Queue>,
}

/// A member that registers.
struct Newcomer {
    run: Uuid,
    gateway: GatewayId,
    address: PeerAddress,
    lease: i64,
}

/// A lease that a member asks for.
struct Wanted {
    by: Member,
    key: LeaseKey,
}

/// A lease that a member takes from another.
struct Replacing {
    by: Member,
    key: LeaseKey,
    from: Member,
}

/// A member that another one takes over.
#[derive(Clone, Copy)]
struct Taking {
    by: Member,
    from: Member,
}

/// How often a lease is looked for that its holder frees at the same time.
const ATTEMPTS: usize = 3;

const OF_MEMBER: &str = "gateway = $1 AND generation = $2";

impl PostgresMembers {
    pub(super) fn new(database: Arc<Database>, registration: Arc<Registration>, queue: Arc<Queue>) -> Self {
        Self { database, registration, queue }
    }

    fn reply<A: Send + 'static, T: Send + 'static>(
        &self,
        member: Member,
        asked: A,
        act: for<'c> fn(&'c Object, A) -> BoxFuture<'c, Result<T, StoreError>>,
    ) -> LeaseReply<'static, T> {
        let reply = self.database.transact(asked, act);
        Box::pin(async move { reply.await.map_err(|error| of_member(error, member)) })
    }
}

impl LeaseStore for PostgresMembers {
    fn register(&self, gateway: GatewayId, address: PeerAddress, lease: Duration) -> LeaseReply<'_, Member> {
        let run = Uuid::now_v7();
        let newcomer = Newcomer { run, gateway, address, lease: time::duration(lease) };
        let registered = self.database.transact(newcomer, |client, newcomer| register(client, newcomer).boxed());
        Box::pin(async move {
            let generation = registered.await.map_err(|error| LeaseError::Store(error.into()))?;
            self.registration.set_member(run, generation);
            Ok(Member { gateway, generation: number(generation) })
        })
    }

    fn renew(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(member, member, |client, member| renew(client, member).boxed())
    }

    fn check(&self, member: Member) -> LeaseReply<'_, ()> {
        self.reply(member, member, |client, member| check(client, member).boxed())
    }

    fn leave(&self, member: Member) -> LeaseReply<'_, TakenOver> {
        let queue = Arc::clone(&self.queue);
        Box::pin(async move {
            // What was written before belongs to this member.
            let _panicked = tokio::task::spawn_blocking(move || queue.catch_up()).await;
            let left = self.reply(member, member, |client, member| leave(client, member).boxed()).await?;
            self.registration.lose(left.run);
            Ok(left.taken)
        })
    }

    fn members(&self) -> LeaseReply<'_, Vec<ClusterMember>> {
        let listed = self.database.transact((), |client, ()| members(client).boxed());
        Box::pin(async move { listed.await.map_err(|error| LeaseError::Store(error.into())) })
    }

    fn take_over(&self, by: Member, from: Member) -> LeaseReply<'_, TakeOver> {
        self.reply(by, Taking { by, from }, |client, taking| take_over(client, taking).boxed())
    }

    fn claim(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, LeaseClaim> {
        self.reply(by, Wanted { by, key }, |client, wanted| claim(client, wanted).boxed())
    }

    fn take_server(&self, by: Member, key: LeaseKey, from: Member) -> LeaseReply<'_, LeaseClaim> {
        self.reply(by, Replacing { by, key, from }, |client, replacing| replace(client, replacing).boxed())
    }

    fn release(&self, by: Member, key: LeaseKey) -> LeaseReply<'_, ()> {
        self.reply(by, Wanted { by, key }, |client, wanted| release(client, wanted).boxed())
    }
}

impl fmt::Debug for PostgresMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresMembers").field("place", self.database.place()).finish_non_exhaustive()
    }
}

// === members ===

async fn register(client: &Object, newcomer: Newcomer) -> Result<i64, StoreError> {
    let forgotten = "DELETE FROM runs WHERE ended_at < clock_timestamp() - interval '1 hour' \
                     AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.generation = runs.generation)";
    pipeline::execute(client, forgotten, Vec::new()).await?;
    let sql = "INSERT INTO runs (id, pid, started_at, gateway, address, lease, generation, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6::bigint, nextval('member_generations'), \
               clock_timestamp() + $6::bigint * interval '1 microsecond') RETURNING generation";
    let values: [Value<'_>; 6] = [
        Box::new(newcomer.run),
        Box::new(i64::from(std::process::id())),
        Box::new(time::now()),
        Box::new(newcomer.gateway.0),
        Box::new(newcomer.address.to_string()),
        Box::new(newcomer.lease),
    ];
    let rows = pipeline::rows(client, sql, &values).await?;
    Ok(rows.first().ok_or(StoreError::Closed)?.try_get(0)?)
}

async fn renew(client: &Object, member: Member) -> Result<(), StoreError> {
    // The clock is read when the row is locked.
    let sql = format!(
        "WITH locked AS MATERIALIZED (SELECT id, expires_at, ended_at FROM runs WHERE {OF_MEMBER} FOR NO KEY UPDATE) \
         UPDATE runs SET expires_at = clock_timestamp() + runs.lease * interval '1 microsecond' FROM locked \
         WHERE runs.id = locked.id AND locked.ended_at IS NULL AND clock_timestamp() < locked.expires_at"
    );
    let renewed = pipeline::execute(client, &sql, of(member).into()).await?;
    if renewed == 0 { Err(StoreError::Expired) } else { Ok(()) }
}

async fn check(client: &Object, member: Member) -> Result<(), StoreError> {
    let sql = format!("SELECT 1 FROM runs WHERE {OF_MEMBER} AND ended_at IS NULL AND clock_timestamp() < expires_at");
    let rows = pipeline::rows(client, &sql, &of(member)).await?;
    if rows.is_empty() { Err(StoreError::Expired) } else { Ok(()) }
}

async fn members(client: &Object) -> Result<Vec<ClusterMember>, StoreError> {
    let sql = "SELECT gateway, generation, address, lease, \
               (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint \
               FROM runs WHERE gateway IS NOT NULL AND ended_at IS NULL ORDER BY generation";
    pipeline::rows(client, sql, &[]).await?.iter().map(cluster_member).collect()
}

fn cluster_member(row: &Row) -> Result<ClusterMember, StoreError> {
    let left: i64 = row.try_get(4)?;
    Ok(ClusterMember {
        member: Member { gateway: GatewayId(row.try_get(0)?), generation: number(row.try_get(1)?) },
        address: address(row.try_get(2)?)?,
        lease: micros(row.try_get(3)?),
        state: if 0 < left { MemberState::Live { expires_in: micros(left) } } else { MemberState::Expired },
    })
}

/// What leaving has changed.
struct Left {
    run: Uuid,
    taken: TakenOver,
}

async fn leave(client: &Object, member: Member) -> Result<Left, StoreError> {
    let mut filling = filling(client, member).await?;
    let left = async {
        let run = begin(&mut filling).await?;
        let taken = runs::settle(&mut filling, run, Ending::Own, None).await?.ok_or(StoreError::Expired)?;
        let sql = "DELETE FROM leases USING runs WHERE leases.generation = runs.generation AND runs.id = $1";
        pipeline::execute(client, sql, vec![Box::new(run)]).await?;
        filling.commit(None).await.map(|()| Left { run, taken })
    };
    let left = left.await;
    undo_if_failed(client, left).await
}

// === takeover ===

/// A member as it is found before and after its row is locked.
enum Found {
    Live(Uuid),
    Expired(Uuid),
    Ended,
}

async fn take_over(client: &Object, taking: Taking) -> Result<TakeOver, StoreError> {
    let mut filling = filling(client, taking.by).await?;
    let taken = async {
        let heir = begin(&mut filling).await?;
        let taken = settle(&mut filling, taking, heir).await?;
        filling.commit(None).await.map(|()| taken)
    };
    let taken = taken.await;
    undo_if_failed(client, taken).await
}

async fn settle(filling: &mut Filling<'_>, taking: Taking, heir: Uuid) -> Result<TakeOver, StoreError> {
    let is_own = taking.from.gateway == taking.by.gateway && taking.from != taking.by;
    // What this process follows stays its own. The tasks of another one are free until a host claims them: it finds them by their
    // rows, whatever becomes of the answer.
    let heir = is_own.then_some(heir);
    // Looked at before it is locked: two members that try to take over each other do not wait for each other.
    let settled = match find(filling.client, taking.from).await? {
        Found::Live(run) if is_own => runs::settle(filling, run, Ending::Own, heir).await?,
        Found::Expired(run) => runs::settle(filling, run, Ending::Expired, heir).await?,
        Found::Live(_) => return Ok(TakeOver::StillLive),
        Found::Ended => return Ok(TakeOver::Before),
    };
    match settled {
        Some(taken) => Ok(TakeOver::Done(taken)),
        // It was renewed, or another member was first.
        None => Ok(match find(filling.client, taking.from).await? {
            Found::Ended => TakeOver::Before,
            Found::Live(_) | Found::Expired(_) => TakeOver::StillLive,
        }),
    }
}

async fn find(client: &Object, member: Member) -> Result<Found, StoreError> {
    let sql = format!("SELECT id, expires_at <= clock_timestamp() FROM runs WHERE {OF_MEMBER} AND ended_at IS NULL");
    let rows = pipeline::rows(client, &sql, &of(member)).await?;
    let Some(row) = rows.first() else { return Ok(Found::Ended) };
    let run = row.try_get(0)?;
    Ok(if row.try_get(1)? { Found::Expired(run) } else { Found::Live(run) })
}

// === leases ===

async fn claim(client: &Object, wanted: Wanted) -> Result<LeaseClaim, StoreError> {
    let mut filling = filling(client, wanted.by).await?;
    let claimed = async {
        let run = begin(&mut filling).await?;
        let key = key_text(&wanted.key);
        if has_ended(client, &wanted.key).await? {
            let held = holder(client, wanted.by, &key).await?;
            filling.commit(None).await?;
            return Ok(held.unwrap_or(LeaseClaim::Granted));
        }
        let sql = "INSERT INTO leases (key, generation, lease) SELECT $1, generation, lease FROM runs WHERE id = $2 \
                   ON CONFLICT (key) DO NOTHING";
        let mut claim = None;
        for _ in 0..ATTEMPTS {
            pipeline::execute(client, sql, vec![Box::new(key.clone()), Box::new(run)]).await?;
            claim = holder(client, wanted.by, &key).await?;
            if claim.is_some() {
                break;
            }
        }
        filling.commit(None).await?;
        claim.ok_or(StoreError::Invalid("a lease is claimed and freed at the same time"))
    };
    let claimed = claimed.await;
    undo_if_failed(client, claimed).await
}

async fn replace(client: &Object, replacing: Replacing) -> Result<LeaseClaim, StoreError> {
    let Replacing { by, key, from } = replacing;
    let mut filling = filling(client, by).await?;
    let replaced = async {
        let run = begin(&mut filling).await?;
        if has_ended(client, &key).await? {
            let held = holder(client, by, &key_text(&key)).await?;
            filling.commit(None).await?;
            return Ok(held.unwrap_or(LeaseClaim::Granted));
        }
        // A member that has ended stays so.
        let may_replace = match &key {
            LeaseKey::Session { .. } => true,
            LeaseKey::Cluster(_) => matches!(find(client, from).await?, Found::Ended),
        };
        let key = key_text(&key);
        let sql = "INSERT INTO leases AS held (key, generation, lease) \
                   SELECT $1, generation, lease FROM runs WHERE id = $2 ON CONFLICT (key) DO UPDATE SET \
                   generation = excluded.generation, lease = excluded.lease WHERE $4 AND held.generation = $3";
        let from = signed(from.generation);
        let values: Vec<Value<'_>> = vec![Box::new(key.clone()), Box::new(run), Box::new(from), Box::new(may_replace)];
        pipeline::execute(client, sql, values).await?;
        let claim = holder(client, by, &key).await?;
        filling.commit(None).await?;
        claim.ok_or(StoreError::Invalid("a lease is claimed and freed at the same time"))
    };
    let replaced = replaced.await;
    undo_if_failed(client, replaced).await
}

async fn release(client: &Object, wanted: Wanted) -> Result<(), StoreError> {
    let mut filling = filling(client, wanted.by).await?;
    let released = async {
        begin(&mut filling).await?;
        // A session that lives keeps its home, whatever a request about it was answered.
        if !matches!(wanted.key, LeaseKey::Session { .. }) || has_ended(client, &wanted.key).await? {
            let sql = "DELETE FROM leases WHERE key = $1 AND generation = $2";
            let values: Vec<Value<'_>> = vec![Box::new(key_text(&wanted.key)), Box::new(signed(wanted.by.generation))];
            pipeline::execute(client, sql, values).await?;
        }
        filling.commit(None).await
    };
    let released = released.await;
    undo_if_failed(client, released).await
}

/// Whether a key is of a session that has no row: it has ended, or is about to. No lease is kept for it: the member that asks
/// answers that it is unknown.
async fn has_ended(client: &Object, key: &LeaseKey) -> Result<bool, StoreError> {
    let LeaseKey::Session { session } = key else { return Ok(false) };
    let sql = "SELECT 1 FROM client_sessions WHERE id = $1";
    Ok(pipeline::rows(client, sql, &[Box::new(*session)]).await?.is_empty())
}

/// Who holds a lease; `None` if no member does.
async fn holder(client: &Object, by: Member, key: &str) -> Result<Option<LeaseClaim>, StoreError> {
    let sql = "SELECT leases.generation, runs.gateway, runs.address, leases.lease, runs.ended_at IS NOT NULL \
               FROM leases LEFT JOIN runs ON runs.generation = leases.generation WHERE leases.key = $1";
    let rows = pipeline::rows(client, sql, &[Box::new(key)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let generation = number(row.try_get(0)?);
    if generation == by.generation {
        return Ok(Some(LeaseClaim::Granted));
    }
    let gateway: Option<Uuid> = row.try_get(1)?;
    let member = Member { gateway: GatewayId(gateway.unwrap_or_default()), generation };
    let has_ended = gateway.is_none() || row.try_get(4)?;
    Ok(Some(LeaseClaim::Held(if has_ended {
        LeaseHolder::Ended { member, lease: micros(row.try_get(3)?) }
    } else {
        LeaseHolder::Current { member, address: address(row.try_get(2)?)? }
    })))
}

// === transactions ===

/// A transaction in the name of a member, which has not begun.
async fn filling(client: &Object, by: Member) -> Result<Filling<'_>, StoreError> {
    let sql = format!("SELECT id FROM runs WHERE {OF_MEMBER}");
    let rows = pipeline::rows(client, &sql, &of(by)).await?;
    Ok(Filling::new(client, rows.first().ok_or(StoreError::Expired)?.try_get(0)?))
}

/// Begins a transaction, and fails if the lease of its member is not valid. Returns the row of the member.
async fn begin(filling: &mut Filling<'_>) -> Result<Uuid, StoreError> {
    filling.begin(&[]).await?;
    filling.settle().await?;
    Ok(filling.run)
}

// === values ===

fn of(member: Member) -> [Value<'static>; 2] {
    [Box::new(member.gateway.0), Box::new(signed(member.generation))]
}

fn key_text(key: &LeaseKey) -> String {
    match key {
        LeaseKey::Cluster(server) => format!("server:{server}"),
        LeaseKey::Session { session } => session_key(*session),
    }
}

/// The key of the home of a session.
pub(super) fn session_key(session: Uuid) -> String {
    format!("session:{session}")
}

fn signed(generation: MemberGeneration) -> i64 {
    i64::try_from(generation.0).unwrap_or(i64::MAX)
}

fn number(generation: i64) -> MemberGeneration {
    MemberGeneration(generation.unsigned_abs())
}

fn micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or_default())
}

fn address(text: &str) -> Result<PeerAddress, StoreError> {
    text.parse().map_err(|_| StoreError::Invalid("a member has registered an address that this version cannot read"))
}

/// An error of an operation of a member.
fn of_member(error: StoreError, member: Member) -> LeaseError {
    match error {
        StoreError::Expired => LeaseError::Fenced(member),
        error => LeaseError::Store(error.into()),
    }
}
