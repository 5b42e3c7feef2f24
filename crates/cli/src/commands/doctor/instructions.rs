//! `TOOLWAY.md` of the project: whether a model gets it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::DoctorArgs;
use crate::{app::App, output::Output, project_instructions};

/// The instructions of the project.
pub(super) struct InstructionsReport {
    file: PathBuf,
    is_accepted: bool,
    state: String,
    advice: Option<String>,
}

/// The instructions of the project; `None` if it has none, or if the command is about single servers.
pub(super) fn find(args: &DoctorArgs, app: &App) -> Option<InstructionsReport> {
    if !args.servers.is_empty() || !app.reach.names_no_server() {
        return None;
    }
    match app.find_instructions() {
        Ok(found) => found.map(|found| InstructionsReport {
            is_accepted: found.is_accepted(),
            state: project_instructions::state(&found).to_owned(),
            advice: (!found.is_accepted()).then(|| project_instructions::hint(&found)),
            file: found.file,
        }),
        Err(error) => {
            let state = format!("not used: {}", error.problem);
            Some(InstructionsReport { file: error.file, is_accepted: false, state, advice: None })
        }
    }
}

impl InstructionsReport {
    pub(super) fn print(&self, output: &mut Output) {
        output.line(&format!("project instructions: {} ({})", self.file.display(), self.state));
        if let Some(advice) = &self.advice {
            output.line(&format!("  {advice}"));
        }
    }

    pub(super) fn view(&self) -> Value {
        json!({ "file": self.file, "accepted": self.is_accepted, "state": self.state, "advice": self.advice })
    }
}
