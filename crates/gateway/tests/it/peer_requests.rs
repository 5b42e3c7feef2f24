//! What other gateways may ask, and what a program may ask that has the key of the cluster but says what is not so.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use toolway_config::Secret;
use toolway_gateway::cluster::ForwardedRequest;
use toolway_host::cluster::{GatewayId, Member, MemberGeneration};
use toolway_testkit::{fixture_server::FixtureServer, test_host::within};
use toolway_wire::{budget::MemoryBudget, limit::Limits, peer::PeerTls};
use uuid::Uuid;

use crate::{
    cluster_gateways::{ClusterGateway, TestCluster, cluster_keys},
    raw_client::{RawClient, request},
};

/// Fingerprint of a key.
fn mark(key: &Secret) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.expose().as_bytes());
    URL_SAFE_NO_PAD.encode(&digest.as_ref()[..16])
}

/// A gateway with a session of Ada.
struct Scene {
    cluster: TestCluster,
    home: ClusterGateway,
    ada: RawClient,
}

async fn scene() -> Scene {
    scene_within(Limits::default()).await
}

async fn scene_within(limits: Limits) -> Scene {
    let mut cluster = TestCluster::new();
    cluster.limits = limits;
    let home = cluster.gateway(FixtureServer::new("files").tool("echo", "Repeat")).await;
    let ada = home.client(&cluster.keys[0]).start_session().await;
    Scene { cluster, home, ada }
}

