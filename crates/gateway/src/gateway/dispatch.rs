//! Handles one HTTP request: checks `Host` and `Origin`, authenticates the client, and dispatches by route.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use toolway_config::ServerName;
use toolway_host::catalog::Freshness;
use toolway_wire::down::http::{Body, Incoming, PeerConnection, ResponseBody};

use super::{Gateway, SseTransport};
use crate::{
    access::{Access, Client, Unauthenticated},
    client_roots,
    records::CompletedRequest,
    reply, requests,
    route::{self, Guard, Route},
    view,
};

/// Route and client of a request, as far as they are known, for the access log.
#[derive(Default)]
struct RequestInfo {
    route: Option<Route>,
    client: Option<Arc<Client>>,
    /// Why it is refused, for the operator.
    refusal: Option<String>,
}

impl Gateway {
    /// Answers a request and records it.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &PeerConnection,
    ) -> Response<ResponseBody> {
        let began = Instant::now();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let mut info = RequestInfo::default();
        let response = self.authorize(request, connection, &mut info).await;
        self.records.record_request(CompletedRequest {
            caller: info.client.map(|client| Arc::clone(&client.name)),
            method: &method,
            uri: &uri,
            route: info.route.as_ref(),
            status: response.status(),
            took: began.elapsed(),
            peer: connection.peer().ip(),
            refusal: info.refusal,
        });
        response
    }

    async fn authorize(
        &self,
        request: Request<Incoming>,
        connection: &PeerConnection,
        info: &mut RequestInfo,
    ) -> Response<ResponseBody> {
        // Checked first: a web page in a browser may have sent this request.
        if let Err(refusal) = self.guard.admit(request.headers()) {
            info.refusal = Some(refusal.for_operator(request.headers()));
            return reply::text(refusal.status, refusal.reason);
        }
        let Some(route) = Route::of(request.uri().path()) else {
            return match &*self.access {
                Access::Keys(_) if route::is_oauth(request.uri().path()) => reply::no_oauth(),
                _ => reply::text(StatusCode::NOT_FOUND, "not found; the MCP endpoint is `/mcp`"),
            };
        };
        let route = info.route.insert(route).clone();
        let client = match route.guard() {
            Guard::Open => return health(&route, &request),
            Guard::Key => match self.access.admit(request.headers()) {
                Ok(client) => info.client.insert(client).clone(),
                Err(error) => {
                    info.refusal = Some(no_key(request.headers()));
                    return reply::unauthorized(error.to_string());
                }
            },
        };
        if let Err(error) = connection.authenticated(&client.name) {
            info.refusal = Some(error.to_string());
            return reply::text(StatusCode::TOO_MANY_REQUESTS, error.to_string());
        }
        if !route.is_open_to(client.scope) {
            let problem = "this key opens `/metrics`, `/ready` and `/health` only";
            info.refusal = Some(format!("{problem}; see `toolway clients list`"));
            return reply::text(StatusCode::FORBIDDEN, problem);
        }
        self.end_revoked_namesakes(&client);
        let response = tokio::select! {
            biased;
            // First: a revoked client must not start anything under a name that may belong to another key by now.
            () = client.revoked.cancelled() => reply::unauthorized(Unauthenticated.to_string()),
            response = self.dispatch(route, &client, request) => response,
        };
        response.map(|body| body.until(client.revoked.clone()))
    }

    async fn dispatch(&self, route: Route, client: &Client, request: Request<Incoming>) -> Response<ResponseBody> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        match route {
            Route::Mcp | Route::Server(_) => match &self.cluster {
                Some(cluster) => self.serve_in_cluster(cluster, &route, client, request).await,
                None => self.serve_mcp(&route, client, request).await,
            },
            Route::Sse | Route::Messages if self.sse == SseTransport::Disabled => {
                reply::text(StatusCode::NOT_FOUND, "HTTP+SSE clients are disabled (`gateway.sse`)")
            }
            Route::Sse if *request.method() == Method::GET => self.serve_sse(client, request).await,
            Route::Messages if *request.method() == Method::POST => self.serve_sse(client, request).await,
            Route::Sse | Route::Messages => reply::not_allowed(route.methods()),
            // All anonymous clients have one name: none may see or answer what waits for another one.
            Route::Requests | Route::Request(_) if self.access.is_open() => {
                reply::text(StatusCode::FORBIDDEN, "requests of servers are shown to clients with a key")
            }
            Route::Requests if *request.method() == Method::GET => tokio::select! {
                response = self.polls.list(&self.host, client, request.uri().query()) => response,
                () = self.draining.cancelled() => reply::text(StatusCode::SERVICE_UNAVAILABLE, "shutting down"),
            },
            Route::Request(id) if *request.method() == Method::POST => {
                requests::answer(&self.host, client, &id, request, &self.downstream.limits.memory).await
            }
            Route::Requests | Route::Request(_) => reply::not_allowed(route.methods()),
            Route::Roots if self.access.is_open() => {
                reply::text(StatusCode::FORBIDDEN, "roots are kept for clients with a key")
            }
            Route::Roots if matches!(*request.method(), Method::GET | Method::PUT) => {
                client_roots::answer(&self.host, client, request, &self.downstream.limits.memory).await
            }
            Route::Roots => reply::not_allowed(route.methods()),
            // The remaining routes are read-only.
            other if !reads => reply::not_allowed(other.methods()),
            Route::Health => health(&route, &request),
            Route::Ready => view::ready(&self.host, client, self.cluster.as_ref().map(|cluster| &cluster.membership)),
            Route::Servers => view::servers(&self.host, client, request.headers()),
            Route::Metrics => reply::metrics(self.records.metrics_text(&self.host, client, &self.gauges())),
        }
    }

    async fn serve_sse(&self, client: &Client, request: Request<Incoming>) -> Response<ResponseBody> {
        self.all_servers.respond_http_sse(&client.name, request, Route::MESSAGES).await
    }

    /// Serves `/mcp` and `/servers/<id>/mcp` from this process.
    pub(super) async fn serve_mcp<B>(
        &self,
        route: &Route,
        client: &Client,
        request: Request<B>,
    ) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match route {
            Route::Server(server) => self.serve_one(server, client, request).await,
            _ => self.all_servers.respond_to(&client.name, request).await,
        }
    }

    /// Serves `/servers/<id>/mcp`: one server under its own names.
    async fn serve_one<B>(&self, server: &ServerName, client: &Client, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let known = client.sees(server) && self.host.has(server);
        if !known {
            return reply::text(StatusCode::NOT_FOUND, "unknown server");
        }
        // Capabilities come from the server itself: the first caller waits for its listing.
        if self.host.catalog().freshness_of(server) != Some(Freshness::Verified) {
            drop(self.host.list(server).await);
        }
        match self.downstream(server) {
            Ok(downstream) => downstream.respond_to(&client.name, request).await,
            Err(problem) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()),
        }
    }
}

/// What is wrong with the key of a request. The client is not told which.
fn no_key(headers: &HeaderMap) -> String {
    let problem = if headers.contains_key(header::AUTHORIZATION) {
        "the key is unknown, revoked or expired"
    } else {
        "the request has no key"
    };
    format!("{problem}; see `toolway clients list`")
}

/// Liveness only; reveals nothing else.
fn health(route: &Route, request: &Request<Incoming>) -> Response<ResponseBody> {
    match *request.method() {
        Method::GET | Method::HEAD => reply::text(StatusCode::OK, "ok"),
        _ => reply::not_allowed(route.methods()),
    }
}
