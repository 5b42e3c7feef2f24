//! Sessions that two gateways share: the second rebuilds what began at the first, and an end holds at both.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::json;
use toolway_wire::{
    cluster_key::{ClusterKey, ClusterKeys},
    down::{
        DownstreamOptions, SessionChanges, SessionReply, SessionRow, SessionRows, SessionRowsUnavailable,
        SharedSessions, SubscriptionChange, http::Principal,
    },
};

use crate::{
    raw_clients::{RawHttpClient, call, initialize, notification, posting, request},
    test_service::TestService,
};

/// Rows that both gateways reach.
#[derive(Debug, Default)]
struct Rows {
    rows: Mutex<BTreeMap<String, SessionRow>>,
    is_away: Mutex<bool>,
}

impl Rows {
    /// The row of the only session.
    fn only(&self) -> SessionRow {
        self.rows.lock().values().next().cloned().unwrap()
    }

    fn reply<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut BTreeMap<String, SessionRow>) -> T,
    ) -> SessionReply<'_, T> {
        let reply = if *self.is_away.lock() { Err(SessionRowsUnavailable) } else { Ok(act(&mut self.rows.lock())) };
        Box::pin(std::future::ready(reply))
    }
}

impl SessionRows for Rows {
    fn begin(&self, id: &str, row: SessionRow) -> SessionReply<'_, ()> {
        self.reply(|rows| drop(rows.insert(id.to_owned(), row)))
    }

    fn find(&self, id: &str, _: Duration) -> SessionReply<'_, Option<SessionRow>> {
        self.reply(|rows| rows.get(id).cloned())
    }

    fn change(&self, id: &str, changes: SessionChanges) -> SessionReply<'_, bool> {
        self.reply(|rows| {
            let Some(row) = rows.get_mut(id) else { return false };
            row.log_level = changes.log_level.or(row.log_level);
            for (uri, change) in changes.subscriptions {
                match change {
                    SubscriptionChange::Added => row.subscriptions.insert(uri),
                    SubscriptionChange::Removed => row.subscriptions.remove(&uri),
                };
            }
            true
        })
    }

    fn end(&self, id: &str) -> SessionReply<'_, ()> {
        self.reply(|rows| drop(rows.remove(id)))
    }
}

fn key(text: &str) -> ClusterKey {
    ClusterKey::new(&text.repeat(32)).unwrap()
}

fn gateway(rows: &Arc<Rows>, keys: &ClusterKeys) -> RawHttpClient {
    let shared = SharedSessions::new(Arc::clone(rows) as Arc<dyn SessionRows>, keys).unwrap();
    let options = DownstreamOptions { shared_sessions: Some(shared), ..DownstreamOptions::default() };
    RawHttpClient::with(TestService::new(), options)
}

/// Two gateways over the same rows.
struct Pair {
    rows: Arc<Rows>,
    first: RawHttpClient,
    second: RawHttpClient,
}

fn pair() -> Pair {
    let rows = Arc::new(Rows::default());
    let keys = ClusterKeys::only(key("a"));
    Pair { first: gateway(&rows, &keys), second: gateway(&rows, &keys), rows }
}

async fn status(gateway: &RawHttpClient, session: &str) -> StatusCode {
    gateway.post(&[("mcp-session-id", session)], &request(7, "ping", json!({}))).await.status
}

async fn delete(gateway: &RawHttpClient, session: &str) -> StatusCode {
    let request = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
    gateway.0.respond(request.body(Full::<Bytes>::default()).unwrap()).await.status()
}

