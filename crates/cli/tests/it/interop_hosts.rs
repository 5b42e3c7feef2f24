//! Programs that people run, unmodified, through the gateway with a key: each lists the tools and calls one. A mock vendor on
//! loopback is the model of those that need one. Those that only `./test long` installs are in `long.rs`.

mod long;

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};

use crate::{
    gateway::Serving,
    home::{Home, Ran, root},
    interop_clients::built,
};

/// A tool of the conformance server behind the gateway, and its result.
const TOOL: &str = "old__test_simple_text";
const RESULT: &str = "This is a simple text response for testing.";

/// Codex is a program for one platform.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const CODEX: &str = "node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex";

/// A gateway with one server, and a home for the program.
struct HostFixture {
    home: Home,
    serving: Serving,
}

impl HostFixture {
    fn new() -> Self {
        let home = Home::new();
        let server = json!({ "command": built("conformance-server"), "args": ["--era", "2025-11-25", "--stdio"] });
        home.configure(&json!({ "mcpServers": { "old": server } }).to_string());
        let serving = Serving::start(&home, &[]);
        home.settled(&serving, "old", "ready");
        Self { home, serving }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.serving.authority)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.serving.key())
    }

    /// The set-up that `toolway clients add` prints for a client, for this gateway.
    #[track_caller]
    fn setup(&self, client: &str) -> String {
        let said = self.home.run(&["clients", "add", "editor", "-o", "human"]).talk;
        let block = said.split("\n\n").find(|block| block.starts_with(&format!("{client} (")));
        let lines: Vec<&str> = block.unwrap_or_else(|| panic!("{said}")).lines().skip(1).map(str::trim).collect();
        lines.join("\n").replace("127.0.0.1:7717", &self.serving.authority)
    }

    /// Runs a program of `.interop`.
    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let path = root().join(".interop").join(program);
        assert!(path.exists(), "{} is missing: run ./test (or ./test long), which installs it", path.display());
        self.output(Command::new(path).args(arguments), variables)
    }

    /// Runs a line as a user does in a shell, in which the programs of `.interop` are found.
    #[track_caller]
    fn run_in_shell(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        let line = format!("PATH='{}':$PATH; {line}", root().join(".interop/hosts/bin").display());
        self.output(Command::new("sh").args(["-c", &line]), variables)
    }

    #[track_caller]
    fn output(&self, command: &mut Command, variables: &[(&str, &str)]) -> Ran {
        let around = self.home.command(&[]);
        command.env_clear().current_dir(self.home.folder("work")).stdin(Stdio::null());
        command.envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = Ran::of(&command.envs(variables.iter().copied()).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    }

    /// Checks that the gateway recorded one call, and stops it.
    #[track_caller]
    fn end(self) {
        let calls = self.home.run(&["calls", "list", "-o", "json"]).json();
        let [call] = calls.as_array().unwrap().as_slice() else { panic!("{calls}") };
        let recorded = ["tool", "server", "surface", "state"].map(|key| call[key].as_str().unwrap());
        assert_eq!(recorded, [TOOL, "old", "gateway", "succeeded"], "{call}");
        self.serving.stop();
    }
}

/// Answers of a model that calls the tool, and then says that it is done.
fn replies(tool: &str) -> Vec<Reply> {
    vec![Reply::new().call("c1", tool, json!({})), Reply::text("It is done.")]
}

#[test]
fn mcporter_lists_and_calls() {
    let fixture = HostFixture::new();
    let server = json!({ "url": fixture.url(), "headers": { "Authorization": fixture.bearer() } });
    let file =
        fixture.home.write("mcporter.json", &json!({ "mcpServers": { "gw": server }, "imports": [] }).to_string());
    let file = ["--config", file.to_str().unwrap()];
    let listed =
        fixture.run("node_modules/.bin/mcporter", &[&file[..], &["list", "gw", "--json"]].concat(), &[]).json();
    let names = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    assert!(names.clone().any(|name| name == TOOL), "{:?}", names.collect::<Vec<_>>());
    let called = fixture.run(
        "node_modules/.bin/mcporter",
        &[&file[..], &["call", &format!("gw.{TOOL}"), "--output", "json"]].concat(),
        &[],
    );
    assert_eq!(called.json()["content"][0]["text"], RESULT, "{called:?}");
    fixture.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_lists_and_calls() {
    let fixture = HostFixture::new();
    let tool = format!("mcp_gw_{TOOL}");
    let model = MockVendor::start(VendorKind::Gemini, replies(&tool)).await.unwrap();
    let server = json!({ "httpUrl": fixture.url(), "headers": { "Authorization": fixture.bearer() }, "trust": true });
    let settings = json!({
        "mcpServers": { "gw": server },
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "disableAutoUpdate": true },
    });
    fixture.home.write(".gemini/settings.json", &settings.to_string());
    let variables = [
        ("GEMINI_API_KEY", "none"),
        ("GOOGLE_GEMINI_BASE_URL", &model.base_url()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ];
    let ran = fixture.run(
        "node_modules/.bin/gemini",
        &["-p", "call it", "--yolo", "-m", "gemini-2.5-flash", "-o", "json"],
        &variables,
    );
    let said = ran.json();
    assert_eq!(said["response"], "It is done.", "{said}");
    assert_eq!(said["stats"]["tools"]["byName"][&tool]["success"], 1, "{said}");
    let [first, second] = requests(&model);
    assert!(first["tools"].to_string().contains(&tool), "the model is offered the tool");
    assert!(second["contents"].to_string().contains(RESULT), "the model gets the result");
    fixture.end();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test(flavor = "multi_thread")]
async fn codex_lists_and_calls_with_the_printed_lines() {
    let fixture = HostFixture::new();
    let model = MockVendor::start(VendorKind::Openai, replies(&format!("mcp__toolway::{TOOL}"))).await.unwrap();
    let settings = format!(
        "model = \"gpt-5\"\nmodel_provider = \"mock\"\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\nenv_key = \"MODEL_KEY\"\nwire_api = \"responses\"\n\
         {}\n",
        model.base_url(),
        fixture.setup("Codex"),
    );
    fixture.home.write(".codex/config.toml", &settings);
    let variables = [("MODEL_KEY", "none")];
    let words = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "call it"];
    let ran = fixture.run(CODEX, &words, &variables);
    let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let called =
        events.iter().find(|event| event["type"] == "item.completed" && event["item"]["type"] == "mcp_tool_call");
    assert_eq!(called.unwrap()["item"]["result"]["content"][0]["text"], RESULT, "{ran:?}");
    let [first, second] = requests(&model);
    let mut offered = first["tools"].as_array().unwrap().iter().filter(|tool| tool["name"] == "mcp__toolway");
    assert!(offered.any(|namespace| namespace["tools"].to_string().contains(TOOL)), "the model is offered the tool");
    assert!(second["input"].to_string().contains(RESULT), "the model gets the result");
    fixture.end();
}

/// The two requests that the model got.
fn requests(model: &MockVendor) -> [Value; 2] {
    let requests: Vec<Value> = model.requests().iter().map(|request| request.message().clone()).collect();
    requests.try_into().unwrap_or_else(|requests| panic!("{requests:?}"))
}
