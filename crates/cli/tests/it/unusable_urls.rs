//! URLs that answer, but cannot be used: a wrong path, a web page, and a server that wants a key.

use serde_json::json;
use tokio::runtime::Runtime;
use toolway_testkit::odd::http::{OddHttp, RecordedRequest, Reply};

use crate::home::Home;

/// A home with the server `api`, which answers like this.
fn home(runtime: &Runtime, script: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> (Home, OddHttp) {
    let (home, http) = (Home::new(), runtime.block_on(OddHttp::start(script)).unwrap());
    home.configure(&format!(
        r#"{{ "signIn": {{ "vault": "file" }}, "mcpServers": {{ "api": {{ "url": "{}" }} }} }}"#,
        http.url()
    ));
    (home, http)
}

#[test]
fn wrong_path_and_web_page_are_not_blamed_on_the_server() {
    let runtime = Runtime::new().unwrap();
    for (reply, answer) in [(404, "HTTP 404, a web page"), (200, "HTTP 200, a web page")] {
        let (home, _http) = home(&runtime, move |_| Reply::html(reply));
        let error = home.run(&["tools", "api"]).failed(4, "http_status");
        let expected = format!("not an MCP endpoint ({answer}); check the path of the URL (often `/mcp`)");
        assert!(error["message"].as_str().unwrap().contains(&expected), "{error}");
    }
    let (home, _http) = home(&runtime, |_| Reply::json(404, &json!({ "detail": "Not Found" })));
    let error = home.run(&["tools", "api"]).failed(4, "http_status");
    assert!(error["message"].as_str().unwrap().contains("not an MCP endpoint (HTTP 404)"), "{error}");
}

#[test]
fn server_that_takes_a_key_is_set_up_with_a_header() {
    let runtime = Runtime::new().unwrap();
    let (home, _http) = home(&runtime, |seen| match seen.path.as_str() {
        "/mcp" => Reply::json(401, &json!({ "error": "missing header x-api-key" })),
        _ => Reply::empty(404),
    });
    let set_up = "toolway servers update api --header 'Authorization: Bearer ${TOKEN}'";
    let error = home.run(&["tools", "api"]).failed(3, "unauthorized");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("names no authorization server") && message.contains(set_up), "{message}");
    assert!(message.ends_with(r#"the server said: {"error":"missing header x-api-key"}"#), "{message}");
    let login = home.run(&["login", "api", "-o", "human"]);
    assert_eq!((login.code, login.out.as_str()), (3, ""), "no URL to open: {login:?}");
    for part in ["has none at its own origin", set_up, "missing header x-api-key"] {
        assert!(login.talk.contains(part), "{part}: {}", login.talk);
    }
}
