//! Sign-ins through the gateway: who is told what, and whose account a call is made with.

use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    world::World,
};

/// A gateway with two clients.
struct Gateway {
    world: World,
    serving: Serving,
    ada: String,
    ben: String,
}

impl Gateway {
    fn start() -> Self {
        let world = World::new();
        let key = |name: &str| world.home.run(&["clients", "add", name, "-o", "human"]).ok().trim().to_owned();
        let (ada, ben) = (key("ada"), key("ben"));
        let serving = Serving::start(&world.home, &["--log", "off"]);
        Self { world, serving, ada, ben }
    }

    /// What a client's call of the protected tool is answered with, and whether that is an error.
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
fn a_client_is_told_who_has_to_sign_in_and_is_served_with_its_own_account_only() {
    let gateway = Gateway::start();
    let Gateway { world, ada, ben, .. } = &gateway;
    let wanting = |how: &str| (format!("`api` is not connected: somebody has to sign in: {how}"), true);
    let for_client = |name: &str| wanting(&format!("the operator runs `toolway login api --client {name}`"));
    gateway.settled("sign-in needed");
    // It has listed nothing yet; what is called by its name says why.
    assert_eq!(gateway.call(ada), wanting("run `toolway login api`"));

    world.sign_in("operator", &[]);
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), for_client("ada"));
    world.sign_in("ada", &["--client", "ada"]);
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), ("hello ada".to_owned(), false));
    assert_eq!(gateway.call(ben), for_client("ben"));

    world.home.run(&["logout", "api", "--client", "ada"]).ok();
    gateway.settled("ready");
    assert_eq!(gateway.call(ada), for_client("ada"));
    assert!(!world.server.heard().contains(ada.as_str()), "a client's key goes no further");
}
