//! Approvals, forms and URLs that wait for an answer in the page.

use serde_json::{Value, json};
use toolway_host::call::CallOutcome;
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::within,
};

use toolway_wire::json::Raw;

use crate::stage::{Browser, Stage};

/// A console whose host asks before every call.
async fn asking(server: &FixtureServer) -> Stage {
    Stage::with(&[("files", server)], toolway_console::ConsoleOptions::default(), |mut builder| {
        builder.options.stance = toolway_host::policy::Stance::Ask;
        builder
    })
    .await
}

/// Waits for an item and answers it.
async fn answer(browser: &Browser, answer: Value) -> Value {
    let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
    let item = items[0].clone();
    let path = format!("/api/v1/inbox/{}/answer", item["id"].as_str().unwrap());
    let reply = browser.post(&path, &answer).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(browser.post(&path, &answer).await.status, 409, "answered already");
    item
}

#[tokio::test]
async fn an_approval_shows_everything_and_lets_the_call_pass() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let calling = stage.host.call_with("files__write", Some(json!({ "path": "/etc/x", "note": "<b>" })));
    let (outcome, item) =
        within("the approval", async { tokio::join!(calling, answer(&browser, json!({ "answer": "once" }))) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
    let approval = &item["approval"];
    assert_eq!(
        (&item["kind"], &item["server"], &approval["tool"]),
        (&"approval".into(), &"files".into(), &"write".into())
    );
    assert_eq!(
        approval["rows"][0],
        json!({ "argument": "path", "label": "path", "value": "/etc/x", "important": true })
    );
    assert!(
        approval["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains("delete"))
    );
    assert_eq!((&approval["trust"], &approval["destructive"]), (&"read".into(), &true.into()));
    assert_eq!((&approval["covers"], &item["session"]), (&r#"note = "<b>", path = "/etc/x""#.into(), &false.into()));
    assert_eq!((&approval["proposal"]["number"], &approval["asksForHosts"]), (&1.into(), &false.into()));
    assert!(approval["remedy"].is_string() && item["callId"].is_string() && item["expiresAt"].is_string());
    assert_eq!(events.next("inbox").await.1["waiting"], 1);
    let page = browser.json("/api/v1/calls").await;
    let id = page["calls"][0]["id"].as_str().unwrap();
    let call = browser.json(&format!("/api/v1/calls/{id}")).await;
    let by = call["approvedBy"].as_str().unwrap();
    assert!(by.starts_with("console ") && by.len() == "console ".len() + 8, "{by}");
}

#[tokio::test]
async fn hidden_characters_are_marked_and_approved_only_with_a_confirmation() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let command = "ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}";
    let answering = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let approval = &items[0]["approval"];
        let shown = "ls -la \u{fdd0}1b\u{fdd1}]; rm -rf ~/important ; echo \u{fdd0}7\u{fdd1}";
        assert_eq!((&approval["rows"][0]["value"], &approval["hidden"]), (&shown.into(), &true.into()));
        let warnings = approval["warnings"].to_string();
        assert!(warnings.contains("argument `command` contains hidden characters"), "{warnings}");
        let path = format!("/api/v1/inbox/{}/answer", items[0]["id"].as_str().unwrap());
        let refused = browser.post(&path, &json!({ "answer": "always" })).await;
        assert_eq!(refused.status, 422, "{}", refused.body);
        answer(&browser, json!({ "answer": "once", "allowHidden": true })).await
    };
    let calling = stage.host.call_with("files__write", Some(json!({ "command": command })));
    let (outcome, _) = within("the approval", async { tokio::join!(calling, answering) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
}

#[tokio::test]
async fn the_options_that_a_user_chose_are_what_always_covers() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    // A number that a page cannot hold.
    let arguments = |text: &str| {
        let arguments = format!(r#"{{"n":123456789012345678901234567890,"text":"{text}"}}"#);
        let mut request = stage.host.request("files__write", None);
        request.arguments = Some(Raw::parse(arguments).unwrap());
        request
    };
    let answering = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let proposal = &items[0]["approval"]["proposal"];
        let number = &proposal["arguments"][0];
        let phrase = &number["options"][0]["phrase"];
        assert_eq!((&number["proposed"], phrase), (&0.into(), &"n = 123456789012345678901234567890".into()));
        assert_eq!(
            (&proposal["arguments"][1]["options"][1]["phrase"], &proposal["others"]),
            (&"any text".into(), &json!([]))
        );
        let path = format!("/api/v1/inbox/{}/answer", items[0]["id"].as_str().unwrap());
        for wrong in [json!([0]), json!([0, 2]), json!([0, 0, 0])] {
            assert_eq!(
                browser.post(&path, &json!({ "answer": "always", "options": wrong })).await.status,
                400,
                "{wrong}"
            );
        }
        let both = json!({ "answer": "always", "options": [0, 1], "scope": "any" });
        assert_eq!(browser.post(&path, &both).await.status, 400);
        answer(&browser, json!({ "answer": "always", "options": [0, 1] })).await
    };
    let calling = stage.host.call_of(arguments("a"));
    let (outcome, _) = within("the approval", async { tokio::join!(calling, answering) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
    let later = within("a later call", stage.host.call_of(arguments("b"))).await;
    assert!(matches!(later, CallOutcome::Answered(_)), "{later}");
}

#[tokio::test]
async fn arguments_that_are_too_large_are_one_row_whose_text_is_read_apart() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let text = "x".repeat(100_000);
    let answering = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let row = &items[0]["approval"]["rows"][0];
        assert_eq!((&row["value"], &row["bytes"]), (&Value::Null, &json!(100_011)), "{row}");
        assert_eq!((items[0].to_string().len() < 4_000, row["sha256"].as_str().unwrap().len()), (true, 64));
        let path = format!("/api/v1/inbox/{}/arguments", items[0]["id"].as_str().unwrap());
        assert!(browser.json(&path).await["text"].as_str().unwrap().contains(&text));
        answer(&browser, json!({ "answer": "once" })).await
    };
    let calling = stage.host.call_with("files__write", Some(json!({ "text": text })));
    let (outcome, _) = within("the approval", async { tokio::join!(calling, answering) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
}

#[tokio::test]
async fn an_approval_for_the_conversation_of_a_call_without_one_is_refused_and_it_waits_on() {
    let files = FixtureServer::new("files").tool("write", "Writes.");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let answering = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let path = format!("/api/v1/inbox/{}/answer", items[0]["id"].as_str().unwrap());
        let refused = browser.post(&path, &json!({ "answer": "conversation" })).await;
        assert_eq!(refused.status, 400, "{}", refused.body);
        assert!(refused.body.contains("no conversation or session"), "{}", refused.body);
        answer(&browser, json!({ "answer": "once" })).await
    };
    let (outcome, _) = within("the approval", async { tokio::join!(stage.host.call("files__write"), answering) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
}

#[tokio::test]
async fn no_and_never_refuse_and_always_is_remembered() {
    let files = FixtureServer::new("files").tool("write", "").tool("delete", "").tool("read", "");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let decide = async |tool: &str, given: Value| {
        let (outcome, _) =
            within("a decision", async { tokio::join!(stage.host.call(tool), answer(&browser, given)) }).await;
        outcome
    };
    let outcome = decide("files__write", json!({ "answer": "no", "reason": "not today" })).await;
    assert!(outcome.to_string().contains("not today"), "{outcome}");
    assert!(matches!(decide("files__read", json!({ "answer": "always" })).await, CallOutcome::Answered(_)));
    assert!(matches!(stage.host.call("files__read").await, CallOutcome::Answered(_)), "without asking again");
    assert!(matches!(decide("files__delete", json!({ "answer": "never" })).await, CallOutcome::Refused(_)));
    assert!(matches!(stage.host.call("files__delete").await, CallOutcome::Refused(_)), "without asking again");
}

#[tokio::test]
async fn answers_of_the_wrong_shape_leave_the_item_waiting() {
    let files = FixtureServer::new("files").tool("write", "");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let wrong = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let path = format!("/api/v1/inbox/{}/answer", items[0]["id"].as_str().unwrap());
        for given in [
            json!({}),
            json!({ "action": "accept" }),
            json!({ "answer": "yes" }),
            json!({ "answer": "once", "action": "accept" }),
        ] {
            assert_eq!(browser.post(&path, &given).await.status, 400, "{given}");
        }
        assert_eq!(browser.post("/api/v1/inbox/other/answer", &json!({ "answer": "once" })).await.status, 409);
        answer(&browser, json!({ "answer": "once" })).await
    };
    let (outcome, _) = within("the answers", async { tokio::join!(stage.host.call("files__write"), wrong) }).await;
    assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
}

#[tokio::test]
async fn a_form_is_checked_and_answered() {
    let people = FixtureServer::new("people").tool_that("greet", "", Behaviour::Greet);
    let stage = Stage::new(&[("people", &people)]).await;
    let browser = stage.browser().await;
    let mut request = stage.host.request("people__greet", None);
    request.surface = toolway_host::policy::Surface::Console;
    let answering = async {
        let items = browser.until("/api/v1/inbox", |items| !items.as_array().unwrap().is_empty()).await;
        let (id, field) = (items[0]["id"].as_str().unwrap(), &items[0]["form"]["fields"][0]);
        let name = field["name"].as_str().unwrap();
        let path = format!("/api/v1/inbox/{id}/answer");
        let invalid = browser.post(&path, &json!({ "action": "accept", "content": { name: 7 } })).await;
        assert_eq!(invalid.status, 422, "{}", invalid.body);
        assert!(invalid.json()["fields"][name].is_string(), "{}", invalid.body);
        let reply = browser.post(&path, &json!({ "action": "accept", "content": { name: "Ada" } })).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    let (outcome, ()) = within("the form", async { tokio::join!(stage.host.call_of(request), answering) }).await;
    let CallOutcome::Answered(result) = &outcome else { panic!("{outcome}") };
    assert!(result.to_string().contains("Ada"), "{result}");
}

#[tokio::test]
async fn a_call_that_waits_is_recorded_with_its_server() {
    let files = FixtureServer::new("files").tool("write", "");
    let stage = asking(&files).await;
    let browser = stage.browser().await;
    let deciding = async {
        let is_named = |page: &Value| {
            let call = &page["calls"][0];
            call["state"] == "pending" && call["server"] == "files" && call["tool"] == "files__write"
        };
        browser.until("/api/v1/calls", is_named).await;
        answer(&browser, json!({ "answer": "no" })).await
    };
    let (outcome, _) = within("the approval", async { tokio::join!(stage.host.call("files__write"), deciding) }).await;
    assert!(matches!(outcome, CallOutcome::Refused(_)), "{outcome}");
}
