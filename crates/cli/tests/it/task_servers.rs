//! What servers do in the middle of a task: ask for an answer of a model, be gone for a while, announce changes.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{
    gateway::Serving,
    home::{Home, Running, odd},
    stdio_client::StdioClient,
    task_crashes::{HttpServer, until},
    terminal_tasks::ERAS,
};

/// The entry of an odd server.
fn odd_entry(name: &str) -> Value {
    let words = odd(name);
    let mut words = words.split(' ');
    json!({ "command": words.next(), "args": words.collect::<Vec<_>>() })
}

#[test]
fn a_task_of_a_server_that_is_still_connecting_has_an_id_that_its_client_can_use() {
    for era in ERAS {
        let home = Home::new();
        let program = HttpServer::conformance_program();
        let script = format!("sleep 0.5; exec {} --era {era} --stdio", program.display());
        home.configure(&json!({ "mcpServers": { "jobs": { "command": "sh", "args": ["-c", script] } } }).to_string());
        let mut client = StdioClient::start(&home);
        let call = json!({ "name": "jobs__long_job", "arguments": { "seconds": 0.1 }, "task": { "ttl": 60_000 } });
        let begun = client.request("tools/call", call);
        let task = begun["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{era}: {begun}")).to_owned();
        let ended = client.request("tasks/result", json!({ "taskId": task }));
        assert_eq!(ended["result"]["content"][0]["text"], "Computed for 0.1 seconds.", "{era}: {ended}");
        client.leave();
    }
}

#[test]
fn a_server_is_answered_by_our_model_in_the_middle_of_a_background_task() {
    let home = Home::new();
    let answers = home.write("answers.json", &json!({ "turns": [{ "text": "Blue." }] }).to_string());
    let sampling = json!({ "allow": "always", "model": "small" });
    let mut jobs = odd_entry("sampling-task");
    jobs["era"] = json!("modern");
    let config = json!({
        "models": { "small": { "vendor": "scripted", "model": answers } },
        "sampling": sampling,
        "mcpServers": { "jobs": jobs },
    });
    home.configure(&config.to_string());
    let script = json!({ "turns": [
        { "calls": [{ "tool": "jobs__odd", "arguments": {} }] },
        { "expect": [{ "contains": "started, id " }], "text": "It works on it." },
        { "heard": ["has completed", "painted as the model said"], "text": "Painted." },
    ] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let ran = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]);
    assert_eq!(ran.json()["result"], json!("Painted."), "{ran:?}");
}

#[test]
fn announced_changes_are_read_sooner_and_not_as_often_as_they_are_announced() {
    let home = Home::new();
    let entry = odd_entry("hinting-task");
    home.configure(
        &json!({ "mcpServers": { "jobs": { "era": "legacy", "command": entry["command"], "args": entry["args"] } } })
            .to_string(),
    );
    // Four reads before the last, a second apart; by the poll interval they would take four minutes.
    let is_fine = |call: &Value| (3_000.0..40_000.0).contains(&call["durationMs"].as_f64().unwrap());
    let ran = home.run(&["call", "jobs.odd", "-o", "human"]);
    assert_eq!(ran.ok(), "done at last\n", "{ran:?}");
    let script = json!({ "turns": [
        { "calls": [{ "tool": "jobs__odd", "arguments": {} }] },
        { "expect": [{ "contains": "started, id " }], "text": "It works on it." },
        { "heard": ["has completed", "done at last"], "text": "Done." },
    ] });
    let model = format!("scripted:{}", home.write("script.json", &script.to_string()).display());
    let ran = home.run(&["run", "paint", "--model", &model, "--mode", "allow", "-o", "json"]);
    assert_eq!(ran.json()["result"], json!("Done."), "{ran:?}");
    let calls = home.run(&["calls", "list", "-o", "json"]).json();
    assert!(calls.as_array().unwrap().iter().all(is_fine), "{calls}");
}

#[test]
fn progress_that_a_server_reports_during_a_task_is_recorded() {
    let home = Home::new();
    let of = |name: &str| {
        let mut entry = odd_entry(name);
        entry["era"] = json!("legacy");
        entry
    };
    let servers = json!({ "jobs": of("progress-task:bell"), "brief": of("progress-task:brief") });
    home.configure(&json!({ "mcpServers": servers }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "jobs", "ready");
    let id = home.run(&["call", "jobs.odd", "--detach", "-o", "human"]).ok().trim().to_owned();
    let shown = || home.run(&["tasks", "show", &id, "-o", "json"]).json();
    let reported = json!({ "done": 5.0, "total": 10.0 });
    until(|| (shown()["progress"] == reported).then_some(()));
    let task = shown();
    assert_eq!((&task["status"], &task["message"]), (&json!("working"), &json!("wall 5\u{7}")), "{task}");
    assert!(home.run(&["tasks", "-o", "human"]).ok().contains("5/10 wall 5\\u{7}"), "a bell is shown, not rung");
    serving.stop();
    // A command that waits for the task shows it, too.
    let ran = home.run(&["call", "brief.odd", "-v", "-o", "human"]);
    assert_eq!(ran.ok(), "done at last\n", "{ran:?}");
    let task = home.run(&["tasks", "show", "last", "-o", "json"]).json();
    assert_eq!((&task["status"], &task["progress"]), (&json!("completed"), &reported), "{task}");
}

/// Passes connections on to a server, or refuses them while it is down.
struct Proxy {
    port: u16,
    is_down: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_down = Arc::new(AtomicBool::new(false));
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let (down, kept) = (Arc::clone(&is_down), Arc::clone(&open));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], target)));
                if let (false, Ok(server)) = (down.load(Ordering::SeqCst), server) {
                    kept.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                    pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                    pass(server, client);
                }
            }
        });
        Self { port, is_down, open }
    }

    /// Ends all connections, and refuses new ones until it is up again.
    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
        self.open.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ended = io::copy(&mut from, &mut to);
        let _closed = to.shutdown(std::net::Shutdown::Write);
    });
}

#[test]
fn a_call_waits_for_its_task_while_the_server_cannot_be_reached() {
    for era in ERAS {
        let server = HttpServer::conformance(era);
        let proxy = Proxy::to(server.port);
        let home = Home::new();
        let url = format!("http://127.0.0.1:{}/mcp", proxy.port);
        home.configure(&json!({ "mcpServers": { "jobs": { "url": url } } }).to_string());
        let mut command = home.command(&["call", "jobs.long_job", "seconds=4", "-o", "json"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let _calling = Running::start(&mut command);
        let task = || home.run(&["tasks", "-o", "json"]).json()[0].clone();
        until(|| (task()["status"] == json!("working")).then_some(()));
        proxy.set_down(true);
        until(|| task()["message"].as_str().is_some_and(|said| said.contains("cannot be reached")).then_some(()));
        proxy.set_down(false);
        until(|| (task()["status"] != json!("working")).then_some(()));
        assert_eq!(task()["status"], json!("completed"), "{era}: {}", task());
    }
}
