//! `toolway clients list`: the keys with their rights and times.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use toolway_gateway::access::{KeyFile, KeyScope, KnownClient, LastUses, PreviousKey};
use toolway_host::time::{self, Micros};
use toolway_wire::json::Raw;

use super::GatewayKeys;
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

pub(super) async fn run(file: &KeyFile, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    // A running gateway writes when keys were used before it replies; without a reply the times are some seconds old.
    drop(GatewayKeys::ask(app, file, "").await);
    let clients = file.list()?;
    let uses = file.last_uses();
    if output.format != Format::Human {
        let shown: Vec<_> = clients.iter().map(|client| view(client, &uses)).collect();
        output.json(&Raw::of(&json!({ "clients": shown })));
        return Ok(ExitCode::Ok);
    }
    if clients.is_empty() {
        output.notice("toolway: no clients; add one with `toolway clients add <name>`");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let rows: Vec<_> = clients.iter().flat_map(|client| rows(client, &uses, now)).collect();
    output.table(["CLIENT", "CAN USE", "CREATED", "LAST USED", "EXPIRES"], &rows);
    Ok(ExitCode::Ok)
}

fn view(client: &KnownClient, uses: &LastUses) -> serde_json::Value {
    let previous = client.previous.as_ref().filter(|previous| previous.is_valid());
    json!({
        "name": client.name,
        "created": rfc3339(client.created),
        "lastUsed": client.last_used(uses).map(rfc3339),
        "expires": client.expires.map(rfc3339),
        "expired": client.is_expired(),
        "servers": client.servers,
        "tools": client.tools,
        "scope": client.scope.as_str(),
        "previous": previous.map(|previous| json!({
            "created": rfc3339(previous.created),
            "lastUsed": previous.last_used(uses).map(rfc3339),
            "expires": rfc3339(previous.expires),
        })),
    })
}

/// One row, and one more for a key that was replaced and is still accepted.
fn rows(client: &KnownClient, uses: &LastUses, now: u64) -> Vec<[String; 5]> {
    let used = |at: Option<u64>| at.map_or_else(|| "never".to_owned(), |at| ago(at, now));
    let expires = client.expires.map_or_else(|| "never".to_owned(), |at| until(at, now));
    let current =
        [client.name.clone(), rights(client), ago(client.created, now), used(client.last_used(uses)), expires];
    let previous = |previous: &PreviousKey| {
        let name = format!("{} (previous key)", client.name);
        let last = used(previous.last_used(uses));
        [name, String::new(), ago(previous.created, now), last, until(previous.expires, now)]
    };
    let previous = client.previous.as_ref().filter(|previous| previous.is_valid()).map(previous);
    [Some(current), previous].into_iter().flatten().collect()
}

/// What the client can use.
pub(super) fn rights(client: &KnownClient) -> String {
    let servers = client.servers.as_ref().map(|servers| servers.iter().cloned().collect::<Vec<_>>().join(", "));
    let tools = client.tools.as_ref().map(|tools| tools.join(", "));
    match (client.scope, servers, tools) {
        (KeyScope::Metrics, _, _) => "metrics".to_owned(),
        (KeyScope::All, None, None) => "all servers".to_owned(),
        (KeyScope::All, Some(servers), None) => servers,
        (KeyScope::All, None, Some(tools)) => format!("tools {tools}"),
        (KeyScope::All, Some(servers), Some(tools)) => format!("{servers}: tools {tools}"),
    }
}

pub(super) fn rfc3339(seconds: u64) -> String {
    time::rfc3339(Micros::try_from(seconds).unwrap_or(Micros::MAX).saturating_mul(1_000_000))
}

/// How long ago a time was, rounded down.
fn ago(at: u64, now: u64) -> String {
    match now.saturating_sub(at) {
        time if time < 2 * MINUTE => "just now".to_owned(),
        time if time < 2 * HOUR => format!("{} min ago", time / MINUTE),
        time if time < 2 * DAY => format!("{} h ago", time / HOUR),
        time => format!("{} days ago", time / DAY),
    }
}

/// How long it is until a time, rounded up.
pub(super) fn until(at: u64, now: u64) -> String {
    match at.saturating_sub(now) {
        0 => "expired".to_owned(),
        left if left <= 2 * HOUR => format!("in {} min", left.div_ceil(MINUTE)),
        left if left <= 2 * DAY => format!("in {} h", left.div_ceil(HOUR)),
        left => format!("in {} days", left.div_ceil(DAY)),
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY, HOUR, ago, until};

    #[test]
    fn times_are_relative() {
        assert_eq!((ago(100, 219), ago(100, 220)), ("just now".to_owned(), "2 min ago".to_owned()));
        assert_eq!((ago(0, 2 * HOUR), ago(0, 3 * DAY)), ("2 h ago".to_owned(), "3 days ago".to_owned()));
        assert_eq!((until(5, 5), until(12 * HOUR, 1)), ("expired".to_owned(), "in 12 h".to_owned()));
    }
}
