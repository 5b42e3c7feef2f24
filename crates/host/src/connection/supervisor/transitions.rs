//! The state transitions of a supervisor: dial, attach, wait, give up, close.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{join, join_all},
};
use tokio::time::Instant;
use toolway_config::server::{SessionEnd, Start};
use toolway_wire::{
    error::WireError,
    up::{Peer, WeakPeer},
};

use super::{Activity, Attached, Goal, Grace, Next, Supervisor, publish::LOST};
use crate::{
    connection::{
        backoff,
        dial::{DialError, DialOutcome, SessionChoice},
        pool,
        sign_in::Account,
        state::{Phase, StopReason},
        wanted::Lists,
    },
    whose_move::WhoseMove,
};

/// After being connected this long, a loss counts as the first failure in a row.
const STABLE: Duration = Duration::from_secs(10);
/// How long calls in flight may take to finish when a server is changed or removed.
const MOMENT: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(super) fn dial(&mut self) {
        self.listed = false;
        let (context, wanted) = (Arc::clone(&self.context), Arc::clone(&self.wanted));
        let shared = self.connection.shared();
        let features = Arc::new(shared.pool.begin_shared());
        let observers = (shared.stderr_tail.clone(), shared.monitor.clone());
        self.activity = Activity::Dialling(Box::pin(async move {
            let started = observers.1.next_start();
            let dialling =
                AssertUnwindSafe(context.dialer.connect(&wanted, None, features, observers, SessionChoice::Shared))
                    .catch_unwind();
            context.starting.run(started, dialling).await.unwrap_or_else(|_| DialOutcome::failed(DialError::panicked()))
        }));
        self.enter(Phase::Connecting { attempt: self.backoff.failures() + 1 });
    }

    pub(super) fn attach(&mut self, peer: Peer, account: Account) {
        self.generation += 1;
        self.account = account;
        let (filter, listings) = (Arc::clone(&self.wanted.filter), self.context.listings.of(&self.wanted.name));
        let known = self.listing.clone().filter(|_| self.listing_is_current);
        let mut attached = Attached::new(peer, filter, self.wanted.lists, listings, known);
        self.listed = self.wanted.lists == Lists::Ignored;
        if let Some(level) = self.log_level {
            attached.set_log_level(level);
        }
        self.activity = Activity::Serving(Box::new(attached));
        self.connection.shared().pool.open();
        self.status.last_connected = Some(SystemTime::now());
        self.describe();
        self.enter(Phase::Ready);
        tracing::info!(server = %self.wanted.name, "connected");
    }

    pub(super) fn handle_dial_error(&mut self, error: &DialError) {
        self.record_dial_error(error);
        match error {
            DialError::SignInRequired { challenges, how, .. } => {
                self.rest(Phase::SignInRequired { challenges: challenges.clone(), how: how.clone() });
            }
            DialError::Configuration(_)
            | DialError::CredentialRefused { .. }
            | DialError::NoToken(_)
            | DialError::Wire(WireError::NoCommonRevision { .. } | WireError::Redirect { .. }) => {
                self.give_up(&error.to_string(), error.whose_move());
            }
            DialError::Timeout(_)
            | DialError::NonMcpOutput { .. }
            | DialError::NotAnEndpoint { .. }
            | DialError::Wire(_) => self.fail(&error.to_string(), error.whose_move()),
        }
    }

    /// The server refused a list request: sign-in is required, or the configured credential is not sufficient.
    pub(super) fn handle_unauthorized(&mut self, error: WireError) -> Next {
        if self.wanted.is_unattended() {
            return self.handle_refused_token(&error);
        }
        let how = self.context.dialer.sign_ins.hint(&self.wanted, None);
        let error = DialError::of(error, self.wanted.credential(), how);
        self.record_error(
            "sign-in required, or the credential is refused",
            &error.to_string(),
            error.code(),
            error.whose_move(),
        );
        let phase = match &error {
            DialError::SignInRequired { challenges, how, .. } => {
                Phase::SignInRequired { challenges: challenges.clone(), how: how.clone() }
            }
            other => Phase::Failed { because: self.operator_text(&other.to_string()), whose_move: other.whose_move() },
        };
        self.close_then(Goal::Rest(phase), Grace::None)
    }

    /// The server refused a token obtained without a user. The next dial requests a new one from the authorization server.
    /// After HTTP 403 it does not retry: another token would have the same rights.
    fn handle_refused_token(&mut self, error: &WireError) -> Next {
        if matches!(error, WireError::Unauthorized { status, .. } if status.as_u16() == 403) {
            self.record_error("token refused", &error.to_string(), error.code(), WhoseMove::Operator);
            let because = self.operator_text(&format!("the server refused the token: {error}"));
            return self
                .close_then(Goal::Rest(Phase::Failed { because, whose_move: WhoseMove::Operator }), Grace::None);
        }
        if let Activity::Serving(attached) = &self.activity {
            let (peer, uses) = (attached.peer.clone(), Arc::clone(self.connection.shared().uses()));
            let closing = async move {
                drop(tokio::time::timeout(MOMENT, uses.wait_until_unused()).await);
                peer.close().await;
            };
            self.closing.push(closing.boxed());
        }
        self.handle_loss(error);
        Next::Wait
    }

    /// An established connection is lost: redials, or stops a server that starts on use and is idle.
    pub(super) fn handle_loss(&mut self, why: &WireError) {
        let stood = match &self.activity {
            Activity::Serving(attached) => attached.since.elapsed(),
            _ => return,
        };
        self.status.losses += 1;
        self.record_error("connection lost", &why.to_string(), why.code(), WhoseMove::after(why));
        self.note(LOST);
        self.activity = Activity::Resting;
        if self.wanted.start == Start::WhenNeeded && self.connection.shared().uses().is_idle() {
            return self.rest(Phase::Stopped(StopReason::Idle));
        }
        if STABLE <= stood {
            self.backoff.succeed();
            return self.dial();
        }
        self.fail(&why.to_string(), WhoseMove::after(why));
    }

    /// Counts a failure and schedules a retry; gives up after `reconnect.attempts`, or where the server starts on use only.
    pub(super) fn fail(&mut self, because: &str, whose_move: WhoseMove) {
        let pause = self.backoff.fail(self.wanted.reconnect.delays());
        let failures = self.backoff.failures();
        if self.wanted.reconnect.attempts.is_some_and(|attempts| attempts < failures) {
            return self.give_up(&format!("gave up after {failures} attempts: {because}"), whose_move);
        }
        if self.wanted.start == Start::WhenNeeded {
            return self.give_up(&format!("{because}; retrying on next use"), whose_move);
        }
        self.activity = Activity::Waiting(Instant::now() + pause);
        let crash_loop = backoff::LOOP <= failures;
        let because = self.operator_text(because);
        self.enter(Phase::Waiting { until: SystemTime::now() + pause, because, failures, crash_loop });
    }

    pub(super) fn give_up(&mut self, because: &str, whose_move: WhoseMove) {
        self.rest(Phase::Failed { because: self.operator_text(because), whose_move });
    }

    /// A call reports that the peer misbehaves: redials. Other calls in flight may be fine, so the old connection stays
    /// open until the last of them has ended.
    pub(super) fn suspect(&mut self, generation: u64, error: &WireError) -> Next {
        if generation != self.generation || !matches!(self.activity, Activity::Serving(_)) {
            return Next::Wait;
        }
        self.record_error(
            "the connection is unusable; reconnecting",
            &error.to_string(),
            error.code(),
            WhoseMove::after(error),
        );
        self.status.losses += 1;
        self.note(LOST);
        if let Activity::Serving(attached) = std::mem::replace(&mut self.activity, Activity::Resting) {
            self.lingering.retain(|peer| peer.upgrade().is_some());
            self.lingering.push(attached.peer.downgrade());
        }
        self.dial();
        Next::Wait
    }

    /// Closes the connection, if any, then continues with `goal`.
    pub(super) fn close_then(&mut self, goal: Goal, grace: Grace) -> Next {
        let (others, ending) = (self.others(), std::mem::take(&mut self.closing));
        let none = others.is_empty() && ending.is_empty();
        let (before, peer) = match std::mem::replace(&mut self.activity, Activity::Resting) {
            Activity::Serving(attached) => (None, Some(attached.peer.clone())),
            Activity::Closing(work, _) => (Some(work), None),
            Activity::Resting | Activity::Dialling(_) | Activity::Waiting(_) if none => return self.enter_goal(goal),
            Activity::Resting | Activity::Dialling(_) | Activity::Waiting(_) => (None, None),
        };
        let uses = Arc::clone(self.connection.shared().uses());
        // Kept only when the whole host shuts down or the server is idle: the next start resumes the session.
        let is_pause = match &goal {
            Goal::Leave => matches!(grace, Grace::None),
            Goal::Rest(phase) => *phase == Phase::Stopped(StopReason::Idle),
            Goal::Dial => false,
        };
        let sessions = if is_pause { self.wanted.sessions } else { SessionEnd::End };
        let closing = async move {
            match before {
                Some(before) => before.await,
                None if matches!(grace, Grace::Moment) => {
                    drop(tokio::time::timeout(MOMENT, uses.wait_until_unused()).await)
                }
                None => {}
            }
            let close = async |peer: &Peer| match sessions {
                SessionEnd::Keep => peer.leave().await,
                SessionEnd::End => peer.close().await,
            };
            join(join_all(peer.iter().chain(&others).map(close)), ending.collect::<()>()).await;
        };
        self.activity = Activity::Closing(Box::pin(closing), Goal::Leave);
        self.redirect(goal)
    }

    /// The other connections to the server: those of callers, and replaced ones.
    fn others(&mut self) -> Vec<Peer> {
        let mut others = self.connection.shared().pool.close();
        others.extend(std::mem::take(&mut self.lingering).iter().filter_map(WeakPeer::upgrade));
        others
    }

    /// How long an unused caller connection is kept.
    fn pool_idle(&self) -> Duration {
        self.wanted.idle_stop.unwrap_or(pool::IDLE)
    }

    /// When the next caller connection may expire.
    pub(super) fn pool_due(&self) -> Option<Instant> {
        self.connection.shared().pool.due(self.pool_idle())
    }

    /// Expires idle caller connections, and closes evicted ones.
    pub(super) fn expire_pool(&mut self) {
        let pool = &self.connection.shared().pool;
        pool.expire_idle(self.pool_idle());
        let close = |peer: Peer| async move { peer.close().await }.boxed();
        self.closing.extend(pool.take_evicted().into_iter().map(close));
    }

    /// Changes the goal of a close in progress. Callers see the new phase at once.
    pub(super) fn redirect(&mut self, new: Goal) -> Next {
        let phase = match &new {
            Goal::Dial => Phase::Connecting { attempt: self.backoff.failures() + 1 },
            Goal::Rest(phase) => phase.clone(),
            Goal::Leave => Phase::Stopped(StopReason::Closed),
        };
        if let Activity::Closing(_, goal) = &mut self.activity {
            *goal = new;
        }
        self.enter(phase);
        Next::Wait
    }

    pub(super) fn enter_goal(&mut self, goal: Goal) -> Next {
        match goal {
            Goal::Dial => self.dial(),
            Goal::Rest(phase) => self.rest(phase),
            Goal::Leave => {
                self.rest(Phase::Stopped(StopReason::Closed));
                return Next::Leave;
            }
        }
        Next::Wait
    }

    pub(super) fn rest(&mut self, phase: Phase) {
        self.activity = Activity::Resting;
        if matches!(phase, Phase::Disabled | Phase::Stopped(StopReason::Disconnected | StopReason::Closed)) {
            self.context.catalog.remove(&self.wanted.name);
            (self.status.counts, self.listing) = (None, None);
        }
        self.enter(phase);
    }

    /// When the connection will have been idle for `idle_stop`.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        let stop = self.wanted.idle_stop?;
        let Activity::Serving(attached) = &self.activity else { return None };
        let uses = self.connection.shared().uses();
        let since = uses.last_use().max(attached.since);
        // While it is in use, check again after the same time.
        let since = if uses.is_idle() { since } else { Instant::now() };
        Some(since + stop)
    }

    /// Unpublishes the peer before checking for users: calls that took it before are counted, later ones wait.
    pub(super) fn stop_if_idle(&mut self) -> Next {
        if self.idle_at().is_none_or(|at| Instant::now() < at) {
            return Next::Wait;
        }
        let Activity::Serving(attached) = std::mem::replace(&mut self.activity, Activity::Resting) else {
            return Next::Wait;
        };
        self.publish();
        self.activity = Activity::Serving(attached);
        if !self.connection.shared().uses().is_idle() {
            self.publish();
            return Next::Wait;
        }
        self.close_then(Goal::Rest(Phase::Stopped(StopReason::Idle)), Grace::None)
    }
}
