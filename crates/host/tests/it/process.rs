//! Servers as processes: start, environment, end and era cache.

mod ending;
mod era_memory;
#[cfg(target_os = "linux")]
mod keeper;
mod starting;

use std::{fs, path::Path};

use rustix::process::Pid;
use toolway_host::connection::Program;

use crate::stage::{Stage, within};

/// A server written in shell: `first` runs before it reads, `last` after stdin ended. It writes its process id to the file
/// `pid` and every received message to `received`.
fn scripted(stage: &Stage, first: &str, answers: &str, last: &str) -> Program {
    let folder = stage.make_folder("scripted");
    let script = format!(
        r#"cd "$1"
echo $$ > pid
{first}
result() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
refusal() {{ printf '{{"jsonrpc":"2.0","id":%s,"error":%s}}\n' "$id" "$1"; }}
while read -r line; do
    printf '%s\n' "$line" >> received
    id=${{line#*\"id\":}}
    id=${{id%%[,\}}]*}}
    case $line in
    {answers}
    *'"id":'*) refusal '{{"code":-32601,"message":"unknown"}}' ;;
    esac
done
{last}"#
    );
    let arguments = ["-c", &script, "sh", folder.to_str().unwrap()].map(str::to_owned).to_vec();
    Program { arguments, ..Program::new("sh") }
}

/// Answers the handshake of the legacy era.
const LEGACY: &str = r#"*'"method":"initialize"'*) result '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}' ;;"#;

/// Answers discovery of the modern era and refuses the legacy handshake.
const MODERN: &str = r#"*'"method":"server/discover"'*) result '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}' ;;
    *'"method":"initialize"'*) refusal '{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}' ;;"#;

/// The lines that a scripted server wrote to this file.
fn written(stage: &Stage, file: &str) -> Vec<String> {
    let text = fs::read_to_string(stage.path("scripted").join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The process id that it wrote to this file.
fn pid(stage: &Stage, file: &str) -> Pid {
    Pid::from_raw(written(stage, file)[0].trim().parse().unwrap()).unwrap()
}

/// Resolves when a process has ended or is a zombie, which remains if process 1 is not an init.
async fn gone(pid: Pid) {
    let ended = async {
        while is_alive(pid) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within(&format!("the end of process {pid:?}"), ended).await;
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("stat"));
    let is_zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")));
    rustix::process::test_kill_process(pid).is_ok() && !is_zombie
}
