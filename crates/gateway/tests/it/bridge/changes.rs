//! Change notifications outside of calls.

use serde_json::json;
use toolway_testkit::test_host::within;
use toolway_wire::{
    notice::{List, Notice, SubscriptionFilter},
    up::UpstreamSubscription,
};

use super::scenario::Scenario;

const WATCHED: &str = "test://watched-resource";

pub(super) async fn subscribe(scenario: &Scenario) {
    let unknown = "test://unknown".to_owned();
    let wanted = SubscriptionFilter { uris: vec![WATCHED.to_owned(), unknown], ..SubscriptionFilter::default() };
    let mut listening = within("a subscription", scenario.client.listen(wanted)).await.unwrap();
    assert_eq!(listening.accepted().uris, [WATCHED]);
    assert_eq!(scenario.said("touch_watched", &json!({})).await, "It is not what it was.");
    let notice = next(&mut listening).await;
    assert!(matches!(&notice, Notice::Updated { uri, .. } if uri == WATCHED), "{notice:?}");
}

pub(super) async fn lists(scenario: &Scenario) {
    let mut listening = within("a subscription", scenario.client.listen(SubscriptionFilter::lists())).await.unwrap();
    for (trigger, list) in [("test_trigger_tool_change", List::Tools), ("test_trigger_prompt_change", List::Prompts)] {
        scenario.call(trigger, &json!({})).await;
        let notice = next(&mut listening).await;
        assert!(matches!(notice, Notice::Changed(changed) if changed == list), "{notice:?}");
    }
}

async fn next(listening: &mut UpstreamSubscription) -> Notice {
    within("a notice", listening.next()).await.unwrap()
}
