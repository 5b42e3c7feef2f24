//! What outlives a gateway that is killed, and what does not and says so.

use serde_json::{Value, json};

use super::{calling::Client, house::House};

const SEED: u64 = 7;
/// The time of a task: it is still under way when the next gateway is asked about it.
const SECONDS: u64 = 2;

async fn kill_and_start(house: &mut House) {
    house.kill();
    house.start();
    house.settle().await;
}

fn clients(house: &House) -> (Client, Client) {
    let mut clients = house.clients(SEED).into_iter();
    (clients.next().unwrap(), clients.next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_server_is_known_to_the_next_gateway_by_the_name_it_had() {
    let mut house = House::new("task", SEED).await;
    let (_, mut client) = clients(&house);
    let path = "/servers/new-on-a-port/mcp";
    let call = json!({ "name": "slow_compute", "arguments": { "seconds": SECONDS } });
    let begun = client.ask_alone(path, "tools/call", "slow_compute", call).await.unwrap();
    let task = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    assert_eq!(begun["result"]["status"], "working", "{begun}");

    kill_and_start(&mut house).await;

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
async fn a_call_that_waited_for_its_caller_is_over_with_its_gateway_and_so_is_a_task_that_the_gateway_kept() {
    let mut house = House::new("parked", SEED).await;
    let (mut stateful, mut stateless) = clients(&house);
    let call = json!({ "name": "old__test_elicitation", "arguments": { "message": "Who?" } });
    let asked = stateless.ask_alone("/mcp", "tools/call", "old__test_elicitation", call.clone()).await.unwrap();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let kept = json!({ "name": "new__greet", "arguments": { "name": "Ada" }, "task": { "ttl": 60_000 } });
    let made = stateful.ask_in_session("/mcp", "tools/call", kept).await.unwrap();
    let task = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();

    kill_and_start(&mut house).await;

    let mut retry = call;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "username": "ada", "email": "a@b" } } });
    let refused = stateless.ask_alone("/mcp", "tools/call", "old__test_elicitation", retry).await.unwrap();
    assert!(said(&refused).contains("interaction expired, call again"), "{refused}");
    let refused = stateful.ask_in_session("/mcp", "tasks/get", json!({ "taskId": task })).await.unwrap();
    assert!(refused["error"].is_object(), "{refused}");
    assert!(said(&refused).contains("ended with the gateway"), "{refused}");
    assert_eq!(stateful.begun, 2, "its session was gone too, and begun again");
}

/// What an error says, of the request or of the call.
fn said(answer: &Value) -> &str {
    let of_call = answer["result"]["content"][0]["text"].as_str().filter(|_| answer["result"]["isError"] == true);
    of_call.or(answer["error"]["message"].as_str()).unwrap_or_else(|| panic!("{answer}"))
}
