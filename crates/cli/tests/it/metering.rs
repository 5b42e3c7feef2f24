//! The meter of a conversation: tokens by part, the share that a vendor had cached, and what it cost.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};

use crate::home::Home;

#[test]
fn tokens_by_part_the_cached_share_and_the_cost_are_counted_for_each_vendor() {
    let runtime = Runtime::new().unwrap();
    for kind in VendorKind::ALL {
        // A request has 120 tokens, 100 of them cached, and its answer 30.
        let replies = vec![Reply::text("One."), Reply::text("Two."), Reply::text("Three.")];
        let vendor = runtime.block_on(MockVendor::start(kind, replies)).unwrap();
        let home = Home::new();
        let model = |price: Value| {
            let mut model = json!({
                "vendor": kind.as_str(), "model": "m-1", "baseUrl": vendor.base_url(), "apiKey": "x", "contextWindow": 8000,
            });
            if price.is_object() {
                model["price"] = price;
            }
            model
        };
        let models = json!({ "priced": model(json!({ "input": 3, "output": 15, "cachedInput": 0.3 })), "other": model(Value::Null) });
        home.configure(&json!({ "models": models }).to_string());

        let ran = home.run(&["run", "hello", "--model", "priced"]).json();
        let cost = ran["cost"].as_f64().unwrap();
        // 20 tokens at 3, 100 at 0.3 and 30 at 15 for a million each.
        assert!((cost - 0.000_54).abs() < 1e-9, "{kind:?}: {ran}");
        assert_eq!((&ran["context"]["window"], &ran["usage"]["cachedTokens"]), (&json!(8000), &json!(100)), "{ran}");
        let parts: u64 =
            ran["context"]["parts"].as_array().unwrap().iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
        assert_eq!(json!(parts), ran["context"]["used"], "{kind:?}: {ran}");

        let chat = home.run_with_input(&["chat", "--model", "priced"], "hello\n/usage\n");
        let expected = "120 tokens in (100 cached, 83 %), 30 out; 2 messages in this conversation; cost 0.0005";
        assert!(chat.ok().contains(expected), "{kind:?}: {chat:?}");
        let unpriced = home.run(&["run", "hello", "--model", "other"]).json();
        assert_eq!(unpriced["cost"], Value::Null, "{kind:?}: {unpriced}");
    }
}
