//! A call in flight: the connection it uses, what it holds until its end, and what its end says about the connection.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, broadcast};
use toolway_wire::{
    error::WireError,
    exchange::{Exchange, Outcome, RequiredUrl},
    message::{ClientCapabilities, RpcError},
    notice::Notice,
    task::Task,
    up::{CapabilityScope, Peer, PeerTasks},
};

use super::{
    handle::{Connection, SupervisorCommand},
    pool::CallerLease,
    server_requests,
    sign_in::Account,
    state::{NotConnected, TransportKind},
    stdio::ProcessInstance,
    usage::{CallGuard, ListenerGuard},
    wake::ReadyPeer,
};
use crate::{
    call::{CallError, CallKind, Caller},
    policy::{Permit, Refusal, limit::CallSlots},
    record::redact::Redactor,
    task::KeptBy,
    validation::ToolCheck,
    whose_move::WhoseMove,
};

/// A call sent and not finished. It holds its permit: dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct InFlightCall {
    /// The exchange with the server.
    pub exchange: Exchange,
    pub(crate) connection: Connection,
    pub(crate) redactor: Redactor,
    /// What is checked when the call has ended.
    pub(crate) check: Option<ToolCheck>,
    /// Whether it calls a tool that is not annotated read-only.
    pub(crate) may_write: bool,
    /// Writes at its server before it was sent, as the cache of resources counts them.
    pub(crate) writes_before: u64,
    /// Time between two polls of a task; `None`: that of the server's entry.
    pub(crate) poll_interval: Option<Duration>,
    permit: Permit,
    peer: Peer,
    /// The process it was sent to, and the bytes that process had read before.
    process: (Arc<ProcessInstance>, u64),
    via: Via,
}

/// The right to use a connection for one request.
#[derive(Debug)]
pub(crate) enum Lease {
    /// The connection shared by all callers.
    Shared {
        /// Held while calls are sent one at a time.
        turn: Option<OwnedSemaphorePermit>,
        /// The account of the connection when it was chosen; `None` if it does not matter.
        account: Option<Account>,
    },
    /// A connection of the caller.
    Caller(CallerLease),
}

/// The connection a request was sent over.
#[derive(Debug)]
enum Via {
    Shared { generation: u64, session: Option<String>, _turn: Option<OwnedSemaphorePermit>, _use: CallGuard },
    Caller(CallerLease),
}

// === impl Connection ===

impl Connection {
    /// Sends the request of a permit over the connection of its lease: the only way to send a call. `ready` is the peer from which the lease was taken.
    pub(crate) async fn send_over(
        &self,
        ready: ReadyPeer,
        lease: Lease,
        mut permit: Permit,
        terms: toolway_wire::exchange::ExchangeTimeouts,
    ) -> Result<InFlightCall, NotConnected> {
        // A permit is made for one request; without one there is nothing to send.
        let Some(request) = permit.take_request() else {
            return Err(NotConnected::known("the permit has no request", WhoseMove::Caller));
        };
        let (peer, redactor, process, via) = match lease {
            Lease::Shared { turn, account: chosen } => {
                // The peer may have closed while the call waited for its slot or its record.
                let ready = if self.is_current(&ready) { ready } else { Box::pin(self.ready()).await? };
                let ReadyPeer { peer, generation, redactor, use_of, account } = ready;
                // A sign-in or sign-out in between changed the account: the chosen connection no longer exists.
                if chosen.is_some_and(|chosen| chosen.is_impersonal() != account.is_impersonal()) {
                    let because = "the server was reconnected with another account while the call waited; call again";
                    return Err(NotConnected::known(because, WhoseMove::Supervisor));
                }
                let via = Via::Shared { generation, session: peer.session(), _turn: turn, _use: use_of };
                (peer, redactor, self.shared().monitor.current(), via)
            }
            Lease::Caller(lease) => {
                lease.mark_called();
                lease.raise_log_level(request.log_level).await;
                let (peer, redactor) = lease.peer().ok_or_else(|| self.live().status.not_connected())?;
                (peer.clone(), redactor.clone(), lease.process(), Via::Caller(lease))
            }
        };
        let process = (Arc::clone(&process), process.bytes_read());
        let exchange = peer.open(request, terms);
        let connection = self.clone();
        Ok(InFlightCall {
            exchange,
            connection,
            redactor,
            check: None,
            may_write: false,
            writes_before: 0,
            poll_interval: None,
            permit,
            peer,
            process,
            via,
        })
    }
}

impl Connection {
    /// Keeps the server from being stopped as idle, until the result is dropped. It is not awaited before the server is closed.
    pub(crate) fn keep_in_use(&self) -> ListenerGuard {
        ListenerGuard::new(self.shared().uses())
    }
}

// === impl Lease ===

impl Lease {
    /// The process that the leased connection leads to; of the shared one, the current one of `connection`.
    pub(crate) fn process(&self, connection: &Connection) -> Arc<ProcessInstance> {
        match self {
            Self::Shared { .. } => connection.shared().monitor.current(),
            Self::Caller(lease) => lease.process(),
        }
    }

