//! `/api/v1/servers`: states, tools, commands, and adding a server.

use std::sync::Arc;

use serde::Deserialize;
use toolway_config::{ServerName, server::Standing};
use toolway_host::connection::Phase;

use super::{Answered, blocking, done};
use crate::{console::Console, error::ApiError, reply, view::server};

/// Pasted text, and the name for the entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pasted {
    text: String,
    name: Option<String>,
    /// Whether the user has agreed to run the command or to connect to the URL.
    #[serde(default)]
    consent: bool,
}

impl Pasted {
    fn name(&self) -> Option<&str> {
        self.name.as_deref().map(str::trim).filter(|name| !name.is_empty())
    }

    fn require_consent(&self) -> Result<(), ApiError> {
        if self.consent {
            return Ok(());
        }
        let error = ApiError::new(
            http::StatusCode::FORBIDDEN,
            "consent",
            "the server was not started: your consent is missing",
        );
        Err(error.hint("review what will run, then confirm it"))
    }
}

pub(super) fn list(console: &Console) -> Answered {
    let catalog = console.host.catalog();
    let statuses = console.host.servers();
    let views: Vec<_> = statuses.iter().map(|status| server::view(&console.host, &catalog, status)).collect();
    reply::json(&views)
}

pub(super) fn show(console: &Console, name: &str) -> Answered {
    let status = console.host.status(&find(console, name)?)?;
    let failure = console.backend.sign_in_failure(&status.server);
    reply::json(&server::details(&console.host, &status, failure))
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

pub(super) async fn parse(console: &Console, pasted: Pasted) -> Answered {
    let backend = Arc::clone(&console.backend);
    let parsed = blocking(move || backend.parse(&pasted.text, pasted.name())).await??;
    reply::json(&parsed)
}

pub(super) async fn test(console: &Console, pasted: Pasted) -> Answered {
    pasted.require_consent()?;
    let report = console.backend.test(&pasted.text, pasted.name()).await?;
    reply::json(&report)
}

pub(super) async fn add(console: &Console, pasted: Pasted) -> Answered {
    pasted.require_consent()?;
    let backend = Arc::clone(&console.backend);
    let added = blocking(move || backend.add(&pasted.text, pasted.name())).await??;
    let host = console.host.clone();
    let name = added.name.clone();
    console.commands.spawn(async move { drop(host.connect(&name).await) });
    reply::json(&added)
}

fn find(console: &Console, name: &str) -> Result<ServerName, ApiError> {
    let known = name.parse().ok().filter(|name| console.host.has(name));
    known.ok_or_else(|| ApiError::not_found("unknown server"))
}
