//! One request from its first look to its answer: who is let in, and which path leads where.

use std::{sync::Arc, time::Instant};

use http::{Method, Request, Response, StatusCode};
use toolway_config::ServerName;
use toolway_host::catalog::Freshness;
use toolway_wire::down::http::{FaceBody, Incoming};

use super::{Gateway, Oldest};
use crate::{
    access::{Client, Stranger},
    records::Answered,
    reply,
    route::{Guard, Route},
    view,
};

/// What is known of a request so far.
#[derive(Default)]
struct Visit {
    route: Option<Route>,
    client: Option<Arc<Client>>,
}

impl Gateway {
    /// Answers a request, and counts it.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<FaceBody> {
        let began = Instant::now();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let mut visit = Visit::default();
        let response = self.let_in(request, &mut visit).await;
        self.records.answered(Answered {
            caller: visit.client.map(|client| Arc::clone(&client.name)),
            method: &method,
            uri: &uri,
            route: visit.route.as_ref(),
            status: response.status(),
            took: began.elapsed(),
        });
        response
    }

    async fn let_in(&self, request: Request<Incoming>, visit: &mut Visit) -> Response<FaceBody> {
        // Before anything is looked at: a page in somebody's browser may have sent this.
        if let Err(reason) = self.guard.admit(request.headers()) {
            return reply::text(StatusCode::FORBIDDEN, reason);
        }
        let Some(route) = Route::of(request.uri().path()) else {
            return reply::text(StatusCode::NOT_FOUND, "nothing here; MCP is at /mcp");
        };
        let route = visit.route.insert(route).clone();
        let client = match route.guard() {
            Guard::Nobody => return health(&route, &request),
            Guard::Key => match self.access.admit(request.headers()) {
                Ok(client) => visit.client.insert(client).clone(),
                Err(stranger) => return reply::stranger(stranger.to_string()),
            },
        };
        self.turn_out_namesakes(&client);
        let response = tokio::select! {
            biased;
            // First: whoever is gone begins nothing more under a name that may be another's by now.
            () = client.gone.cancelled() => reply::stranger(Stranger.to_string()),
            response = self.lead(route, &client, request) => response,
        };
        response.map(|body| body.until(client.gone.clone()))
    }

    async fn lead(&self, route: Route, client: &Client, request: Request<Incoming>) -> Response<FaceBody> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        match route {
            Route::Mcp => self.whole.respond_to(&client.name, request).await,
            Route::Server(server) => self.alone(server, client, request).await,
            Route::Sse | Route::Messages if self.oldest == Oldest::TurnedAway => {
                reply::text(StatusCode::NOT_FOUND, "the oldest clients may not come in here (`gateway.sse`)")
            }
            Route::Sse if *request.method() == Method::GET => self.on_two_paths(client, request).await,
            Route::Messages if *request.method() == Method::POST => self.on_two_paths(client, request).await,
            Route::Sse | Route::Messages => reply::not_allowed(route.methods()),
            // Nothing can be changed there.
            other if !reads => reply::not_allowed(other.methods()),
            Route::Health => health(&route, &request),
            Route::Ready => view::ready(&self.host, client),
            Route::Servers => view::servers(&self.host, client, request.headers()),
            Route::Metrics => reply::figures(self.records.figures.text(&self.host, client, self.standing())),
        }
    }

    async fn on_two_paths(&self, client: &Client, request: Request<Incoming>) -> Response<FaceBody> {
        self.whole.respond_on_two_paths(&client.name, request, Route::MESSAGES).await
    }

    /// One server under its own names.
    async fn alone(&self, server: ServerName, client: &Client, request: Request<Incoming>) -> Response<FaceBody> {
        let known = client.sees(&server) && self.host.has(&server);
        if !known {
            return reply::text(StatusCode::NOT_FOUND, "there is no such server");
        }
        // What it offers is its own word: the first caller waits until it has been heard.
        if self.host.catalog().freshness_of(&server) != Some(Freshness::Verified) {
            drop(self.host.list(&server).await);
        }
        match self.face(server) {
            Ok(face) => face.respond_to(&client.name, request).await,
            Err(problem) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()),
        }
    }
}

/// Somebody is there, and nothing more is said.
fn health(route: &Route, request: &Request<Incoming>) -> Response<FaceBody> {
    match *request.method() {
        Method::GET | Method::HEAD => reply::text(StatusCode::OK, "ok"),
        _ => reply::not_allowed(route.methods()),
    }
}
