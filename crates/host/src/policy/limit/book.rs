//! The limits of servers and clients, and what calls take of them.
//!
//! A call takes from all limits that concern it, or from none: those of its server, of the patterns of the server that match
//! its tool, and the same of its client. Calls per minute and at the same time are counted here, under one lock; calls per
//! day through a port. Without any limit, a call looks at one flag.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use toolway_config::{CallLimit, LimitLevel, ServerName, Settings, ToolPattern};
use uuid::Uuid;

use super::{
    days::{CallDays, DayCount, DayTaken, DayUse, until_next_day},
    rate::Rate,
    reached::{LimitEnd, LimitKey, LimitOwner, LimitReached, LimitScope},
    taken::{CallBounds, CountedUse, HeldPlaces},
};
use crate::{
    call::{CallKind, Caller},
    connection::WantedSet,
    policy::{Refusal, Subject},
};

/// All limits of a host.
pub(crate) struct LimitBook {
    is_set: AtomicBool,
    began: Instant,
    days: Arc<dyn CallDays>,
    // Nothing awaits under this lock.
    state: Mutex<BookState>,
}

#[derive(Default)]
struct BookState {
    servers: BTreeMap<ServerName, Vec<Limited>>,
    clients: BTreeMap<Arc<str>, Vec<Limited>>,
    counters: BTreeMap<LimitScope, Counter>,
}

/// One set of limits, and the calls that it is about.
#[derive(Clone, Debug)]
struct Limited {
    scope: LimitScope,
    /// `None`: all calls.
    pattern: Option<ToolPattern>,
    limit: CallLimit,
}

/// What calls use at this moment.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    running: u32,
    rate: Option<Rate>,
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitedCall {
    pub(crate) id: Option<Uuid>,
    pub(crate) argument_bytes: usize,
    pub(crate) attempt: Attempt,
}

/// Whether a call has taken of its limits when it was to be sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    Repeated,
}

/// What a call holds of its limits, and what it has used up; `None` if it had used that up before.
pub(crate) struct TakenLimits {
    pub(crate) places: HeldPlaces,
    pub(crate) used: Option<CountedUse>,
}

/// The limits that concern a call.
pub(crate) struct ConcerningLimits {
    book: Arc<LimitBook>,
    limits: Vec<Limited>,
}

/// The use of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// Whose it is.
    pub scope: LimitScope,
    /// The limit.
    pub key: LimitKey,
    /// Its number.
    pub most: u64,
    /// What is used of it.
    pub used: u64,
}

// === impl LimitBook ===

impl LimitBook {
    pub(crate) fn new(days: Arc<dyn CallDays>) -> Self {
        Self { is_set: AtomicBool::new(false), began: Instant::now(), days, state: Mutex::default() }
    }

    /// Replaces the limits. What calls have taken counts on.
    pub(crate) fn configure(&self, settings: &Settings, servers: &WantedSet) {
        let servers = servers.iter().filter(|(_, wanted)| !wanted.limits.is_empty()).map(|(name, wanted)| {
            let owner = LimitOwner::Server(name.clone());
            (name.clone(), limited(&owner, &wanted.limits))
        });
        let clients = settings.gateway.clients.value.iter();
        let clients = clients.filter(|(_, client)| !client.limits.value.is_empty()).map(|(name, client)| {
            let name: Arc<str> = name.as_str().into();
            (Arc::clone(&name), limited(&LimitOwner::Client(name), &client.limits.value))
        });
        let servers: BTreeMap<_, _> = servers.collect();
        let clients: BTreeMap<_, _> = clients.collect();
        let now = self.began.elapsed();
        let mut state = self.state.lock();
        let mut counters = BTreeMap::new();
        for Limited { scope, limit, .. } in servers.values().chain(clients.values()).flatten() {
            let Counter { running, rate } = state.counters.remove(scope).unwrap_or_default();
            let rate = limit.calls_per_minute.and_then(NonZeroU32::new).map(|per_minute| match rate {
                Some(rate) => rate.changed(per_minute, now),
                None => Rate::new(per_minute),
            });
            counters.insert(scope.clone(), Counter { running, rate });
        }
        // Calls that still run may be limited again.
        let running = std::mem::take(&mut state.counters).into_iter().filter(|(_, counter)| 0 < counter.running);
        counters.extend(running.map(|(scope, counter)| (scope, Counter { rate: None, ..counter })));
        self.is_set.store(!servers.is_empty() || !clients.is_empty(), Ordering::Release);
        *state = BookState { servers, clients, counters };
    }