impl Scene {
    /// A call in the session of Ada, as an honest gateway forwards it.
    fn honest(&self) -> ForwardedRequest {
        let call = request(1, "tools/call", json!({ "name": "files__echo", "arguments": {} }));
        let headers = [
            (header::CONTENT_TYPE.as_str(), "application/json"),
            ("mcp-session-id", self.ada.session()),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()));
        ForwardedRequest {
            from: Member { gateway: GatewayId(Uuid::now_v7()), generation: MemberGeneration(99) },
            to: self.home.member(),
            caller: "ada".to_owned(),
            identity: self.identity("ada"),
            key: mark(&self.cluster.keys[0]),
            session: Some(self.cluster.sessions.ids()[0]),
            method: Method::POST,
            path: "/mcp".to_owned(),
            headers: HeaderMap::from_iter(headers),
            body: Bytes::from(call.to_string()),
        }
    }

    /// Name and fingerprint, which another gateway has from the same keys.
    fn identity(&self, name: &str) -> String {
        let key = &self.cluster.keys[usize::from(name == "bob")];
        format!("{name} {}", mark(key))
    }

    /// The same request, of Bob.
    fn of_bob(&self, request: &ForwardedRequest) -> ForwardedRequest {
        let (identity, key) = (self.identity("bob"), mark(&self.cluster.keys[1]));
        ForwardedRequest { caller: "bob".to_owned(), identity, key, ..request.clone() }
    }

    async fn send(&self, request: &ForwardedRequest) -> (StatusCode, Value) {
        let tls = PeerTls::new(&cluster_keys()).unwrap();
        let written = request.to_http::<Full<Bytes>>().unwrap();
        let answer = tls.send("127.0.0.1", self.home.peers.port(), written).await.unwrap();
        let status = answer.response.status();
        let body = answer.response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

#[tokio::test]
async fn an_honest_gateway_is_answered() {
    let scene = scene().await;
    let (status, answer) = scene.send(&scene.honest()).await;
    assert_eq!((status, &answer["result"]["isError"]), (StatusCode::OK, &json!(false)), "{answer}");
    assert_eq!(scene.home.calls(), 1);
}

#[tokio::test]
async fn a_forwarded_body_counts_for_its_client() {
    let memory = MemoryBudget::new(1024 * 1024);
    let scene = scene_within(Limits { memory: memory.clone(), ..Limits::default() }).await;
    let most = |name| memory.of_principal(name).charge(400 * 1024).unwrap();
    let ada = ForwardedRequest { body: Bytes::from(vec![b' '; 200 * 1024]), ..scene.honest() };
    let bob = scene.of_bob(&ada);
    let eve = ForwardedRequest { caller: "eve".to_owned(), ..ada.clone() };
    let of_gateways = most("(gateway)");
    assert_eq!(scene.send(&ada).await.0, StatusCode::BAD_REQUEST, "its body is read, and is no message");
    drop(of_gateways);
    let _of_ada = most("ada");
    assert_eq!(scene.send(&ada).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(scene.send(&bob).await.0, StatusCode::BAD_REQUEST, "another client");
    assert_eq!(scene.send(&eve).await.0, StatusCode::UNAUTHORIZED, "an unknown client");
}

#[tokio::test]
async fn the_session_of_another_client_is_not_opened() {
    let scene = scene().await;
    let honest = scene.honest();
    let bob = scene.of_bob(&honest);
    let cases = [
        (bob.clone(), StatusCode::NOT_FOUND, "a stolen id"),
        (ForwardedRequest { method: Method::DELETE, ..bob.clone() }, StatusCode::NOT_FOUND, "its end"),
        (ForwardedRequest { method: Method::GET, ..bob.clone() }, StatusCode::NOT_FOUND, "its stream"),
        (ForwardedRequest { path: "/servers/files/mcp".to_owned(), ..bob }, StatusCode::NOT_FOUND, "at another path"),
        (
            ForwardedRequest { caller: "bob".to_owned(), ..honest },
            StatusCode::UNAUTHORIZED,
            "the name of one and the key of another",
        ),
    ];
    for (request, expected, what) in cases {
        assert_eq!(scene.send(&request).await.0, expected, "{what}");
    }
    assert_eq!((scene.home.calls(), scene.cluster.sessions.ids().len()), (0, 1));
    let answer = scene.ada.post(&request(2, "tools/call", json!({ "name": "files__echo", "arguments": {} }))).await;
    assert_eq!(answer.status, 200, "the session goes on");
}

#[tokio::test]
async fn forged_heads_are_refused() {
    let scene = scene().await;
    let honest = scene.honest();
    let mut two_sessions = honest.headers.clone();
    two_sessions.append("mcp-session-id", HeaderValue::from_str(scene.ada.session()).unwrap());
    let mut no_session = honest.headers.clone();
    no_session.remove("mcp-session-id");
    let cases = [
        (ForwardedRequest { session: Some(Uuid::from_u128(9)), ..honest.clone() }, "another session in the head"),
        (ForwardedRequest { session: None, ..honest.clone() }, "no session in the head"),
        (ForwardedRequest { headers: two_sessions, ..honest.clone() }, "two sessions of the client"),
        (ForwardedRequest { headers: no_session, ..honest.clone() }, "no session of the client"),
        (ForwardedRequest { caller: "a".repeat(600), ..honest.clone() }, "a name that is too long"),
    ];
    for (request, what) in cases {
        assert_eq!(scene.send(&request).await.0, StatusCode::BAD_REQUEST, "{what}");
    }
    for path in ["/metrics", "/requests", "/roots", "/sse", "/unknown"] {
        let request = ForwardedRequest { path: path.to_owned(), ..honest.clone() };
        assert_eq!(scene.send(&request).await.0, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(scene.home.calls(), 0);
}

#[tokio::test]
async fn a_credential_of_a_client_is_not_forwarded() {
    let headers = [
        ("authorization", "Bearer secret"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "10.0.0.1"),
        ("proxy-authorization", "Basic secret"),
        ("toolway-caller", "root"),
        ("mcp-session-id", "s"),
        ("mcp-param-region", "eu"),
    ];
    let headers = headers.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    let chosen = ForwardedRequest::chosen(&HeaderMap::from_iter(headers));
    let names: Vec<&str> = chosen.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(names, ["mcp-session-id", "mcp-param-region"]);
}

#[tokio::test]
async fn a_key_that_is_revoked_here_is_refused_although_another_gateway_accepts_it() {
    let scene = scene().await;
    let honest = scene.honest();
    let rotated = ForwardedRequest { identity: "ada AAAAAAAAAAAAAAAAAAAAAA".to_owned(), ..honest.clone() };
    let unknown = ForwardedRequest { caller: "eve".to_owned(), identity: scene.identity("ada"), ..honest.clone() };
    let nameless = ForwardedRequest { identity: "ada".to_owned(), ..honest.clone() };
    for (request, what) in [(rotated, "another key"), (unknown, "another name"), (nameless, "no key")] {
        assert_eq!(scene.send(&request).await.0, StatusCode::UNAUTHORIZED, "{what}");
    }
    scene.cluster.file.revoke("ada").unwrap();
    let began = std::time::Instant::now();
    while scene.send(&honest).await.0 != StatusCode::UNAUTHORIZED {
        assert!(began.elapsed().as_secs() < 10, "a revoked key is accepted");
    }
    let calls = scene.home.calls();
    scene.cluster.file.add("ada", None, None).unwrap();
    assert_eq!(scene.send(&honest).await.0, StatusCode::UNAUTHORIZED, "a new key of the same name");
    assert_eq!(scene.home.calls(), calls);
}

#[tokio::test]
async fn a_key_that_was_rotated_out_here_is_refused_although_another_gateway_accepts_it() {
    let scene = scene().await;
    let before = scene.honest();
    let new = scene.cluster.file.rotate("ada", Duration::from_secs(600)).unwrap();
    let after = ForwardedRequest { key: mark(&new), ..before.clone() };
    let accepted = async {
        while scene.send(&after).await.0 == StatusCode::UNAUTHORIZED {
            tokio::task::yield_now().await;
        }
    };
    within("the new key", accepted).await;
    assert_ne!(scene.send(&before).await.0, StatusCode::UNAUTHORIZED, "both are accepted during the overlap");
    let newest = scene.cluster.file.rotate("ada", Duration::ZERO).unwrap();
    let refused = async {
        while scene.send(&before).await.0 != StatusCode::UNAUTHORIZED {
            tokio::task::yield_now().await;
        }
    };
    within("the end of the old key", refused).await;
    assert_eq!(scene.send(&after).await.0, StatusCode::UNAUTHORIZED);
    let newest = ForwardedRequest { key: mark(&newest), ..before };
    assert_ne!(scene.send(&newest).await.0, StatusCode::UNAUTHORIZED, "the same client");
}

#[tokio::test]
async fn what_was_forwarded_is_never_forwarded_again() {
    let scene = scene().await;
    let other = scene.cluster.gateway(FixtureServer::new("files").tool("echo", "Repeat")).await;
    let honest = scene.honest();
    let generation = MemberGeneration(scene.home.member().generation.0 + 100);
    let cases = [
        (other.peers, other.member(), "a gateway that is not the home"),
        (scene.home.peers, other.member(), "another member"),
        (scene.home.peers, Member { generation, ..scene.home.member() }, "another generation"),
        (scene.home.peers, Member { gateway: GatewayId(Uuid::now_v7()), ..scene.home.member() }, "another process"),
        (other.peers, scene.home.member(), "the home, at the address of another"),
    ];
    let tls = PeerTls::new(&cluster_keys()).unwrap();
    for (address, to, what) in cases {
        let request = ForwardedRequest { to, ..honest.clone() }.to_http::<Full<Bytes>>().unwrap();
        let answer = tls.send("127.0.0.1", address.port(), request).await.unwrap();
        assert_eq!(answer.response.status(), StatusCode::MISDIRECTED_REQUEST, "{what}");
    }
    assert_eq!((scene.home.calls(), other.calls()), (0, 0));
}
