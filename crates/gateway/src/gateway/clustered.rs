//! Where an MCP request is answered if there are several gateways: at the home of its session. What another gateway forwards is
//! answered here or refused, and never forwarded again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, request};
use toolway_host::cluster::{Member, PeerAddress};
use toolway_wire::{
    down::http::{BodyError, Incoming, ResponseBody, read_body},
    header as mcp,
    message::{Envelope, Id, MessageKind},
    revision::{Era, Revision},
};
use uuid::Uuid;

use super::Gateway;
use crate::{
    access::{Client, Unauthenticated},
    cluster::{
        ForwardedRequest, MemberEffects, PeerService,
        forwarded_request::member,
        forwarding::{Cluster, Sent, not_sent, outcome_unknown},
        homes::{HomeUnknown, SessionHome},
        relaying::{RelayBounds, relayed},
    },
    reply,
    route::Route,
};

/// How often a request looks for the home of its session: it may have moved once, and be taken over then.
const ATTEMPTS: usize = 3;
/// Maximum time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// What a client is told while the home of its session cannot be reached.
const UNREACHABLE: &str = "the gateway that has this session cannot be reached now";
/// What a client is told while this gateway has no valid lease.
const NO_MEMBER: &str = "this gateway cannot serve calls and sessions now";

/// A request whose session is elsewhere, as it is sent there.
struct Departing {
    request: ForwardedRequest,
    session: Uuid,
    /// Of a request that expects an answer.
    id: Option<Id>,
}

impl Gateway {
    /// Answers an MCP request here, or at the home of its session.
    pub(super) async fn serve_in_cluster(
        &self,
        cluster: &Cluster,
        route: &Route,
        client: &Client,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let Some(session) = cluster.session_of(request.headers()) else {
            if is_stateless(request.headers()) {
                return self.serve_stateless(cluster, route, client, request).await;
            }
            let response = self.serve_mcp(route, client, request).await;
            return self.settle(cluster, response).await;
        };
        match cluster.homes.find(session).await {
            Ok(SessionHome::Here) => {
                let response = self.serve_mcp(route, client, request).await;
                self.release_unknown(cluster, session, response).await
            }
            Ok(home) => {
                // It may have been here before.
                self.release_session(session);
                match self.departing(cluster, session, client, request).await {
                    Ok(departing) => self.forward(cluster, home, route, client, departing).await,
                    Err(refusal) => refusal,
                }
            }
            Err(problem) => home_unknown(&problem, None),
        }
    }

