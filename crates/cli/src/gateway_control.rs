//! The gateway that runs for the same configuration, where there is one: how commands find it and speak to it.

use std::{ffi::OsStr, path::PathBuf};

use serde_json::Value;
use toolway_gateway::control::{ControlError, Order, Place};
#[cfg(unix)]
use toolway_gateway::control::{Line, Reply};

use crate::{
    app::App,
    exit_code::ExitCode,
    report::{Report, sentence},
};

/// What a gateway said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Its process.
    pub(crate) process: u32,
}

impl App {
    /// Where the gateway of this configuration has its socket; none where there is nowhere to put one.
    pub(crate) fn control_place(&self) -> Option<Place> {
        let runtime = self.environment.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from);
        let runtime = runtime.filter(|folder| folder.is_absolute()).map(|folder| folder.join("toolway"));
        let folder = runtime.or_else(|| Some(self.paths.state.as_ref()?.join("run")))?;
        let named = self.reach.config.as_ref();
        let named = named.map(|file| std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()));
        Some(Place::new(folder, named.as_deref()))
    }

    /// Gives the gateway that runs an order; none where no gateway runs, or where a server is given on the command line.
    pub(crate) async fn ask_gateway(&self, order: &Order) -> Result<Option<Answer>, Report> {
        if !self.reach.names_no_server() {
            return Ok(None);
        }
        let Some(place) = self.control_place() else { return Ok(None) };
        match self.stop.or(ask(&place, order)).await? {
            Ok(answer) => answer.map(Some),
            Err(ControlError::NoGateway | ControlError::Elsewhere) => Ok(None),
            Err(error) => Err(unheard(&error)),
        }
    }

    /// The same, where without a gateway nothing can be done.
    pub(crate) async fn tell_gateway(&self, order: &Order) -> Result<Answer, Report> {
        let none = || {
            let error = if cfg!(unix) { ControlError::NoGateway } else { ControlError::Elsewhere };
            let report = Report::usage("no_gateway", sentence(&error.to_string()));
            report.hint("This is said to a gateway that runs; `toolway serve` starts one.")
        };
        self.ask_gateway(order).await?.ok_or_else(none)
    }
}

#[cfg(unix)]
async fn ask(place: &Place, order: &Order) -> Result<Result<Answer, Report>, ControlError> {
    let mut line = Line::open(place).await?;
    let process = line.greeting.process;
    Ok(match line.ask(order).await? {
        Reply::Done(value) => Ok(Answer { value, process }),
        Reply::Failed(failure) => {
            let message = sentence(&failure.message);
            Err(match failure.code.as_str() {
                "unknown_server" => Report::usage("unknown_server", message)
                    .hint("`toolway servers status` lists those the gateway has; `toolway config reload` makes it look again."),
                "config" => Report::usage("config", message).hint("Nothing has changed."),
                _ => Report::new(ExitCode::Internal, "control", message),
            })
        }
    })
}

#[cfg(not(unix))]
async fn ask(_place: &Place, _order: &Order) -> Result<Result<Answer, Report>, ControlError> {
    Err(ControlError::Elsewhere)
}

fn unheard(error: &ControlError) -> Report {
    Report::new(ExitCode::Unreachable, "control", sentence(&error.to_string()))
}
