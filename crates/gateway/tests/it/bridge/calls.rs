//! Calls, reads, prompts and completion.

use serde_json::json;

use super::scenario::Scenario;

pub(super) async fn call(scenario: &Scenario) {
    let tools = scenario.client.list_tools().await.unwrap();
    assert!(tools.items.iter().any(|tool| tool.name == scenario.name("greet")), "{tools:?}");
    assert_eq!(scenario.said("greet", &json!({ "name": "Ada" })).await, "Hello, Ada!");
    for (tool, kind) in
        [("test_image_content", "image"), ("test_audio_content", "audio"), ("test_embedded_resource", "resource")]
    {
        let result = scenario.call(tool, &json!({})).await;
        assert_eq!(result["content"][0]["type"], kind, "{result}");
    }
}

pub(super) async fn read(scenario: &Scenario) {
    let read = async |uri: &str| scenario.fetch("resources/read", &json!({ "uri": uri })).await["contents"][0].clone();
    assert_eq!(read("test://static-text").await["text"], "This is the content of the static text resource.");
    assert_eq!(read("test://static-binary").await["mimeType"], "image/png");
    let templated = read("test://template/7/data").await;
    assert_eq!(templated["uri"], "test://template/7/data");
    assert!(templated["text"].as_str().unwrap().contains("Data for ID: 7"), "{templated}");
}

pub(super) async fn prompt(scenario: &Scenario) {
    let prompts = scenario.client.list_prompts().await.unwrap();
    assert!(prompts.items.iter().any(|prompt| prompt.name == scenario.name("test_simple_prompt")), "{prompts:?}");
    let arguments = json!({ "arg1": "one", "arg2": "two" });
    let params = json!({ "name": scenario.name("test_prompt_with_arguments"), "arguments": arguments });
    let messages = scenario.fetch("prompts/get", &params).await["messages"].clone();
    assert_eq!(messages[0]["content"]["text"], "Prompt with arguments: arg1='one', arg2='two'");
    let params = json!({ "name": scenario.name("test_input_required_result_prompt") });
    let messages = scenario.fetch("prompts/get", &params).await["messages"].clone();
    assert_eq!(messages[0]["content"]["text"], "In the context of Ada.");
}

pub(super) async fn complete(scenario: &Scenario) {
    let prompt = json!({ "type": "ref/prompt", "name": scenario.name("test_prompt_with_arguments") });
    let template = json!({ "type": "ref/resource", "uri": "test://template/{id}/data" });
    for (about, argument) in [(prompt, "arg1"), (template, "id")] {
        let params = json!({ "ref": about, "argument": { "name": argument, "value": "par" } });
        let completed = scenario.fetch("completion/complete", &params).await;
        assert_eq!(completed["completion"]["values"], json!(["paris", "park", "party"]));
    }
}