    /// The peer of the leased connection.
    pub(crate) fn peer<'a>(&'a self, shared: &'a ReadyPeer) -> &'a Peer {
        match self {
            Self::Shared { .. } => &shared.peer,
            Self::Caller(lease) => lease.peer().map_or(&shared.peer, |(peer, _)| peer),
        }
    }
}

// === impl InFlightCall ===

impl InFlightCall {
    /// The notices of the connection that it was sent over, from now on.
    pub(crate) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.peer.notices()
    }

    /// The URLs that the user must open before its server carries out the call that it refused with this error.
    pub(crate) fn required_urls(&self, error: &RpcError) -> Option<Vec<RequiredUrl>> {
        self.peer.required_urls(error)
    }

    /// The connection that all callers share, with its generation, if it was sent over that.
    pub(crate) fn shared_peer(&self) -> Option<(u64, &Peer)> {
        match &self.via {
            Via::Shared { generation, .. } => Some((*generation, &self.peer)),
            Via::Caller(_) => None,
        }
    }

    /// The permit of the call.
    pub(crate) fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Ends the call and returns its permit.
    pub(crate) fn into_permit(self) -> Permit {
        self.permit
    }

    /// The task operations of the connection it uses.
    pub(crate) fn tasks(&self, capabilities: Option<ClientCapabilities>) -> PeerTasks {
        let usual = self.connection.wanted().tasks.poll_interval;
        self.peer.tasks(capabilities).polled_every(self.poll_interval.unwrap_or(usual))
    }

    /// Records that the call continues as a task.
    pub(crate) fn keep_task(&self, task: &Task, caller: &Caller) {
        match &self.via {
            Via::Caller(lease) => lease.keep_task(task),
            Via::Shared { .. } => self.connection.shared().pool.keep_shared_task(task, caller),
        }
    }

    /// What keeps the tasks of the server.
    pub(crate) fn keeps_tasks(&self) -> KeptBy {
        match self.connection.status().transport {
            TransportKind::Http => KeptBy::Server,
            TransportKind::Stdio | TransportKind::InProcess | TransportKind::Custom => KeptBy::Process,
        }
    }

    /// The process it was sent to.
    pub(crate) fn process(&self) -> Arc<ProcessInstance> {
        Arc::clone(&self.process.0)
    }

    /// The server sent a request: the call waits for its caller, and frees its slot for others.
    pub(crate) fn park(&mut self, slots: &CallSlots, caller: &Caller) -> Result<(), Refusal> {
        self.permit.park(slots, caller)?;
        if let Via::Caller(lease) = &mut self.via {
            lease.park(self.exchange.cancel_handle());
        }
        Ok(())
    }

    /// How long a server request was unanswered when the call was ended to free its connection; `None` if it was not.
    pub(crate) fn preempted_after(&self) -> Option<Duration> {
        match &self.via {
            Via::Caller(lease) => lease.preempted_after(),
            Via::Shared { .. } => None,
        }
    }

    /// Reports that the peer misbehaved.
    pub(crate) fn suspect(&self, error: &WireError) {
        match &self.via {
            Via::Shared { generation, .. } => self.connection.suspect(*generation, error),
            Via::Caller(lease) => lease.discard(),
        }
    }

    /// Whether the server certainly did not receive the request: it was unreachable, and nothing was written before, or its
    /// process read nothing since.
    pub(crate) fn was_not_received(&self, error: &WireError, is_written: impl FnOnce() -> bool) -> bool {
        let (process, before) = &self.process;
        match error {
            WireError::Unreachable { .. } => !is_written(),
            WireError::Ended(_) => 0 < *before && process.bytes_read() == *before,
            _ => false,
        }
    }

    /// The error for a server that requires sign-in, with what to do; `None` if signing in does not help.
    pub(crate) fn sign_in_required(&self, caller: &Caller) -> Option<CallError> {
        let how = self.connection.shared().pool.sign_ins().hint(&self.connection.wanted(), caller.client())?;
        Some(CallError::SignInRequired { server: self.connection.name().clone(), how })
    }

    /// After the end: if a tool sent its server requests as a result, which a session cannot carry, its later calls are
    /// sent without one. This call is not repeated: the tool may have done something before its request.
    pub(crate) fn learn_asking_by_result(&self, outcome: &Outcome) {
        let in_session = self.peer.capability_scope().is_ok_and(|scope| scope == CapabilityScope::PerConnection);
        let subject = self.permit.subject();
        if !in_session || subject.kind != CallKind::Tool || !server_requests::is_refused_result(outcome) {
            return;
        }
        let live = self.connection.live();
        let Some((_, shared)) = live.peer.as_ref() else { return };
        if shared.is_stateless_too() {
            shared.note_asking_by_result(&subject.raw_name);
        }
    }

    /// After the end: if the server began a new session, its lists may have changed.
    pub(crate) fn check_session(&self) {
        if let Via::Shared { generation, session, .. } = &self.via
            && session.is_some()
            && self.peer.session() != *session
        {
            self.connection.send_command(SupervisorCommand::SessionChanged { generation: *generation });
        }
    }
}
