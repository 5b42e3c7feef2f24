//! Sends a request of a client to the member at which its session is. [`super::relaying`] passes on the response.
//!
//! Where a request goes is decided in `gateway/clustered.rs`. What failed before the other side had proven the key was not
//! sent; after that, its outcome is unknown and it is never sent again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::json;
use toolway_host::{
    cluster::{ClientSessionLimits, ClusterMember, LeaseError, Member, MemberState, PeerAddress},
    record::Delivery,
};
use toolway_wire::{
    down::{DownstreamOptions, SharedSessions, http::ResponseBody},
    message::{Id, RpcError, compose},
    peer::{PeerError, PeerResponse, PeerTls},
    seal::NoRandomness,
};
use uuid::Uuid;

use super::{
    ClusterMembership, ClusterOptions, ForwardedRequest, homes::SessionHomes, peer_listener::REFUSED,
    session_rows::ClusterSessions,
};
use crate::{access::Access, reply};

/// What a gateway has of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) membership: ClusterMembership,
    pub(crate) homes: SessionHomes,
    pub(crate) sessions: SharedSessions,
    pub(crate) tls: PeerTls,
    counts: ForwardCounts,
}

/// Forwarded requests since the start, by what became of them.
#[derive(Debug, Default)]
struct ForwardCounts {
    answered: AtomicU64,
    gone: AtomicU64,
    unreachable: AtomicU64,
    lost: AtomicU64,
}

/// Current values for metrics.
#[derive(Clone, Debug)]
pub(crate) struct ClusterGauges {
    /// Whether this gateway has a valid lease.
    pub(crate) is_member: bool,
    /// Members whose lease is valid, as they were last listed.
    pub(crate) live: usize,
    /// Forwarded requests, by a fixed word for what became of them.
    pub(crate) forwarded: [ForwardCount; 4],
}

/// Requests that had one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardCount {
    pub(crate) end: &'static str,
    pub(crate) requests: u64,
}

/// What became of a forwarded request.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The other gateway has answered.
    Answered(Box<PeerResponse>),
    /// The process of that member has ended, or is another member now. Nothing was sent or done.
    Gone,
    /// It cannot be reached, or has refused the request as it was forwarded. Nothing was done.
    Unreachable,
    /// The connection was lost after the request was sent.
    Lost,
}

/// How much of a lease passes between two looks at the list of members, which is as old at most.
const LIST_SHARE: u32 = 3;
/// Looks in which a member that was taken over is absent.
const ABSENCES: u32 = 2;
/// Pauses before a connection that was cut before the proof of the key is tried again.
const CUT_PAUSES: [Duration; 4] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200)];
/// When a client may try again what was not sent.
const RETRY_AFTER: Duration = Duration::from_secs(2);

impl Cluster {
    /// With sessions as `downstream` bounds them.
    pub(crate) fn new(
        options: ClusterOptions,
        access: &Arc<Access>,
        downstream: &DownstreamOptions,
    ) -> Result<Self, NoRandomness> {
        let ClusterOptions { membership, sessions, keys, tls } = options;
        let limits =
            ClientSessionLimits { idle: downstream.session_idle, per_principal: downstream.limits.sessions_per_caller };
        let rows = Arc::new(ClusterSessions::new(sessions, Arc::clone(access), limits));
        let homes = SessionHomes::new(membership.clone());
        let sessions = SharedSessions::new(rows, &keys)?;
        Ok(Self { membership, homes, sessions, tls, counts: ForwardCounts::default() })
    }

    /// Current values for metrics.
    pub(crate) fn gauges(&self) -> ClusterGauges {
        let is_live = |row: &&ClusterMember| matches!(row.state, MemberState::Live { .. });
        let ForwardCounts { answered, gone, unreachable, lost } = &self.counts;
        let ends = [("answered", answered), ("gone", gone), ("unreachable", unreachable), ("lost", lost)];
        ClusterGauges {
            is_member: self.membership.current().is_some(),
            live: self.membership.members().iter().filter(is_live).count(),
            forwarded: ends.map(|(end, count)| ForwardCount { end, requests: count.load(Ordering::Relaxed) }),
        }
    }

    /// The session that the headers of a request or a response name.
    pub(crate) fn session_of(&self, headers: &HeaderMap) -> Option<Uuid> {
        self.sessions.named(headers).and_then(|row| row.parse().ok())
    }

