//! Sign-ins of gateway clients: messages, and the account of each call.

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    sign_in_fixture::SignInFixture,
};

/// A gateway with two clients.
struct Gateway {
    fixture: SignInFixture,
    serving: Serving,
    ada: String,
    ben: String,
}

impl Gateway {
    fn start() -> Self {
        let fixture = SignInFixture::new();
        let key = |name: &str| fixture.home.run(&["clients", "add", name, "-o", "human"]).ok().trim().to_owned();
        let (ada, ben) = (key("ada"), key("ben"));
        let serving = Serving::start(&fixture.home, &["--log", "off"]);
        Self { fixture, serving, ada, ben }
    }

    /// The response to a client's call of the protected tool, and whether it is an error.
    fn call(&self, key: &str) -> (String, bool) {
        let answer = self.serving.call_as(key, "tools/call", json!({ "name": "api__hello", "arguments": {} }));
        let answer = Answer::of(answer).json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match answer.get("error") {
            Some(error) => (text(&error["message"]), true),
            None => (text(&answer["result"]["content"][0]["text"]), answer["result"]["isError"] == true),
        }
    }

    /// Waits until the server is in this state.
    fn settled(&self, state: &str) {
        self.serving.settled(&self.ada, "api", state);
    }
}

#[test]
fn client_uses_only_its_own_account() {
    let gateway = Gateway::start();
    let Gateway { fixture, ada, ben, .. } = &gateway;
    let wanting = |how: &str| (format!("`api` is not connected: sign-in required: {how}; not sent"), true);
    let for_client = |name: &str| wanting(&format!("ask the operator to run `toolway login api --client {name}`"));
    gateway.settled("sign-in-required");
    // Without a listing, a call by name reports the reason.
    assert_eq!(gateway.call(ada), wanting("run `toolway login api`"));

    fixture.sign_in("operator", &[]);
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), for_client("ada"));
    fixture.sign_in("ada", &["--client", "ada"]);
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), ("hello ada".to_owned(), false));
    assert_eq!(gateway.call(ben), for_client("ben"));

    fixture.home.run(&["logout", "api", "--client", "ada"]).ok();
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), for_client("ada"));
    assert!(!fixture.server.received().contains(ada.as_str()), "a client's key is not forwarded");
}