    /// The limits that concern a call; `None` if there are none.
    pub(crate) fn concerning(self: &Arc<Self>, caller: &Caller, subject: &Subject) -> Option<ConcerningLimits> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        let concerns = |limited: &&Limited| match &limited.pattern {
            None => true,
            Some(pattern) => {
                subject.kind == CallKind::Tool && pattern.matches(subject.server.as_str(), &subject.raw_name)
            }
        };
        let limits: Vec<Limited> = {
            let state = self.state.lock();
            let of_client = caller.client().and_then(|client| state.clients.get(client));
            let of_server = state.servers.get(&subject.server);
            of_server.into_iter().chain(of_client).flatten().filter(concerns).cloned().collect()
        };
        (!limits.is_empty()).then(|| ConcerningLimits { book: Arc::clone(self), limits })
    }

    /// What bounds the result of a task. Its call has taken what it takes.
    pub(crate) fn of_task(self: &Arc<Self>, caller: &Caller, server: &ServerName, tool: &str) -> CallBounds {
        let subject = Subject { server: server.clone(), kind: CallKind::Tool, raw_name: tool.to_owned() };
        self.concerning(caller, &subject).map(|limits| limits.bounds()).unwrap_or_default()
    }

    /// What bounds the result of a task whose tool is not known: the smallest of the bounds that may concern it.
    pub(crate) fn of_unknown_task(self: &Arc<Self>, caller: &Caller, server: &ServerName) -> CallBounds {
        if !self.is_set.load(Ordering::Acquire) {
            return CallBounds::default();
        }
        let concerns = |limited: &&Limited| {
            let of_server = limited.pattern.as_ref().and_then(ToolPattern::server);
            of_server.is_none_or(|of_server| of_server == server.as_str())
        };
        let state = self.state.lock();
        let of_client = caller.client().and_then(|client| state.clients.get(client));
        let of_server = state.servers.get(server);
        let limits = of_server.into_iter().chain(of_client).flatten().filter(concerns).cloned().collect();
        drop(state);
        ConcerningLimits { book: Arc::clone(self), limits }.bounds()
    }

    /// Counts a call at the limits at once and per minute, at all or at none.
    fn take(&self, limits: &[Limited], attempt: Attempt) -> Result<(), LimitReached> {
        let now = self.began.elapsed();
        let mut state = self.state.lock();
        let mut rates = Vec::with_capacity(limits.len());
        for Limited { scope, limit, .. } in limits {
            let counter = state.counters.get(scope).copied().unwrap_or_default();
            if let Some(most) = limit.concurrent.filter(|most| *most <= counter.running) {
                return Err(reached(LimitKey::Concurrent, scope, u64::from(most), LimitEnd::WithACall));
            }
            if let Some(rate) = counter.rate.filter(|_| attempt == Attempt::First) {
                let per_minute = u64::from(rate.most());
                let full = |wait| reached(LimitKey::CallsPerMinute, scope, per_minute, LimitEnd::In(wait));
                rates.push((scope, rate.take(now).map_err(full)?));
            }
        }
        // All have room.
        for (scope, rate) in rates {
            state.counters.entry(scope.clone()).or_default().rate = Some(rate);
        }
        for Limited { scope, .. } in limits {
            state.counters.entry(scope.clone()).or_default().running += 1;
        }
        Ok(())
    }

    /// A call no longer runs.
    pub(super) fn leave(&self, scopes: &[LimitScope]) {
        let mut state = self.state.lock();
        for scope in scopes {
            if let Some(counter) = state.counters.get_mut(scope) {
                counter.running = counter.running.saturating_sub(1);
            }
        }
    }

    /// A call was not sent: gives back what it took.
    pub(super) fn give_back(&self, scopes: &[LimitScope], of_day: Option<Uuid>) {
        let mut state = self.state.lock();
        for scope in scopes {
            if let Some(counter) = state.counters.get_mut(scope) {
                counter.rate = counter.rate.map(Rate::given_back);
            }
        }
        drop(state);
        if let Some(call) = of_day {
            self.days.give_back(call);
        }
    }

    /// What is used of all limits that count.
    pub(crate) async fn uses(&self) -> Result<Vec<LimitUse>, crate::record::RecordsError> {
        let of_day = match self.is_set.load(Ordering::Acquire) {
            true => self.days.used(self.days.now()).await?,
            false => BTreeMap::new(),
        };
        let now = self.began.elapsed();
        let state = self.state.lock();
        let mut uses = Vec::new();
        for Limited { scope, limit, .. } in state.servers.values().chain(state.clients.values()).flatten() {
            let counter = state.counters.get(scope).copied().unwrap_or_default();
            let mut add = |key, most: Option<u32>, used: u64| {
                let Some(most) = most.map(u64::from) else { return };
                uses.push(LimitUse { scope: scope.clone(), key, most, used });
            };
            let per_minute = counter.rate.map_or(0, |rate| rate.used(now));
            add(LimitKey::CallsPerMinute, limit.calls_per_minute, u64::from(per_minute));
            let per_day = of_day.get(&scope.count_key()).copied().unwrap_or_default();
            add(LimitKey::CallsPerDay, limit.calls_per_day, per_day);
            add(LimitKey::Concurrent, limit.concurrent, u64::from(counter.running));
        }
        Ok(uses)
    }
}

