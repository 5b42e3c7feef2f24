//! `/api/v1/servers`: states, tools and commands. `entries` adds, changes and removes servers.

use std::sync::Arc;

use toolway_config::{ServerName, server::Standing};
use toolway_host::connection::{Phase, ServerStatus};

use super::{Answered, blocking, done};
use crate::{console::Console, error::ApiError, reply, view::server};

pub(super) fn list(console: &Console) -> Answered {
    let catalog = console.host.own_catalog();
    let statuses = console.host.servers();
    let failure = |status: &ServerStatus| console.backend.sign_in_failure(&status.server);
    let view = |status| server::view(&console.host, &catalog, status, failure(status));
    let views: Vec<_> = statuses.iter().map(view).collect();
    reply::json(&views)
}

pub(super) async fn show(console: &Console, name: &str) -> Answered {
    let name = find(console, name)?;
    let backend = Arc::clone(&console.backend);
    let host = console.host.clone();
    // Roots of clients and the memory of processes are read from the file system.
    let details = blocking(move || {
        let status = host.status(&name)?;
        let facts =
            server::ServerFacts { sign_in_failure: backend.sign_in_failure(&name), command: backend.command(&name) };
        Ok::<_, ApiError>(server::details(&host, &status, facts))
    });
    reply::json(&details.await??)
}

/// Carries out a command. Connecting does not wait for its end: events tell the page.
pub(super) async fn act(console: &Console, name: &str, action: &str) -> Answered {
    let name = find(console, name)?;
    let host = console.host.clone();
    let is_disabled = host.status(&name)?.phase == Phase::Disabled;
    match action {
        "connect" | "restart" | "sign-in" if is_disabled => {
            return Err(ApiError::conflict(format!("server `{name}` is disabled")).hint("enable it first"));
        }
        "connect" => {
            console.commands.spawn(async move { drop(host.connect(&name).await) });
        }
        "restart" => {
            console.commands.spawn(async move { drop(host.reconnect(&name).await) });
        }
        "disconnect" => {
            console.commands.spawn(async move { drop(host.disconnect(&name).await) });
        }
        "sign-in" => {
            let page = console.backend.sign_in(&name).await?;
            return reply::json(&page);
        }
        "enable" => toggle(console, name, Standing::Enabled).await?,
        "disable" => toggle(console, name, Standing::Disabled).await?,
        other => return Err(ApiError::not_found(format!("unknown action `{other}`"))),
    }
    done()
}

/// In the configuration if the server is defined there, else until the end of this run.
async fn toggle(console: &Console, name: ServerName, standing: Standing) -> Result<(), ApiError> {
    let (backend, configured) = (Arc::clone(&console.backend), name.clone());
    let is_configured = blocking(move || backend.set_enabled(&configured, standing == Standing::Enabled)).await??;
    let host = console.host.clone();
    if !is_configured {
        console.commands.spawn(async move { drop(host.toggle(&name, standing).await) });
    }
    Ok(())
}

pub(super) fn find(console: &Console, name: &str) -> Result<ServerName, ApiError> {
    let known = name.parse().ok().filter(|name| console.host.has(name));
    known.ok_or_else(|| ApiError::not_found("unknown server"))
}
