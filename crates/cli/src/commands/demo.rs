//! `toolway demo`: one story with embedded servers, without configuration: servers that work and fail, a model that asks
//! before it writes, a form, a task, the record of it, and one URL for clients of both eras.

mod conversation;
mod gateway;
mod servers;

use std::{sync::Arc, time::Duration};

use toolway_host::{
    host::Host,
    inbox::Answerer,
    record::{CallFilter, CallState, Records},
};

use crate::{
    compose,
    exit_code::ExitCode,
    output::{self, Output},
    report::Report,
    terminal::TerminalAnswerer,
};
use conversation::DefaultAnswerer;

/// Show what Toolway does, with embedded servers
///
/// Starts three servers, of which one crashes and one hangs; searches their tools; lets a scripted model read, write, fill in a
/// form and wait for a task; shows the record of its calls; and serves the same tools to clients of two protocol
/// revisions. Takes about half a minute and needs no configuration, no installation and no key. At a terminal you answer
/// the questions; otherwise the defaults are shown.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

pub(crate) async fn run(_args: &DemoArgs, output: &mut Output) -> ExitCode {
    match tell(output).await {
        Ok(()) => ExitCode::Ok,
        Err(report) => output.report(&report),
    }
}

async fn tell(output: &mut Output) -> Result<(), Report> {
    let environment = std::env::vars_os().collect();
    let answerer: Arc<dyn Answerer> = match output::is_interactive() {
        true => Arc::new(TerminalAnswerer::new(&environment)),
        false => Arc::new(DefaultAnswerer),
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let wanted = servers::wanted(&program.to_string_lossy())?;
    let (host, records) = compose::demo_host(wanted, answerer, environment).await?;

    output.field("Toolway in half a minute: one program for all your MCP servers.");
    heading("1. Three servers start, two of them fail on purpose", output);
    servers::show(&host, output).await;
    heading("2. Find a tool among all of them: toolway tools --search \"write a note\"", output);
    search(&host, output);
    heading("3. A model works with them: toolway chat (here with a script instead of a model)", output);
    conversation::hold(&host, output).await?;
    heading("4. Every call is on record: toolway calls list", output);
    record(&*records, output).await?;
    heading("5. The same tools at one URL, for every client: toolway serve", output);
    gateway::show(&host, output).await?;
    host.shutdown().await;
    heading("Your next step", output);
    for (command, what) in [
        ("toolway import", "take over the servers of Claude, Cursor, VS Code …"),
        ("toolway servers add NAME -- COMMAND", "add a server"),
        ("toolway chat", "let a model work with them; asks before it writes"),
        ("toolway console", "the same in a browser"),
    ] {
        output.entry(&format!("   {command:<36}"), what);
    }
    Ok(())
}

fn heading(text: &str, output: &mut Output) {
    output.line("");
    output.heading(text);
}

fn search(host: &Host, output: &mut Output) {
    let catalog = host.catalog();
    for hit in catalog.search("write a note", 2) {
        let (server, tool) = (&hit.entry.origin.server, &hit.entry.item.name);
        let description = hit.entry.item.description.as_deref().unwrap_or_default();
        output.entry(&format!("   {server}.{tool}"), &format!("  {description}"));
    }
}

async fn record(records: &dyn Records, output: &mut Output) -> Result<(), Report> {
    let filter = CallFilter { limit: 20, ..CallFilter::default() };
    for call in records.calls(filter).await? {
        let name = call.tool.as_deref().unwrap_or(&call.name);
        let took = Duration::from_micros(u64::try_from(call.duration.unwrap_or_default()).unwrap_or_default());
        let approved = |by: String| match call.state {
            CallState::Refused => None,
            _ => Some(format!("approved at the {by}")),
        };
        let why = call.approved_by.and_then(approved).or(call.error).or(call.rule).unwrap_or_default();
        let rest = format!("{:>6} ms  {why}", took.as_millis());
        output.state_entry(&format!("   {name:<22}"), call.state.as_str(), 10, &rest);
    }
    Ok(())
}

/// The report of a failure that no user can mend.
fn failed(error: &dyn std::error::Error) -> Report {
    Report::new(ExitCode::Internal, "demo", error.to_string())
}
