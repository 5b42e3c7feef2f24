//! Subscription to updates of one resource.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use toolway_wire::{
    json::Raw,
    notice::{Notice, SubscriptionFilter},
    up::UpstreamSubscription,
};

use super::{
    CallError, CallOutcome, Caller, CallerContext, Target,
    approving::{self, AuxiliaryRequest, CurrentGrant, Moment},
    auxiliary::reach,
    find::Found,
    pipeline::{self, not_connected},
};
use crate::{
    catalog::Origin,
    connection::{
        Connection, Lease, ListenerGuard,
        pool::{CallerLease, Interactivity, RequestOrigin},
    },
    host::{Host, Inner},
    policy::{Grant, Refusal},
    record::Recording,
};

/// Updates of one resource. Continues across reconnects until it is dropped or policy no longer permits it.
pub struct Subscription {
    host: Weak<Inner>,
    connection: Connection,
    /// The latest decision; an approval holds as long as the subscription.
    grant: Option<Grant>,
    uri: String,
    caller_context: CallerContext,
    patience: Duration,
    active: Option<ActiveSubscription>,
}

/// A subscription on an open connection.
#[derive(Debug)]
struct ActiveSubscription {
    upstream: UpstreamSubscription,
    guard: IdleGuard,
}

/// Result of an attempt to subscribe.
enum Activation {
    Active(Box<ActiveSubscription>),
    /// Policy, server or definition changed after the decision; nothing was sent.
    Outdated,
}

/// What was decided on, and when.
struct Decided {
    found: Found,
    moment: Moment,
}

impl Decided {
    fn is_current(&self, host: &Inner) -> bool {
        self.moment.is_now(host, &self.found)
    }
}

/// Prevents that the connection of a subscription is closed as idle.
#[derive(Debug)]
enum IdleGuard {
    Shared { _listener: ListenerGuard },
    Caller(CallerLease),
}

/// An update of a subscribed resource.
#[derive(Clone, Debug)]
pub enum ResourceUpdate {
    /// The resource, or a part of it, changed.
    Changed {
        /// URI named by the server.
        uri: String,
        /// All parameters of the notification.
        params: Raw,
    },
    /// The subscription was interrupted; the resource may have changed meanwhile.
    Resumed,
}

/// Delay before a lost subscription is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Host {
    /// Subscribes to updates of a resource.
    pub async fn subscribe(
        &self,
        caller_context: impl Into<CallerContext>,
        resource: Target,
    ) -> Result<Subscription, CallOutcome> {
        let mut caller_context = caller_context.into();
        // As its calls do, so that both use one connection.
        if matches!(caller_context.caller, Caller::Console) && caller_context.capabilities.is_none() {
            caller_context.capabilities = self.inner().context.undeclared_elicitation();
        }
        let caller = &caller_context.caller;
        let mut recording = self.inner().begin_recording(caller, "resources/subscribe", resource.name().len());
        let subscribed = subscribe(self.inner(), caller_context, &resource, &mut recording).await;
        let answer = Raw::empty_object();
        recording.end_with(subscribed.as_ref().map(|_| &answer)).await;
        subscribed
    }
}

async fn subscribe(
    host: &Arc<Inner>,
    caller_context: CallerContext,
    target: &Target,
    recording: &mut Recording,
) -> Result<Subscription, CallOutcome> {
    // The slot is needed to subscribe only; receiving updates takes none.
    let reached = reach(host, &caller_context, target, recording).await?;
    let mut subscription = Subscription {
        host: Arc::downgrade(host),
        connection: reached.found.connection.clone(),
        grant: None,
        uri: reached.permit.subject().raw_name.clone(),
        caller_context,
        patience: host.slots.patience(),
        active: None,
    };
    subscription.active = match subscription.activate(|| reached.is_current(host)).await? {
        Activation::Active(active) => Some(*active),
        Activation::Outdated => None,
    };
    subscription.grant = Some(reached.permit.into_grant());
    if subscription.active.is_none() {
        subscription.active = Some(subscription.renew().await?);
    }
    Ok(subscription)
}