    /// A member and where it is reached; `None` if it was taken over. One that is not in the last list may have joined since. Fails
    /// if the store does not say.
    pub(crate) async fn row_of(&self, member: Member) -> Result<Option<ClusterMember>, LeaseError> {
        let find = |rows: Vec<ClusterMember>| rows.into_iter().find(|row| row.member == member);
        if let Some(row) = find(self.membership.members()) {
            return Ok(Some(row));
        }
        self.membership.answer(self.membership.leases().members()).await.map(find)
    }

    /// Resolves once a member was taken over. A process that is stopped keeps its connections open and never answers.
    pub(crate) fn taken_over(&self, member: Member) -> BoxFuture<'static, ()> {
        let membership = self.membership.clone();
        Box::pin(async move {
            let mut absences = 0;
            // The first list may be older than the registration of the member.
            while absences < ABSENCES {
                tokio::time::sleep(membership.lease() / LIST_SHARE).await;
                let is_listed = membership.members().iter().any(|row| row.member == member);
                absences = if is_listed { 0 } else { absences + 1 };
            }
        })
    }

    /// Sends a request to the member that it is for.
    pub(crate) async fn send(&self, request: &ForwardedRequest, address: &PeerAddress) -> Sent {
        let sent = tokio::select! {
            sent = self.send_once(request, address) => sent,
            () = self.taken_over(request.to) => Sent::Lost,
        };
        let count = match &sent {
            Sent::Answered(_) => &self.counts.answered,
            Sent::Gone => &self.counts.gone,
            Sent::Unreachable => &self.counts.unreachable,
            Sent::Lost => &self.counts.lost,
        };
        count.fetch_add(1, Ordering::Relaxed);
        sent
    }

    /// Sends it. A process that is ending may cut connections before it refuses them: then nothing was sent, and it is tried again.
    async fn send_once(&self, request: &ForwardedRequest, address: &PeerAddress) -> Sent {
        let mut pauses = CUT_PAUSES.iter();
        loop {
            let Some(written) = request.to_http() else { return Sent::Unreachable };
            let error = match self.tls.send(address.host(), address.port(), written).await {
                Ok(answer) if answer.response.status() == StatusCode::MISDIRECTED_REQUEST => return Sent::Gone,
                Ok(answer) if answer.response.headers().contains_key(REFUSED) => {
                    let status = answer.response.status();
                    tracing::warn!(member = %request.to, %status, "another gateway has refused a forwarded request");
                    return Sent::Unreachable;
                }
                Ok(answer) => return Sent::Answered(Box::new(answer)),
                Err(error) => error,
            };
            if error.is_cut_in_handshake()
                && let Some(pause) = pauses.next()
            {
                tokio::time::sleep(*pause).await;
                continue;
            }
            report(request.to, &error);
            return match &error {
                error if error.is_refused() => Sent::Gone,
                PeerError::Lost { .. } => Sent::Lost,
                PeerError::Unreachable { .. } | PeerError::Unproven { .. } => Sent::Unreachable,
            };
        }
    }
}

/// Says to the operator why a gateway has not answered. A program without the key at its address is an error.
fn report(member: Member, error: &PeerError) {
    match error {
        PeerError::Unproven { .. } if !error.is_cut_in_handshake() => {
            tracing::error!(%member, %error, "a request was not forwarded");
        }
        error => tracing::warn!(%member, %error, "a request was not forwarded, or its answer is lost"),
    }
}

/// The error for a request whose outcome is unknown.
pub(super) fn unknown(id: Option<&Id>) -> Bytes {
    let message = Delivery::Unknown.said_after("the gateway that has this call was lost");
    let data = json!({ "outcome": Delivery::Unknown.as_str() });
    compose::error(id, &RpcError::with_data(RpcError::INTERNAL, &message, data))
}

/// A request that was forwarded and has no answer. A client that has an id for it reads the error.
pub(crate) fn outcome_unknown(id: Option<&Id>) -> Response<ResponseBody> {
    match id {
        Some(id) => reply::message(StatusCode::OK, unknown(Some(id))),
        None => reply::message(StatusCode::BAD_GATEWAY, unknown(None)),
    }
}

/// A request that was not sent, and may be repeated.
pub(crate) fn not_sent(id: Option<&Id>, problem: &str) -> Response<ResponseBody> {
    let message = Delivery::NotSent.said_after(problem);
    let data = json!({ "outcome": Delivery::NotSent.as_str() });
    let error = compose::error(id, &RpcError::with_data(RpcError::INTERNAL, &message, data));
    let mut response = reply::message(StatusCode::SERVICE_UNAVAILABLE, error);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
    response
}
