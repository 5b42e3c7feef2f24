//! One-time tokens and cookies.

use std::time::Duration;

use crate::stage::{Stage, send};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn link_signs_one_browser_in_once() {
    let stage = Stage::new(&[]).await;
    let link = stage.link();
    let first = stage.get(&link).await;
    assert_eq!(first.status, 303);
    assert!(first.header("location").unwrap().starts_with("/#key="), "{}", first.head);
    let cookie = first.header("set-cookie").unwrap();
    for part in ["SameSite=Strict", "HttpOnly", "Path=/api/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let again = stage.get(&link).await;
    assert_eq!(again.status, 403);
    assert!(again.body.contains("toolway console") && again.header("set-cookie").is_none());
}

#[tokio::test]
async fn unknown_and_expired_tokens_are_refused() {
    let stage = Stage::new(&[]).await;
    for path in ["/login", "/login?token=", "/login?token=guess", "/login?other=x"] {
        assert_eq!(stage.get(path).await.status, 403, "{path}");
    }
    let stage = Stage::with_lifetimes(Duration::ZERO, HOUR).await;
    assert_eq!(stage.get(&stage.link()).await.status, 403);
}

#[tokio::test]
async fn cookie_expires() {
    let stage = Stage::with_lifetimes(HOUR, Duration::ZERO).await;
    let reply = stage.get(&stage.link()).await;
    let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap();
    let head = format!("GET /api/v1/session HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n", stage.address);
    assert_eq!(send(&stage.address, &head, "").await.status, 401);
}

#[tokio::test]
async fn a_foreign_host_or_origin_does_not_spend_the_token() {
    let stage = Stage::new(&[]).await;
    let (link, address) = (stage.link(), &stage.address);
    let evil = format!("GET {link} HTTP/1.1\r\nHost: evil.example\r\n");
    assert_eq!(send(address, &evil, "").await.status, 403);
    let evil = format!("GET {link} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://evil.example\r\n");
    assert_eq!(send(address, &evil, "").await.status, 403);
    let head = format!("HEAD {link} HTTP/1.1\r\nHost: {address}\r\n");
    assert_eq!(send(address, &head, "").await.status, 404, "a preview does not spend it either");
    assert_eq!(stage.get(&link).await.status, 303);
}

#[tokio::test]
async fn each_browser_has_its_own_session() {
    let stage = Stage::new(&[]).await;
    let (one, other) = (stage.browser().await, stage.browser().await);
    assert!(one.cookie != other.cookie && one.csrf != other.csrf);
    let mixed = crate::stage::Browser { csrf: other.csrf.clone(), ..one.clone() };
    assert_eq!(mixed.post("/api/v1/chat/x/cancel", &serde_json::json!({})).await.status, 403);
    let session = one.json("/api/v1/session").await;
    assert_eq!((&session["version"], &session["store"]), (&"0.1.0".into(), &true.into()));
    let with_token = |csrf: &str| {
        let cookie = format!("{}\r\nx-toolway-csrf: {csrf}", one.cookie);
        crate::stage::Browser { cookie, ..one.clone() }
    };
    assert_eq!(session["key"], false);
    assert_eq!(with_token(&one.csrf).json("/api/v1/session").await["key"], true);
    assert_eq!(with_token(&other.csrf).json("/api/v1/session").await["key"], false);
    assert!(!session.to_string().contains(&one.csrf), "the cookie does not lead to the token for changes");
}