impl Subscription {
    /// URI of the resource at its server.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the next update; `None` if there will be no more, because the server was removed or disabled, or
    /// policy or the server refuses the subscription.
    pub async fn next(&mut self) -> Option<ResourceUpdate> {
        loop {
            if let Some(active) = &mut self.active {
                match active.next().await {
                    Some(Notice::Updated { uri, params }) => return Some(ResourceUpdate::Changed { uri, params }),
                    Some(Notice::Missed(_)) => return Some(ResourceUpdate::Resumed),
                    Some(_) => continue,
                    None => self.active = None,
                }
            }
            match self.renew().await {
                Ok(active) => {
                    self.active = Some(active);
                    return Some(ResourceUpdate::Resumed);
                }
                Err(CallOutcome::Refused(_)) => return None,
                Err(_) if self.connection.is_stopped() => return None,
                Err(_) => tokio::time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Decides again and subscribes again, when the server is connected again.
    async fn renew(&mut self) -> Result<ActiveSubscription, CallOutcome> {
        let Some(host) = self.host.upgrade() else { return Err(Refusal::ShuttingDown.into()) };
        for _ in 0..approving::MAX_DECISIONS {
            self.connection.ready().await.map_err(|why| not_connected(&self.connection, why))?;
            let decided = self.decide_again(&host).await?;
            if let Activation::Active(active) = self.activate(|| decided.is_current(&host)).await? {
                return Ok(*active);
            }
        }
        Err(Refusal::KeepsChanging(self.uri.clone()).into())
    }

    /// Decides by the policy of now. A refusal is recorded.
    async fn decide_again(&mut self, host: &Inner) -> Result<Decided, CallOutcome> {
        let origin = Origin { server: self.connection.name().clone(), raw_name: self.uri.clone() };
        let (target, context) = (Target::ResourceOf(origin), &self.caller_context);
        let request = AuxiliaryRequest { context, target: &target, annotations: None };
        let found = request.find(host).await?;
        let previous = self.grant.take();
        match approving::obtain_current_grant(host, request, previous, None).await {
            Ok(CurrentGrant { found, grant, moment }) => {
                self.grant = Some(grant);
                Ok(Decided { found, moment })
            }
            Err(outcome) => {
                if matches!(outcome, CallOutcome::Refused(_)) {
                    let mut recording = host.begin_recording(&context.caller, "resources/subscribe", self.uri.len());
                    recording.set_subject(&found.subject, found.public_name());
                    recording.end_with(Err(&outcome)).await;
                }
                Err(outcome)
            }
        }
    }

    /// Subscribes over the connection of the caller's calls: the server may send updates to no other. Nothing is sent if
    /// what was decided on has changed by then.
    async fn activate(&self, is_current: impl Fn() -> bool) -> Result<Activation, CallOutcome> {
        let connection = &self.connection;
        let ready = connection.ready().await.map_err(|why| not_connected(connection, why))?;
        let origin = RequestOrigin::of(&self.caller_context);
        let lease = connection.lease(&ready, origin, Interactivity::NonInteractive, self.patience).await;
        let lease = lease.map_err(|no_lease| pipeline::no_lease_outcome(connection, no_lease))?;
        if !is_current() {
            return Ok(Activation::Outdated);
        }
        let peer = lease.peer(&ready);
        // The caller's connection can have another era than the shared one, and declare something else.
        if !peer.profile().capabilities.flag("resources", "subscribe") {
            let problem = format!("server `{}` does not support resource subscriptions", connection.name());
            return Err(Refusal::Malformed(problem).into());
        }
        let upstream = peer.listen(SubscriptionFilter::resource(&self.uri)).await;
        let upstream = upstream.map_err(|error| CallOutcome::Failed(CallError::Wire(error)))?;
        if upstream.accepted().uris.is_empty() {
            let problem = format!("server `{}` does not accept a subscription to this resource", connection.name());
            return Err(Refusal::Malformed(problem).into());
        }
        let guard = match lease {
            Lease::Shared { .. } => IdleGuard::Shared { _listener: connection.listener_guard() },
            Lease::Caller(lease) => IdleGuard::Caller(lease.into_listener()),
        };
        Ok(Activation::Active(Box::new(ActiveSubscription { upstream, guard })))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("server", self.connection.name()).field("uri", &self.uri).finish()
    }
}

impl ActiveSubscription {
    /// Waits for the next notice; `None` if the subscription ended or its connection was replaced.
    async fn next(&mut self) -> Option<Notice> {
        match &self.guard {
            IdleGuard::Shared { .. } => self.upstream.next().await,
            IdleGuard::Caller(lease) => tokio::select! {
                notice = self.upstream.next() => notice,
                () = lease.ended() => None,
            },
        }
    }
}
