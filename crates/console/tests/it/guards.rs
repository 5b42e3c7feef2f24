//! Host, origin, cookie, CSRF token, headers, and the size of requests.

use serde_json::json;

use crate::stage::{Browser, Stage, send};

const POSTS: [&str; 6] = [
    "/api/v1/servers",
    "/api/v1/servers/files/restart",
    "/api/v1/calls/x/cancel",
    "/api/v1/inbox/x/answer",
    "/api/v1/chat",
    "/api/v1/nothing",
];

#[tokio::test]
async fn everything_below_api_needs_a_cookie_before_it_is_routed() {
    let stage = Stage::new(&[]).await;
    let paths = ["/api", "/api/", "/api/v1/session", "/api/v1/servers/x", "/api/v2/x", "/api/../x", "/api/v1/events"];
    for path in paths {
        let reply = stage.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "signed_out"), "{path}");
    }
    let address = &stage.address;
    for (method, path) in POSTS.iter().map(|path| ("POST", path)).chain([("DELETE", &"/api/v1/x"), ("PUT", &"/api/")]) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n");
        assert_eq!(send(address, &head, "").await.status, 401, "{method} {path}");
    }
    let wrong = format!("GET /api/v1/servers HTTP/1.1\r\nHost: {address}\r\nCookie: toolway_console=x; a=b\r\n");
    assert_eq!(send(address, &wrong, "").await.status, 401);
}

#[tokio::test]
async fn host_and_origin_are_exact() {
    let stage = Stage::new(&[]).await;
    let (browser, address) = (stage.browser().await, stage.address.clone());
    let port = address.rsplit(':').next().unwrap();
    let get = async |host: &str, more: &str| {
        let cookie = &browser.cookie;
        let head = format!("GET /api/v1/session HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n{more}");
        send(&address, &head, "").await.status
    };
    assert_eq!(get(&address, "").await, 200);
    assert_eq!(get(&format!("localhost:{port}"), "").await, 200);
    assert_eq!(get(&address, &format!("Origin: http://{address}\r\n")).await, 200);
    for host in ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1.evil.example"] {
        assert_eq!(get(host, "").await, 403, "{host}");
    }
    for origin in ["null", "http://evil.example", "http://127.0.0.1:3000", "http://localhost"] {
        assert_eq!(get(&address, &format!("Origin: {origin}\r\n")).await, 403, "{origin}");
    }
    assert_eq!(get(&address, "Sec-Fetch-Site: same-site\r\n").await, 403, "another port of this machine");
    assert_eq!(get(&address, "Sec-Fetch-Site: same-origin\r\n").await, 200);
}

#[tokio::test]
async fn changes_need_the_csrf_token_and_an_origin() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    for csrf in ["", "guess"] {
        let forged = Browser { csrf: csrf.to_owned(), ..browser.clone() };
        for path in POSTS {
            let reply = forged.post(path, &json!({})).await;
            assert_eq!((reply.status, reply.code().as_str()), (403, "csrf"), "{path}");
        }
    }
    let Browser { address, cookie, csrf } = &browser;
    let head = format!(
        "POST /api/v1/chat HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nx-toolway-csrf: {csrf}\r\nContent-Length: 2\r\n"
    );
    assert_eq!(send(address, &head, "{}").await.status, 403, "without an origin");
    assert_eq!(browser.post("/api/v1/chat", &json!({})).await.status, 400, "with everything");
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let address = &stage.address;
    let replies = [
        stage.get("/").await,
        stage.get("/index.html").await,
        stage.get("/missing").await,
        stage.get("/login?token=x").await,
        stage.get(&stage.link()).await,
        stage.get("/api/v1/servers").await,
        browser.get("/api/v1/servers").await,
        browser.get("/api/v1/nothing").await,
        browser.post("/api/v1/chat", &json!({})).await,
        send(address, "GET / HTTP/1.1\r\nHost: evil.example\r\n", "").await,
        send(address, &format!("POST / HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n"), "").await,
    ];
    for reply in replies {
        let policy = reply.header("content-security-policy").unwrap_or_else(|| panic!("{}", reply.head));
        for part in
            ["default-src 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("x-dns-prefetch-control"), Some("off"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn pages_are_served_and_nothing_else() {
    let stage = Stage::new(&[]).await;
    let index = stage.get("/").await;
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for page in toolway_console::pages::PAGES {
        assert_eq!(stage.get(page.path).await.status, 200, "{}", page.path);
    }
    for path in ["/../Cargo.toml", "/web/index.html", "/.git", "//index.html", "/index.html/"] {
        assert_eq!(stage.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn oversized_and_malformed_bodies_are_refused() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    let large = "x".repeat(1024 * 1024 + 1);
    let reply = browser.post("/api/v1/servers/parse", &json!({ "text": large })).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
    for body in ["", "{", "[]", "{\"text\":7}", "{\"text\":\"a\",\"extra\":1}", "\u{0}"] {
        let reply = browser.post_text("/api/v1/servers/parse", body).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "bad_request"), "{body}");
    }
    let nested = "[".repeat(200_000);
    assert_eq!(browser.post_text("/api/v1/chat", &nested).await.status, 400);
    assert_eq!(browser.get("/api/v1/servers").await.status, 200, "still alive");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_named_errors() {
    let stage = Stage::new(&[]).await;
    let browser = stage.browser().await;
    for path in ["/api/v1/", "/api/v1/nothing", "/api/v1/servers/x/y/z", "/api/v2/session", "/api"] {
        let reply = browser.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "not_found"), "{path}");
    }
    assert_eq!(browser.post("/api/v1/session", &json!({})).await.status, 404);
    let Browser { address, cookie, csrf } = &browser;
    let head = format!(
        "DELETE /api/v1/servers HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\nx-toolway-csrf: {csrf}\r\n"
    );
    assert_eq!(send(address, &head, "").await.status, 405);
}
