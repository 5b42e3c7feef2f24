//! Processes of the running gateway, with the caller and the memory of each, and whether they could be fewer.

use serde_json::{Value, json};
use toolway_gateway::control::ControlRequest;
use toolway_host::connection::process_memory::ProcessMemory;

use crate::{app::App, output::Output};

/// The processes of one server.
pub(super) struct ServerProcesses {
    server: String,
    processes: Vec<ServerProcess>,
}

struct ServerProcess {
    /// The caller that it is reserved for; `None`: the one for lists and for all others.
    caller: Option<String>,
    /// Whether its caller can answer requests of the server.
    answers: bool,
    process: u32,
    /// Resident memory of the process and what it started; `None` where the system does not tell.
    bytes: Option<u64>,
}

/// Asks the running gateway; empty without one.
pub(super) async fn find(servers: &[String], app: &App) -> Vec<ServerProcesses> {
    let order = ControlRequest::Status { servers: servers.to_vec() };
    let Ok(Some(reply)) = app.ask_gateway(&order).await else { return Vec::new() };
    let memory = ProcessMemory::read();
    let servers = reply.value["servers"].as_array().into_iter().flatten();
    let found = servers.map(|server| ServerProcesses::of(server, &memory));
    found.filter(|found| !found.processes.is_empty()).collect()
}

/// Prints one line per server, and what would make them fewer.
pub(super) fn print(found: &[ServerProcesses], output: &mut Output) {
    if found.is_empty() {
        return;
    }
    output.line("");
    output.line("Processes of the running gateway:");
    for server in found {
        output.field(&format!("    {}", server.text()));
        if let Some(hint) = server.hint() {
            output.field(&format!("    hint: {hint}"));
        }
    }
}

/// The same for scripts.
pub(super) fn view(found: &[ServerProcesses]) -> Value {
    found.iter().map(ServerProcesses::view).collect()
}

impl ServerProcesses {
    fn of(server: &Value, memory: &ProcessMemory) -> Self {
        let process = |entry: &Value, caller: Option<String>| {
            let process = u32::try_from(entry["process"].as_u64()?).ok()?;
            let answers = entry["asked"].as_array().is_some_and(|asked| !asked.is_empty());
            Some(ServerProcess { caller, answers, process, bytes: memory.of(process) })
        };
        let of_callers = server["connections"].as_array().into_iter().flatten();
        let of_callers = of_callers.filter_map(|entry| process(entry, entry["caller"].as_str().map(str::to_owned)));
        let of_callers: Vec<ServerProcess> = of_callers.collect();
        // A client may have taken over the process that was started for the lists.
        let shared = process(server, None);
        let shared = shared.filter(|shared| of_callers.iter().all(|one| one.process != shared.process));
        let processes = shared.into_iter().chain(of_callers).collect();
        Self { server: server["name"].as_str().unwrap_or_default().to_owned(), processes }
    }

    fn text(&self) -> String {
        let one = |process: &ServerProcess| {
            let caller = process.caller.as_deref().unwrap_or("shared");
            process.bytes.map_or_else(|| caller.to_owned(), |bytes| format!("{caller} {}", megabytes(bytes)))
        };
        let all: Vec<String> = self.processes.iter().map(one).collect();
        let number = match self.processes.len() {
            1 => "1 process".to_owned(),
            several => format!("{several} processes"),
        };
        let total: u64 = self.processes.iter().filter_map(|process| process.bytes).sum();
        let total = if total == 0 { String::new() } else { format!(", {}", megabytes(total)) };
        format!("{}: {number}{total} ({})", self.server, all.join(", "))
    }

    /// What would make the processes fewer, and what that means.
    fn hint(&self) -> Option<String> {
        let silent = self.processes.iter().filter(|process| process.caller.is_some() && !process.answers).count();
        (2 <= silent).then(|| {
            format!(
                "{silent} callers that answer no server requests have a process each; `toolway servers update {} \
                 --sharing shared` gives them one together, in which one sees what another one changes",
                self.server
            )
        })
    }

    fn view(&self) -> Value {
        let one = |process: &ServerProcess| json!({ "caller": process.caller, "process": process.process, "bytes": process.bytes });
        let processes: Vec<Value> = self.processes.iter().map(one).collect();
        json!({ "server": self.server, "processes": processes, "hint": self.hint() })
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_host::connection::process_memory::ProcessMemory;

    use super::ServerProcesses;

    #[test]
    fn processes_are_listed_with_their_callers() {
        let caller = json!({ "caller": "client:ada", "asked": ["elicitation"], "process": 7 });
        let server = json!({ "name": "files", "process": 9, "connections": [caller] });
        let found = ServerProcesses::of(&server, &ProcessMemory::default());
        assert_eq!(found.text(), "files: 2 processes (shared, client:ada)");
        assert_eq!(found.hint(), None);
    }

    #[test]
    fn sharing_is_offered_for_callers_that_answer_nothing() {
        let caller = |name: &str, process| json!({ "caller": name, "asked": [], "process": process });
        let server = json!({ "name": "files", "connections": [caller("client:ada", 7), caller("client:bob", 8)] });
        let hint = ServerProcesses::of(&server, &ProcessMemory::default()).hint().unwrap();
        assert!(hint.contains("`toolway servers update files --sharing shared`"), "{hint}");
    }
}