// === impl ConcerningLimits ===

impl ConcerningLimits {
    /// What bounds the call while it runs and when it has ended.
    pub(crate) fn bounds(&self) -> CallBounds {
        let deadlines = self.limits.iter().filter_map(|limited| limited.limit.deadline);
        let bytes = self.limits.iter().filter_map(|limited| Some((limited.limit.bytes_per_call?, &limited.scope)));
        let smallest = bytes.min_by_key(|(bytes, _)| *bytes);
        CallBounds { deadline: deadlines.min(), result: smallest.map(|(bytes, scope)| (bytes, scope.clone())) }
    }

    /// Takes one call of all limits. A refused call takes nothing.
    pub(crate) async fn take(self, call: LimitedCall) -> Result<TakenLimits, Refusal> {
        let Self { book, limits } = self;
        let bytes = call.argument_bytes as u64;
        for Limited { scope, limit, .. } in &limits {
            if let Some(most) = limit.bytes_per_call.filter(|most| *most < bytes) {
                let too_large = reached(LimitKey::ArgumentBytes, scope, most, LimitEnd::Never);
                return Err(LimitReached { bytes, ..too_large }.into());
            }
        }
        book.take(&limits, call.attempt)?;
        let scopes: Arc<[LimitScope]> = limits.iter().map(|limited| limited.scope.clone()).collect();
        let places = HeldPlaces::new(Arc::clone(&book), Arc::clone(&scopes));
        if call.attempt == Attempt::Repeated {
            return Ok(TakenLimits { places, used: None });
        }
        // From here on, dropping it gives back what was taken.
        let mut used = CountedUse::new(Arc::clone(&book), scopes);
        let of_day =
            |limited: &Limited| Some(DayCount { key: limited.scope.count_key(), most: limited.limit.calls_per_day? });
        let counts: Vec<DayCount> = limits.iter().filter_map(of_day).collect();
        if counts.is_empty() {
            return Ok(TakenLimits { places, used: Some(used) });
        }
        let id = call.id.unwrap_or_else(Uuid::now_v7);
        let at = book.days.now();
        let taking = book.days.take(DayUse { call: id, at, counts });
        used.takes_of_day(id);
        match taking.await {
            Ok(DayTaken::Granted) => Ok(TakenLimits { places, used: Some(used) }),
            Ok(DayTaken::Exceeded(key)) => {
                let exceeded = limits.iter().find(|limited| limited.scope.count_key() == key).or(limits.first());
                let Some(Limited { scope, limit, .. }) = exceeded else {
                    return Ok(TakenLimits { places, used: Some(used) });
                };
                let most = limit.calls_per_day.map(u64::from).unwrap_or_default();
                let reached = reached(LimitKey::CallsPerDay, scope, most, LimitEnd::In(until_next_day(at)));
                Err(LimitReached { at, ..reached }.into())
            }
            Err(error) => Err(Refusal::LimitUnknown(error.to_string())),
        }
    }
}

fn reached(key: LimitKey, scope: &LimitScope, most: u64, end: LimitEnd) -> LimitReached {
    LimitReached { key, scope: scope.clone(), most, bytes: 0, at: SystemTime::now(), end }
}

fn limited(owner: &LimitOwner, level: &LimitLevel) -> Vec<Limited> {
    let scope = |tools| LimitScope { owner: owner.clone(), tools };
    let all = Limited { scope: scope(None), pattern: None, limit: level.all.clone() };
    let tools = level.tools.iter().map(|tool| Limited {
        scope: scope(Some(tool.written.as_str().into())),
        pattern: Some(tool.pattern.clone()),
        limit: tool.limit.clone(),
    });
    [all].into_iter().chain(tools).filter(|limited| !limited.limit.is_empty()).collect()
}
