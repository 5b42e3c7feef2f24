//! Where a supervisor goes: dialling, standing, waiting, giving up, ending.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{
    FutureExt, StreamExt,
    future::{join_all, join3},
};
use tokio::time::Instant;
use toolway_config::server::Start;
use toolway_wire::{
    error::WireError,
    up::{Peer, WeakPeer},
};

use super::{Aim, Attached, Doing, Grace, Next, Supervisor};
use crate::{
    connection::{
        backoff,
        dial::{DialError, Dialled, Session},
        lines,
        sign_in::Account,
        state::{Phase, Stopped},
        wanted::Lists,
    },
    whose_move::WhoseMove,
};

/// A connection that stood so long was a good one: its loss counts as the first failure.
const STABLE: Duration = Duration::from_secs(10);
/// How long calls under way may take to finish when a server is changed or no longer wanted.
const MOMENT: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(super) fn dial(&mut self) {
        self.listed = false;
        let (room, wanted) = (Arc::clone(&self.room), Arc::clone(&self.wanted));
        let shared = self.connection.shared();
        let face = Arc::new(shared.lines.base_face());
        let senses = (shared.last_words.clone(), shared.pulse.clone());
        self.doing = Doing::Dialling(Box::pin(async move {
            let begun = senses.1.begins();
            let dialling =
                AssertUnwindSafe(room.dialler.connect(&wanted, None, face, senses, Session::Kept)).catch_unwind();
            room.starting.take(begun, dialling).await.unwrap_or_else(|_| Dialled::failed(DialError::panicked()))
        }));
        self.enter(Phase::Connecting { attempt: self.backoff.failures() + 1 });
    }

    pub(super) fn attach(&mut self, peer: Peer, account: Account) {
        self.generation += 1;
        self.account = account;
        let mut attached = Attached::new(peer, Arc::clone(&self.wanted.filter), self.wanted.lists);
        self.listed = self.wanted.lists == Lists::Ignored;
        if let Some(level) = self.log_level {
            attached.set_log_level(level);
        }
        self.doing = Doing::Serving(Box::new(attached));
        self.connection.shared().lines.open();
        self.describe();
        self.enter(Phase::Ready);
        tracing::info!(server = %self.wanted.name, "connected");
    }

    pub(super) fn not_dialled(&mut self, error: &DialError) {
        self.note_dial(error);
        tracing::warn!(server = %self.wanted.name, error = %self.redactor.text(&error.to_string()), "cannot connect");
        match error {
            DialError::SignInNeeded { challenges, how } => {
                self.rest(Phase::SignInNeeded { challenges: challenges.clone(), how: how.clone() });
            }
            DialError::Configuration(_)
            | DialError::CredentialRefused { .. }
            | DialError::NoToken(_)
            | DialError::Wire(WireError::NoCommonRevision { .. } | WireError::Redirect { .. }) => {
                self.give_up(&error.to_string(), error.whose_move());
            }
            DialError::Silent(_) | DialError::Garbled { .. } | DialError::Wire(_) => {
                self.fail(&error.to_string(), error.whose_move())
            }
        }
    }

    /// It does not let us look: somebody has to sign in, or the configured credential is not good enough.
    pub(super) fn turned_away(&mut self, error: WireError) -> Next {
        if self.wanted.asks_for_itself() {
            return self.token_refused(&error);
        }
        let how = self.room.dialler.sign_ins.how(&self.wanted, None);
        let error = DialError::of(error, self.wanted.credential(), how);
        self.note(&error.to_string(), error.code(), error.whose_move());
        let phase = match &error {
            DialError::SignInNeeded { challenges, how } => {
                Phase::SignInNeeded { challenges: challenges.clone(), how: how.clone() }
            }
            other => Phase::Failed { because: self.redactor.text(&other.to_string()), whose_move: other.whose_move() },
        };
        self.go(Aim::Rest(phase), Grace::None)
    }

    /// It does not take a token that nobody signs in for. Whoever gives them is asked for another when it is dialled again;
    /// where a good one is not good enough, another would be no better.
    fn token_refused(&mut self, error: &WireError) -> Next {
        if matches!(error, WireError::Unauthorized { status, .. } if status.as_u16() == 403) {
            self.note(&error.to_string(), error.code(), WhoseMove::Operator);
            let because = self.redactor.text(&format!("it does not take the token: {error}"));
            return self.go(Aim::Rest(Phase::Failed { because, whose_move: WhoseMove::Operator }), Grace::None);
        }
        if let Doing::Serving(attached) = &self.doing {
            let (peer, uses) = (attached.peer.clone(), Arc::clone(self.connection.shared().uses()));
            let closing = async move {
                drop(tokio::time::timeout(MOMENT, uses.none()).await);
                peer.close().await;
            };
            self.closing.push(closing.boxed());
        }
        self.lost(error);
        Next::Wait
    }

    /// A connection that stood is gone.
    pub(super) fn lost(&mut self, why: &WireError) {
        let stood = match &self.doing {
            Doing::Serving(attached) => attached.since.elapsed(),
            _ => return,
        };
        self.status.losses += 1;
        self.note(&why.to_string(), why.code(), WhoseMove::after(why));
        tracing::warn!(server = %self.wanted.name, error = %self.redactor.text(&why.to_string()), "connection lost");
        self.doing = Doing::Resting;
        if self.wanted.start == Start::WhenNeeded && self.connection.shared().uses().is_idle() {
            return self.rest(Phase::Stopped(Stopped::Idle));
        }
        if STABLE <= stood {
            self.backoff.succeed();
            return self.dial();
        }
        self.fail(&why.to_string(), WhoseMove::after(why));
    }

    /// One more failure: it is dialled again after a while, unless that was tried often enough or nobody needs it.
    pub(super) fn fail(&mut self, because: &str, whose_move: WhoseMove) {
        let pause = self.backoff.fail();
        let failures = self.backoff.failures();
        if self.wanted.retries.is_some_and(|retries| retries < failures) {
            return self.give_up(&format!("given up after {failures} attempts: {because}"), whose_move);
        }
        if self.wanted.start == Start::WhenNeeded {
            return self.give_up(&format!("{because}; tried again when next needed"), whose_move);
        }
        self.doing = Doing::Waiting(Instant::now() + pause);
        let crash_loop = backoff::LOOP <= failures;
        let because = self.redactor.text(because);
        self.enter(Phase::Waiting { until: SystemTime::now() + pause, because, failures, crash_loop });
    }

    pub(super) fn give_up(&mut self, because: &str, whose_move: WhoseMove) {
        self.rest(Phase::Failed { because: self.redactor.text(because), whose_move });
    }

    /// A call found that the peer does not answer as it should: it is dialled anew. Other calls under way may be fine, so
    /// the old connection lasts until the last of them has ended.
    pub(super) fn suspect(&mut self, generation: u64, error: &WireError) -> Next {
        if generation != self.generation || !matches!(self.doing, Doing::Serving(_)) {
            return Next::Wait;
        }
        self.note(&error.to_string(), error.code(), WhoseMove::after(error));
        self.status.losses += 1;
        if let Doing::Serving(attached) = std::mem::replace(&mut self.doing, Doing::Resting) {
            self.lingering.retain(|peer| peer.upgrade().is_some());
            self.lingering.push(attached.peer.downgrade());
        }
        self.dial();
        Next::Wait
    }

    /// Ends a connection that is there, and then does what is aimed at; at once where there is none.
    pub(super) fn go(&mut self, aim: Aim, grace: Grace) -> Next {
        let (others, ending) = (self.others(), std::mem::take(&mut self.closing));
        let none = others.is_empty() && ending.is_empty();
        let (before, peer) = match std::mem::replace(&mut self.doing, Doing::Resting) {
            Doing::Serving(attached) => (None, Some(attached.peer.clone())),
            Doing::Closing(work, _) => (Some(work), None),
            Doing::Resting | Doing::Dialling(_) | Doing::Waiting(_) if none => return self.arrive(aim),
            Doing::Resting | Doing::Dialling(_) | Doing::Waiting(_) => (None, None),
        };
        let uses = Arc::clone(self.connection.shared().uses());
        let (room, wanted) = (Arc::clone(&self.room), Arc::clone(&self.wanted));
        // Only when all of us goes: then somebody may come back for it.
        let for_good = !matches!((&aim, grace), (Aim::Leave, Grace::None));
        let closing = async move {
            match before {
                Some(before) => before.await,
                None if matches!(grace, Grace::Moment) => drop(tokio::time::timeout(MOMENT, uses.none()).await),
                None => {}
            }
            let own = async {
                match &peer {
                    Some(peer) if for_good => peer.close().await,
                    Some(peer) => room.dialler.leave(&wanted, peer).await,
                    None => {}
                }
            };
            join3(own, join_all(others.iter().map(Peer::close)), ending.collect::<()>()).await;
        };
        self.doing = Doing::Closing(Box::pin(closing), Aim::Leave);
        self.redirect(aim)
    }

    /// What is connected to the server besides the connection itself.
    fn others(&mut self) -> Vec<Peer> {
        let mut others = self.connection.shared().lines.close();
        others.extend(std::mem::take(&mut self.lingering).iter().filter_map(WeakPeer::upgrade));
        others
    }

    /// How long a line lasts that nobody uses.
    fn line_idle(&self) -> Duration {
        self.wanted.idle_stop.unwrap_or(lines::IDLE)
    }

    /// When there may be a line to end.
    pub(super) fn lines_due(&self) -> Option<Instant> {
        self.connection.shared().lines.due(self.line_idle())
    }

    /// Ends the lines that nobody has used for long, and closes those whose place was taken.
    pub(super) fn end_lines(&mut self) {
        let lines = &self.connection.shared().lines;
        lines.reap(self.line_idle());
        let close = |peer: Peer| async move { peer.close().await }.boxed();
        self.closing.extend(lines.given_up().into_iter().map(close));
    }

    /// While a connection is being ended: where to go then. Callers see it at once.
    pub(super) fn redirect(&mut self, new: Aim) -> Next {
        let phase = match &new {
            Aim::Dial => Phase::Connecting { attempt: self.backoff.failures() + 1 },
            Aim::Rest(phase) => phase.clone(),
            Aim::Leave => Phase::Stopped(Stopped::Closed),
        };
        if let Doing::Closing(_, aim) = &mut self.doing {
            *aim = new;
        }
        self.enter(phase);
        Next::Wait
    }

    pub(super) fn arrive(&mut self, aim: Aim) -> Next {
        match aim {
            Aim::Dial => self.dial(),
            Aim::Rest(phase) => self.rest(phase),
            Aim::Leave => {
                self.rest(Phase::Stopped(Stopped::Closed));
                return Next::Leave;
            }
        }
        Next::Wait
    }

    pub(super) fn rest(&mut self, phase: Phase) {
        self.doing = Doing::Resting;
        if matches!(phase, Phase::Disabled | Phase::Stopped(Stopped::Disconnected | Stopped::Closed)) {
            self.room.cataloguing.withdrawn(&self.wanted.name);
            (self.status.counts, self.listing) = (None, None);
        }
        self.enter(phase);
    }

    /// When it will have been idle for long enough to be stopped.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        let stop = self.wanted.idle_stop?;
        let Doing::Serving(attached) = &self.doing else { return None };
        let uses = self.connection.shared().uses();
        let since = uses.last().max(attached.since);
        // While somebody uses it, it is looked at again after as long.
        let since = if uses.is_idle() { since } else { Instant::now() };
        Some(since + stop)
    }

    /// Shows first that there is no connection, then looks: whoever took it before is seen, whoever comes later waits.
    pub(super) fn stop_if_idle(&mut self) -> Next {
        if self.idle_at().is_none_or(|at| Instant::now() < at) {
            return Next::Wait;
        }
        let Doing::Serving(attached) = std::mem::replace(&mut self.doing, Doing::Resting) else { return Next::Wait };
        self.publish();
        self.doing = Doing::Serving(attached);
        if !self.connection.shared().uses().is_idle() {
            self.publish();
            return Next::Wait;
        }
        self.go(Aim::Rest(Phase::Stopped(Stopped::Idle)), Grace::None)
    }
}
