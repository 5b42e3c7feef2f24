//! What changes outside any call, told to whoever wants to hear it.

use serde_json::json;
use toolway_testkit::test_host::within;
use toolway_wire::{
    notice::{List, Notice, Wanted},
    up::Listening,
};

use super::scene::Scene;

const WATCHED: &str = "test://watched-resource";

pub(super) async fn subscribe(scene: &Scene) {
    let unknown = "test://unknown".to_owned();
    let wanted = Wanted { uris: vec![WATCHED.to_owned(), unknown], ..Wanted::default() };
    let mut listening = within("a subscription", scene.client.listen(wanted)).await.unwrap();
    assert_eq!(listening.honoured().uris, [WATCHED]);
    assert_eq!(scene.said("touch_watched", &json!({})).await, "It is not what it was.");
    let notice = next(&mut listening).await;
    assert!(matches!(&notice, Notice::Updated { uri, .. } if uri == WATCHED), "{notice:?}");
}

pub(super) async fn lists(scene: &Scene) {
    let mut listening = within("a subscription", scene.client.listen(Wanted::lists())).await.unwrap();
    for (trigger, list) in [("test_trigger_tool_change", List::Tools), ("test_trigger_prompt_change", List::Prompts)] {
        scene.call(trigger, &json!({})).await;
        let notice = next(&mut listening).await;
        assert!(matches!(notice, Notice::Changed(changed) if changed == list), "{notice:?}");
    }
}

async fn next(listening: &mut Listening) -> Notice {
    within("a notice", listening.next()).await.unwrap()
}
