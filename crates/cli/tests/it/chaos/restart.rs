//! What survives the restart of a killed gateway, and what does not.

use serde_json::{Value, json};

use super::{client::Client, setup::ChaosSetup};

const SEED: u64 = 7;
/// Duration of the task; it is still running when the next gateway is asked about it.
const SECONDS: u64 = 2;

async fn kill_and_start(setup: &mut ChaosSetup) {
    setup.kill();
    setup.start();
    setup.settle().await;
}

fn clients(setup: &ChaosSetup) -> (Client, Client) {
    let mut clients = setup.clients(SEED).into_iter();
    (clients.next().unwrap(), clients.next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_task_keeps_its_id_after_a_gateway_restart() {
    let mut setup = ChaosSetup::new("task", SEED).await;
    let (_, mut client) = clients(&setup);
    let path = "/servers/new-on-a-port/mcp";
    let call = json!({ "name": "slow_compute", "arguments": { "seconds": SECONDS } });
    let started = client.ask_alone(path, "tools/call", "slow_compute", call).await.unwrap();
    let task = started["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(started["result"]["status"], "working", "{started}");

    kill_and_start(&mut setup).await;

    let done = loop {
        let looked = client.ask_alone(path, "tasks/get", &task, json!({ "taskId": task })).await.unwrap();
        assert_eq!(looked["result"]["taskId"], task.as_str(), "{looked}");
        if looked["result"]["status"] != "working" {
            break looked;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    assert_eq!(done["result"]["status"], "completed", "{done}");
    assert!(done.to_string().contains("Computed for 2 seconds."), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_interaction_ends_with_the_gateway_and_the_result_of_its_own_task_stays() {
    let mut setup = ChaosSetup::new("parked", SEED).await;
    let (mut stateful, mut stateless) = clients(&setup);
    let call = json!({ "name": "old__test_elicitation", "arguments": { "message": "Who?" } });
    let asked = stateless.ask_alone("/mcp", "tools/call", "old__test_elicitation", call.clone()).await.unwrap();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let kept = json!({ "name": "new__greet", "arguments": { "name": "Ada" }, "task": { "ttl": 60_000 } });
    let made = stateful.ask_in_session("/mcp", "tools/call", kept).await.unwrap();
    let task = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();

    let looked_at = json!({ "taskId": task });
    loop {
        let looked = stateful.ask_in_session("/mcp", "tasks/get", looked_at.clone()).await.unwrap();
        if looked["result"]["status"] == "completed" {
            break;
        }
        assert_eq!(looked["result"]["status"], "working", "{looked}");
    }

    kill_and_start(&mut setup).await;

    let mut retry = call;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "username": "ada", "email": "a@b" } } });
    let refused = stateless.ask_alone("/mcp", "tools/call", "old__test_elicitation", retry).await.unwrap();
    assert!(said(&refused).contains("the interaction has expired; call again"), "{refused}");
    let stays = stateful.ask_in_session("/mcp", "tasks/get", looked_at.clone()).await.unwrap();
    assert_eq!(stays["result"]["status"], "completed", "{stays}");
    let result = stateful.ask_in_session("/mcp", "tasks/result", looked_at).await.unwrap();
    assert!(result["result"]["content"][0]["text"].is_string(), "{result}");
    assert_eq!(stateful.started, 2, "its session was lost too and started again");
}

/// The error message of a request or of a call.
fn said(answer: &Value) -> &str {
    let of_call = answer["result"]["content"][0]["text"].as_str().filter(|_| answer["result"]["isError"] == true);
    of_call.or(answer["error"]["message"].as_str()).unwrap_or_else(|| panic!("{answer}"))
}