#[tokio::test]
async fn session_goes_on_at_another_gateway_with_what_its_client_has_set() {
    let Pair { rows, first, second } = pair();
    let session = first.session("2025-11-25").await;
    let own = [("mcp-session-id", session.as_str())];
    assert_eq!(first.post(&own, &notification("notifications/initialized", json!({}))).await.status, 202);
    first.post(&own, &request(1, "logging/setLevel", json!({ "level": "error" }))).await;
    first.post(&own, &request(2, "resources/subscribe", json!({ "uri": "memo://one" }))).await;
    let level = rows.only().log_level;
    assert!(level.is_some());

    let echoed = second.post(&own, &call(3, "echo")).await;
    assert_eq!(echoed.status, 200, "{}", echoed.text);
    // Neither gateway undoes what was set at the other.
    second.post(&own, &request(4, "resources/subscribe", json!({ "uri": "memo://two" }))).await;
    first.post(&own, &request(5, "resources/unsubscribe", json!({ "uri": "memo://one" }))).await;
    let kept = rows.only();
    assert_eq!(kept.subscriptions.iter().collect::<Vec<_>>(), ["memo://two"]);
    assert_eq!(kept.log_level, level);
}

#[tokio::test]
async fn session_is_rebuilt_only_for_its_principal() {
    let Pair { first, second, .. } = pair();
    let post = |session: Option<&str>, principal: &str| {
        let request = posting().extension(Principal(Arc::from(principal)));
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    };
    let begun = first.send(post(None, "ada"), initialize("2025-11-25").to_string()).await;
    let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let ping = request(1, "ping", json!({})).to_string();
    assert_eq!(second.send(post(Some(&session), "bob"), ping.clone()).await.status, 404);
    assert_eq!(second.send(post(Some(&session), "ada"), ping.clone()).await.status, 200);
    assert_eq!(second.send(post(Some(&session), "bob"), ping).await.status, 404);
}

#[tokio::test]
async fn session_that_was_deleted_elsewhere_is_not_rebuilt() {
    let Pair { first, second, .. } = pair();
    let session = first.session("2025-11-25").await;
    assert_eq!(delete(&second, &session).await, 200);
    assert_eq!(status(&second, &session).await, 404);
    // The first learns it when it writes the row.
    let own = [("mcp-session-id", session.as_str())];
    first.post(&own, &request(1, "logging/setLevel", json!({ "level": "error" }))).await;
    assert_eq!(status(&first, &session).await, 404);
}

#[tokio::test]
async fn ids_that_were_not_sealed_by_the_cluster_ask_no_store() {
    let Pair { rows, first, .. } = pair();
    *rows.is_away.lock() = true;
    let foreign = gateway(&Arc::default(), &ClusterKeys::only(key("b"))).session("2025-11-25").await;
    for id in ["0123456789abcdef0123456789abcdef", &foreign, "", &"A".repeat(100_000)] {
        assert_eq!(status(&first, id).await, 404, "{id:.80}");
    }
}

#[tokio::test]
async fn sessions_survive_a_change_of_the_key() {
    let rows = Arc::new(Rows::default());
    let session = gateway(&rows, &ClusterKeys::only(key("a"))).session("2025-11-25").await;
    let changing = ClusterKeys { current: key("b"), accepted: Some(key("a")) };
    assert_eq!(status(&gateway(&rows, &changing), &session).await, 200);
    assert_eq!(status(&gateway(&rows, &ClusterKeys::only(key("b"))), &session).await, 404);
}

#[tokio::test]
async fn without_its_rows_a_gateway_says_when_to_ask_again() {
    let Pair { rows, first, second } = pair();
    let session = first.session("2025-11-25").await;
    *rows.is_away.lock() = true;
    assert_eq!(status(&first, &session).await, 200, "a session that is here goes on");
    assert_eq!(status(&second, &session).await, 503, "and one elsewhere is not said to be gone");
    let refused = first.post(&[], &initialize("2025-11-25")).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.headers["retry-after"], "2");
    assert_eq!(delete(&first, &session).await, 503);
}

#[tokio::test]
async fn declaration_that_no_row_has_room_for_is_refused() {
    let Pair { first, rows, .. } = pair();
    let mut begin = initialize("2025-11-25");
    begin["params"]["capabilities"]["experimental"] = json!({ "x": { "text": "x".repeat(2048) } });
    let refused = first.post(&[], &begin).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("larger than 2048 bytes"), "{}", refused.text);
    assert!(rows.rows.lock().is_empty());
}
