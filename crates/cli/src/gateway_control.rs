//! Finds the running gateway of the same configuration and sends it orders over its control socket.

use std::{ffi::OsStr, path::PathBuf, time::Duration};

use serde_json::Value;
#[cfg(unix)]
use toolway_gateway::control::{ControlConnection, ControlResponse};
use toolway_gateway::control::{ControlError, ControlRequest, ControlSocket};

use crate::{app::App, exit_code::ExitCode, output::Output, report::Report};

/// Successful reply of the gateway.
#[derive(Debug)]
pub(crate) struct GatewayReply {
    pub(crate) value: Value,
    /// PID of the gateway.
    pub(crate) process: u32,
}

/// What the gateway says of a server that did not change.
const KEPT: &str = "kept";
/// Maximum time for the reply to an order that the gateway carries out at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

impl App {
    /// Location of the control socket for this configuration; `None` without a runtime or state directory.
    pub(crate) fn control_place(&self) -> Option<ControlSocket> {
        let runtime = self.environment.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from);
        let runtime = runtime.filter(|folder| folder.is_absolute()).map(|folder| folder.join("toolway"));
        let folder = runtime.or_else(|| Some(self.paths.state.as_ref()?.join("run")))?;
        let named = self.reach.config.as_ref();
        let named = named.map(|file| std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()));
        Some(ControlSocket::new(folder, named.as_deref()))
    }

    /// Sends an order to the running gateway. `None` if no gateway runs, or if a server is given on the command line.
    pub(crate) async fn ask_gateway(&self, order: &ControlRequest) -> Result<Option<GatewayReply>, Report> {
        if !self.reach.names_no_server() {
            return Ok(None);
        }
        self.ask_gateway_of_configuration(order).await
    }

    /// Sends an order about a configured server to the running gateway, however the server is named. `None` if no gateway
    /// runs.
    pub(crate) async fn ask_gateway_of_configuration(
        &self,
        order: &ControlRequest,
    ) -> Result<Option<GatewayReply>, Report> {
        let Some(place) = self.control_place() else { return Ok(None) };
        match self.stop.or(ask(&place, order)).await? {
            Ok(answer) => answer.map(Some),
            Err(ControlError::NoGateway | ControlError::Unsupported) => Ok(None),
            Err(error) => Err(control_failure(&error)),
        }
    }

    /// Sends an order to the running gateways of all configurations, which share the client keys.
    pub(crate) async fn ask_all_gateways(
        &self,
        order: &ControlRequest,
    ) -> Result<Vec<Result<GatewayReply, Report>>, Report> {
        let places = self.control_place().map(|place| place.of_all_configurations()).unwrap_or_default();
        let mut replies = Vec::new();
        for place in places {
            let answer = tokio::time::timeout(REPLY_TIMEOUT, ask(&place, order));
            match self.stop.or(answer).await? {
                Ok(Ok(answer)) => replies.push(answer),
                Ok(Err(ControlError::NoGateway | ControlError::Unsupported)) => {}
                Ok(Err(error)) => replies.push(Err(control_failure(&error))),
                Err(_) => {
                    replies.push(Err(Report::new(ExitCode::Unreachable, "control", "the gateway does not reply")))
                }
            }
        }
        Ok(replies)
    }

    /// Makes the running gateway use an edit that was just written, and says what happened there. The edit is written in any
    /// case, so a gateway that refuses it is a warning.
    pub(crate) async fn apply_in_gateway(&self, output: &mut Output) -> Result<(), Report> {
        let Some(place) = self.control_place() else { return Ok(()) };
        let reply = self.stop.or(tokio::time::timeout(REPLY_TIMEOUT, ask(&place, &ControlRequest::Reload {}))).await?;
        let problem = match reply {
            Ok(Ok(Ok(GatewayReply { value, .. }))) => {
                for server in value["servers"].as_array().into_iter().flatten() {
                    let text = |key: &str| server[key].as_str().unwrap_or_default();
                    if text("happened") != KEPT {
                        let (name, happened) = (text("name"), text("happened"));
                        output.notice(&format!("toolway: in the running gateway: `{name}` {happened}"));
                    }
                }
                return Ok(());
            }
            Ok(Err(ControlError::NoGateway | ControlError::Unsupported)) => return Ok(()),
            Ok(Ok(Err(report))) => report.message,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not reply".to_owned(),
        };
        output.notice(&format!(
            "toolway: warning: the running gateway does not use this yet: {problem}; try `toolway config reload`"
        ));
        Ok(())
    }

    /// Like [`Self::ask_gateway`], but fails if no gateway runs.
    pub(crate) async fn require_gateway(&self, order: &ControlRequest) -> Result<GatewayReply, Report> {
        let none = || {
            let error = if cfg!(unix) { ControlError::NoGateway } else { ControlError::Unsupported };
            let report = Report::usage("no_gateway", format!("this command needs a running gateway: {error}"));
            report.hint("start one with `toolway serve`")
        };
        self.ask_gateway(order).await?.ok_or_else(none)
    }
}

/// Sends one order on a connection of its own.
#[cfg(unix)]
pub(crate) async fn ask(
    place: &ControlSocket,
    order: &ControlRequest,
) -> Result<Result<GatewayReply, Report>, ControlError> {
    let mut connection = ControlConnection::open(place).await?;
    let process = connection.greeting.process;
    Ok(match connection.request(order).await? {
        ControlResponse::Done(value) => Ok(GatewayReply { value, process }),
        ControlResponse::Failed(failure) => {
            let message = failure.message;
            Err(match failure.code.as_str() {
                "unknown_server" => Report::usage("unknown_server", message).hint(
                    "`toolway servers status` lists the gateway's servers; `toolway config reload` makes it read the \
                     configuration again",
                ),
                "console" => Report::usage("no_console", message)
                    .hint("restart the gateway with `toolway serve`, without `--console off`"),
                "config" => Report::usage("config", message).hint("the gateway keeps its current configuration"),
                "not_waiting" => {
                    Report::usage("not_waiting", message).hint("list what waits with `toolway inbox list`")
                }
                "invalid_answer" => Report::usage("invalid_answer", message),
                "hidden_characters" => Report::usage("hidden_characters", message)
                    .hint("see them with `toolway inbox show ID`, then answer with `--allow-hidden` to approve them"),
                "call" => Report::new(ExitCode::Protocol, "call", message),
                "park" => Report::new(ExitCode::InputRequired, "input_required", message),
                "own_server" => Report::new(ExitCode::Denied, "denied", message),
                _ => Report::new(ExitCode::Internal, "control", message),
            })
        }
    })
}

#[cfg(not(unix))]
pub(crate) async fn ask(
    _place: &ControlSocket,
    _order: &ControlRequest,
) -> Result<Result<GatewayReply, Report>, ControlError> {
    Err(ControlError::Unsupported)
}

fn control_failure(error: &ControlError) -> Report {
    Report::new(ExitCode::Unreachable, "control", error.to_string())
}
