//! `toolway call --detach`: a call whose command ends before it does.

use serde_json::json;
use toolway_config::server::{SessionEnd, Transport};
use toolway_gateway::control::ControlRequest;
use toolway_host::{
    call::{CallOutcome, CallRequest, TaskHandling},
    catalog::ToolEntry,
};
use toolway_wire::{
    json::Raw,
    message::{capability, result::CallResult},
    task::TaskSupport,
};

use super::show;
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    single_server_host::SingleServerHost,
    target::Target,
};

/// Fails before the server is connected if the call could not go on.
pub(super) async fn check(target: &Target, app: &App) -> Result<(), Report> {
    let Some(entry) = &target.entry else {
        let message = "`--detach` needs a configured server, so that another process can follow the task";
        return Err(Report::usage("not_configured", message).hint("add it with `toolway servers add`"));
    };
    let is_process = matches!(entry.transport, Transport::Process(_));
    if is_process && app.ask_gateway_of_configuration(&status(target)).await?.is_none() {
        return Err(needs_gateway(target, "ends with the process that started it"));
    }
    Ok(())
}

/// Makes the call in the running gateway, or here if the server keeps the task for others.
pub(super) async fn run(
    single: &SingleServerHost,
    app: &App,
    entry: &ToolEntry,
    request: CallRequest,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let name = &entry.origin.raw_name;
    if !can_run_as_task(single, entry) {
        let message = format!("tool `{name}` does not run as a task, so there is nothing to detach from");
        return Err(Report::usage("no_task", message).hint("call it without `--detach`"));
    }
    let order = ControlRequest::Detach {
        server: single.name().to_string(),
        tool: name.clone(),
        arguments: request.arguments.as_ref().map_or_else(|| "{}".to_owned(), ToString::to_string),
        ttl: request.task_ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
    };
    if let Some(reply) = app.ask_gateway_of_configuration(&order).await? {
        return match (reply.value["task"].as_str(), reply.value["result"].as_str()) {
            (Some(id), _) => Ok(print_id(id, output)),
            (None, result) => answered(
                &Raw::parse(result.unwrap_or("{}").to_owned()).unwrap_or_else(|_| Raw::empty_object()),
                name,
                output,
            ),
        };
    }
    let ends_session = single.target.server.sessions == SessionEnd::End && single.has_session();
    if ends_session {
        return Err(needs_gateway(&single.target, "keeps tasks in a session, which ends with this command"));
    }
    let relay = single.host.open(CallRequest { task: TaskHandling::Background, ..request });
    let id = relay.id();
    match app.stop.or(relay.outcome()).await? {
        CallOutcome::HandedOff(_) => Ok(print_id(&id.to_string(), output)),
        CallOutcome::Answered(result) => answered(&result, name, output),
        other => Err(single.report(&other, "tools/call")),
    }
}

/// Whether the server may continue a call of the tool as a task.
fn can_run_as_task(single: &SingleServerHost, entry: &ToolEntry) -> bool {
    let catalog = single.host.catalog();
    let Some(listing) = catalog.listing_of(single.name()) else { return true };
    let declared = &listing.capabilities;
    declared.extension(capability::TASKS)
        || declared.makes_tasks_of_calls() && TaskSupport::of(&entry.item.raw) != TaskSupport::Forbidden
}

/// The server answered at once.
fn answered(result: &Raw, name: &str, output: &mut Output) -> Result<ExitCode, Report> {
    output.notice("toolway: the server answered at once; there is no task");
    let result = CallResult::view(result);
    show(&result, None, name, output)?;
    if result.is_error { Err(Report::tool_error(name)) } else { Ok(ExitCode::Ok) }
}

fn print_id(id: &str, output: &mut Output) -> ExitCode {
    match output.format {
        Format::Human | Format::Raw => output.line(id),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&json!({ "id": id }))),
    }
    ExitCode::Ok
}

fn status(target: &Target) -> ControlRequest {
    ControlRequest::Status { servers: vec![target.server.name.to_string()] }
}

fn needs_gateway(target: &Target, why: &str) -> Report {
    let message = format!("`--detach` needs a running gateway: server `{}` {why}", target.server.label);
    Report::usage("no_gateway", message).hint("start one with `toolway serve`")
}
