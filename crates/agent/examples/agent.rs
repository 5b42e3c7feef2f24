//! An agent with a native tool, a stdio server (`toolway sample`, on the path) and a script as the model, which needs no key.

use std::{error::Error, io::Write, sync::Arc, time::Duration};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentOptions, Conversation, model::Message, model::ScriptedModel};
use toolway_config::Config;
use toolway_host::{
    Host, HostOptions, HostPorts,
    connection::{Program, ServerAddress, WantedServer, Way},
    native::{NativeEffect, NativeServer, NativeTool},
};

const SCRIPT: &str = r#"{ "turns": [
    { "calls": [{ "tool": "orders__count" }, { "tool": "sample__add", "arguments": { "a": 3, "b": 1 } }] },
    { "expect": [{ "error": false }, { "contains": "4" }], "text": "There are {{result}} orders. One more makes 4." } ] }"#;

fn main() -> Result<(), Box<dyn Error>> {
    toolway_host::keeper::run_if_keeper(); // first statement: server processes end with this program
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let count = NativeTool::new("count", "Count the open orders", json!({ "type": "object" }), |_call| async {
        Ok("3".into()) // an `Err` is the text of a failed result
    });
    let orders = NativeServer::new("orders".parse()?).tool(count.with_effect(NativeEffect::Reads))?;
    let sample = Program { arguments: vec!["sample".into()], ..Program::new("toolway") };
    let sample = WantedServer::new("sample".parse()?, Way::Address(ServerAddress::Process(sample)));
    let environment = std::env::vars_os().collect();
    let options = HostOptions { servers: vec![orders.into(), sample], environment, ..HostOptions::default() };
    let host = Host::start(&Config::default(), HostPorts::default(), options).await?;
    host.wait_until_listed(Duration::from_secs(20)).await;

    let agent = Agent::new(host.clone(), Arc::new(ScriptedModel::parse("script", SCRIPT)?), AgentOptions::default());
    let mut conversation = Conversation::new(None);
    let question = vec![Message::user("How many orders are open, and how many with one more?")];
    let answer = agent.answer(&mut conversation, question, &CancellationToken::new(), &mut |_event| {}).await?;
    for call in &answer.calls {
        writeln!(std::io::stdout(), "{}: {}", call.name, call.state.as_str())?;
    }
    writeln!(std::io::stdout(), "{}", answer.text)?;
    host.shutdown().await;
    Ok(())
}