    /// Answers a request of a stateless client here, or where the call is parked that it continues.
    async fn serve_stateless(
        &self,
        cluster: &Cluster,
        route: &Route,
        client: &Client,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        let body = match self.read(client, body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let envelope = Envelope::read(body.clone(), &self.downstream.limits).ok();
        let holder = envelope.as_ref().and_then(|envelope| self.holder_of(envelope));
        let id = envelope.as_ref().and_then(Envelope::id).cloned();
        // What begins now would be closed as unknown by the takeover of the member that it was begun as.
        let Some(own) = cluster.membership.current() else { return not_sent(id.as_ref(), NO_MEMBER) };
        if let Some(holder) = holder.filter(|holder| *holder != own) {
            let row = match cluster.row_of(holder).await {
                Ok(Some(row)) => row,
                // A call whose gateway is gone has ended with it.
                Ok(None) => return outcome_unknown(id.as_ref()),
                Err(problem) => return home_unknown(&problem.into(), id.as_ref()),
            };
            let request = ForwardedRequest { to: holder, ..forwarded(own, None, client, &parts, body) };
            return match cluster.send(&request, &row.address).await {
                Sent::Answered(answer) => relayed(*answer, id, self.bounds(client), cluster.taken_over(holder)).await,
                Sent::Gone | Sent::Lost => outcome_unknown(id.as_ref()),
                Sent::Unreachable => not_sent(id.as_ref(), "the gateway that has this call cannot be reached now"),
            };
        }
        self.serve_mcp(route, client, Request::from_parts(parts, ResponseBody::whole(body))).await
    }

    /// The member that has the parked call which a request continues.
    fn holder_of(&self, envelope: &Envelope) -> Option<Member> {
        member(&self.all_servers.holder_of_parked(envelope)?)
    }

    /// Makes this gateway the home of a session that has begun here.
    async fn settle(&self, cluster: &Cluster, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let Some(session) = cluster.session_of(response.headers()) else { return response };
        match cluster.homes.find(session).await {
            Ok(_) => response,
            Err(problem) => home_unknown(&problem, None),
        }
    }

    /// A session that has ended has no home.
    async fn release_unknown(
        &self,
        cluster: &Cluster,
        session: Uuid,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if response.status() == StatusCode::NOT_FOUND {
            cluster.homes.release(session).await;
        }
        response
    }

    async fn departing(
        &self,
        cluster: &Cluster,
        session: Uuid,
        client: &Client,
        request: Request<Incoming>,
    ) -> Result<Departing, Response<ResponseBody>> {
        let Some(from) = cluster.membership.current() else { return Err(not_sent(None, NO_MEMBER)) };
        let (parts, body) = request.into_parts();
        let body = self.read(client, body).await?;
        let id = match parts.method {
            Method::POST => request_id(&body, self),
            _ => None,
        };
        Ok(Departing { request: forwarded(from, Some(session), client, &parts, body), session, id })
    }

    /// What is kept here of a response to this client that another gateway sends. A result that was rewritten there may be longer
    /// than one message.
    fn bounds(&self, client: &Client) -> RelayBounds {
        let limits = &self.downstream.limits;
        let body_bytes = limits.message_bytes.saturating_mul(2);
        RelayBounds { body_bytes, memory: limits.memory.of_principal(&client.name) }
    }

    async fn read(&self, client: &Client, body: Incoming) -> Result<Bytes, Response<ResponseBody>> {
        let limits = &self.downstream.limits;
        let limit = limits.request_body_bytes.min(limits.message_bytes);
        let memory = limits.memory.of_principal(&client.name);
        let read = tokio::time::timeout(BODY_TIMEOUT, read_body(body, limit, &memory)).await;
        let refused = match read {
            Ok(Ok(body)) => return Ok(body),
            Ok(Err(error @ BodyError::TooLarge)) => reply::text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            Ok(Err(error @ BodyError::OverBudget(_))) => {
                reply::text(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            Ok(Err(error @ BodyError::Incomplete)) => reply::text(StatusCode::BAD_REQUEST, error.to_string()),
            Err(_) => reply::text(StatusCode::REQUEST_TIMEOUT, "the request body was not received in time"),
        };
        Err(refused)
    }

    /// Sends a request to the home of its session. A home that is gone is replaced by this gateway.
    async fn forward(
        &self,
        cluster: &Cluster,
        home: SessionHome,
        route: &Route,
        client: &Client,
        departing: Departing,
    ) -> Response<ResponseBody> {
        let Departing { mut request, session, id } = departing;
        let mut home = home;
        for _ in 0..ATTEMPTS {
            let (member, address) = match home {
                SessionHome::Here => return self.serve_forwarded(cluster, route, client, request, session).await,
                SessionHome::At { member, address } => (member, address),
            };
            request.to = member;
            let next = match cluster.send(&request, &address).await {
                Sent::Answered(answer) => {
                    return relayed(*answer, id, self.bounds(client), cluster.taken_over(member)).await;
                }
                Sent::Lost => return outcome_unknown(id.as_ref()),
                Sent::Unreachable => return not_sent(id.as_ref(), UNREACHABLE),
                Sent::Gone => self.next_home(cluster, session, member, &address).await,
            };
            home = match next {
                Ok(next) => next,
                Err(problem) => return home_unknown(&problem, id.as_ref()),
            };
        }
        match home {
            // It has moved here with the last attempt.
            SessionHome::Here => self.serve_forwarded(cluster, route, client, request, session).await,
            SessionHome::At { .. } => not_sent(id.as_ref(), UNREACHABLE),
        }
    }

    /// The home of a session after this member was found gone: where it has moved, else here.
    async fn next_home(
        &self,
        cluster: &Cluster,
        session: Uuid,
        gone: Member,
        address: &PeerAddress,
    ) -> Result<SessionHome, HomeUnknown> {
        match cluster.homes.ask(session).await? {
            SessionHome::At { member, .. } if member == gone => {
                tracing::warn!(%session, member = %gone, %address, "taking over a session of a gateway that is gone");
                cluster.homes.take(session, gone).await
            }
            home => Ok(home),
        }
    }

    /// Answers a request that was to be forwarded, or was.
    async fn serve_forwarded(
        &self,
        cluster: &Cluster,
        route: &Route,
        client: &Client,
        request: ForwardedRequest,
        session: Uuid,
    ) -> Response<ResponseBody> {
        let Some(request) = request.into_request() else {
            return reply::text(StatusCode::BAD_REQUEST, "invalid path of a forwarded request");
        };
        let response = self.serve_mcp(route, client, request.map(ResponseBody::whole)).await;
        self.release_unknown(cluster, session, response).await
    }

    /// The client of a forwarded request, if it has the same key here.
    fn forwarded_client(&self, request: &ForwardedRequest) -> Option<Arc<Client>> {
        let client = self.access.client_with(&request.caller, &request.key)?;
        Some(client).filter(|client| *client.identity == *request.identity)
    }

    /// Answers what another gateway forwards.
    async fn serve_peer(&self, cluster: &Cluster, request: ForwardedRequest) -> Response<ResponseBody> {
        let Some(client) = self.forwarded_client(&request) else {
            return reply::unauthorized(Unauthenticated.to_string());
        };
        let route = Route::of(&request.path).filter(|route| matches!(route, Route::Mcp | Route::Server(_)));
        let Some(route) = route.filter(|route| route.is_open_to(client.scope)) else {
            return reply::text(StatusCode::FORBIDDEN, "only MCP requests of sessions are forwarded");
        };
        if request.session.is_none() && is_stateless(&request.headers) {
            return self.continue_forwarded(&route, &client, request).await;
        }
        // What it says is what the client has sent.
        let named = cluster.session_of(&request.headers);
        let Some(session) = request.session.filter(|session| named == Some(*session)) else {
            return reply::text(StatusCode::BAD_REQUEST, "the session of a forwarded request is not the client's");
        };
        self.end_revoked_namesakes(&client);
        match cluster.homes.find(session).await {
            Ok(SessionHome::Here) => {}
            Ok(SessionHome::At { .. }) => {
                self.release_session(session);
                return reply::text(StatusCode::MISDIRECTED_REQUEST, "the session is at another gateway");
            }
            Err(problem) => return home_unknown(&problem, None),
        }
        let response = tokio::select! {
            biased;
            () = client.revoked.cancelled() => reply::unauthorized(Unauthenticated.to_string()),
            response = self.serve_forwarded(cluster, &route, &client, request, session) => response,
        };
        response.map(|body| body.until(client.revoked.clone()))
    }

    /// Continues a call of a stateless client that is parked here.
    async fn continue_forwarded(
        &self,
        route: &Route,
        client: &Arc<Client>,
        request: ForwardedRequest,
    ) -> Response<ResponseBody> {
        let envelope = Envelope::read(request.body.clone(), &self.downstream.limits).ok();
        if envelope.as_ref().and_then(|envelope| self.holder_of(envelope)) != Some(request.to) {
            return reply::text(StatusCode::BAD_REQUEST, "the forwarded request continues no call of this gateway");
        }
        self.end_revoked_namesakes(client);
        let Some(request) = request.into_request() else {
            return reply::text(StatusCode::BAD_REQUEST, "invalid path of a forwarded request");
        };
        let response = tokio::select! {
            biased;
            () = client.revoked.cancelled() => reply::unauthorized(Unauthenticated.to_string()),
            response = self.serve_mcp(route, client, request.map(ResponseBody::whole)) => response,
        };
        response.map(|body| body.until(client.revoked.clone()))
    }

    /// Gives up a session that is at another gateway.
    fn release_session(&self, session: Uuid) {
        let row = session.simple().to_string();
        self.downstreams().iter().for_each(|downstream| downstream.release_sessions(Some(&row)));
    }
}

impl PeerService for Gateway {
    fn member(&self) -> Option<Member> {
        self.cluster.as_ref()?.membership.current()
    }

    fn knows(&self, head: &ForwardedRequest) -> bool {
        self.forwarded_client(head).is_some()
    }

    fn answer(&self, request: ForwardedRequest) -> BoxFuture<'_, Response<ResponseBody>> {
        Box::pin(async move {
            match &self.cluster {
                Some(cluster) => self.serve_peer(cluster, request).await,
                None => reply::text(StatusCode::MISDIRECTED_REQUEST, "this gateway is alone"),
            }
        })
    }
}

impl MemberEffects for Gateway {
    fn end_calls(&self, member: Member) {
        tracing::info!(%member, "ending the calls of this gateway and giving up its sessions");
        self.host.cancel_all_calls("the gateway has lost its lease, or stops");
        self.downstreams().iter().for_each(|downstream| downstream.release_sessions(None));
        self.cluster.iter().for_each(|cluster| cluster.homes.forget_all());
    }

    fn adopt_tasks(&self, tasks: Vec<Uuid>) {
        tracing::info!(tasks = tasks.len(), "following the tasks of a gateway that was taken over");
        self.host.adopt_taken_tasks(tasks);
    }

    fn allow_server(&self, _: &toolway_config::ServerName, _: Duration) {}

    fn end_servers(&self) {}
}

fn forwarded(
    from: Member,
    session: Option<Uuid>,
    client: &Client,
    parts: &request::Parts,
    body: Bytes,
) -> ForwardedRequest {
    ForwardedRequest {
        from,
        to: from,
        caller: client.name.to_string(),
        identity: client.identity.to_string(),
        key: client.key.to_string(),
        session,
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        headers: ForwardedRequest::chosen(&parts.headers),
        body,
    }
}

/// Whether a request is of a revision without sessions.
fn is_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get(mcp::PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    let revision = version.and_then(|version| version.parse::<Revision>().ok());
    revision.is_some_and(|revision| revision.era() == Era::Modern)
}

/// The id of a message that expects an answer.
fn request_id(body: &Bytes, gateway: &Gateway) -> Option<Id> {
    let envelope = Envelope::read(body.clone(), &gateway.downstream.limits).ok()?;
    envelope.id().filter(|_| envelope.kind() == MessageKind::Request).cloned()
}

fn home_unknown(problem: &HomeUnknown, id: Option<&Id>) -> Response<ResponseBody> {
    tracing::warn!(%problem, "a request of a session was refused");
    not_sent(id, NO_MEMBER)
}
