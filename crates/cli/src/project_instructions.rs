//! `TOOLWAY.md` of the project: asks the user whether a model may get it, and shows all of it.

use serde_json::json;
use toolway_agent::ProjectInstructions;
use toolway_config::{
    consent::Accepted,
    instructions::{Instructions, InstructionsError, InstructionsStatus},
};
use toolway_host::{private_file::user, record::kind};

use crate::{
    app::App,
    exit_code::ExitCode,
    line_difference::line_difference,
    output::{Output, clean, is_interactive},
    report::Report,
};

/// Hex digits of a digest that are shown and required: 128 bits.
const DIGEST: usize = 32;

/// Whether a command asks about instructions that are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// At a terminal.
    Allowed,
    /// Never: it works without a user.
    Never,
}

impl App {
    /// The instructions of the project that a model gets. Asks the user about those that are not accepted, or says why they
    /// are not used. With `--config` there is no project.
    pub(crate) fn project_instructions(
        &self,
        asking: Asking,
        output: &mut Output,
    ) -> Result<Option<ProjectInstructions>, Report> {
        let found = match self.find_instructions() {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                output.notice(&format!("toolway: {error}"));
                return Ok(None);
            }
        };
        if !found.is_accepted() {
            if asking == Asking::Never || !is_interactive() {
                output.notice(&format!("toolway: {}\nhint: {}", introduction(&found), hint(&found)));
                return Ok(None);
            }
            output.notice(&format!("toolway: {}\n{}", introduction(&found), shown(&found)));
            if !self.confirm("Let the model get these instructions? [y/N]")? {
                output.notice("toolway: the project instructions are not used");
                return Ok(None);
            }
            self.accept_instructions(&found, output)?;
        }
        Ok(Some(ProjectInstructions { file: found.file.display().to_string(), text: found.text }))
    }

    /// The instructions of the project; `None` if it has none.
    pub(crate) fn find_instructions(&self) -> Result<Option<Instructions>, InstructionsError> {
        let search = match &self.reach.config {
            Some(_) => return Ok(None),
            None => self.project().unwrap_or_default(),
        };
        // An unreadable file counts as nothing accepted; accepting reports the error.
        let accepted = self.acceptance_file().and_then(|file| Accepted::read(&file).ok()).unwrap_or_default();
        Instructions::find(&search, user(), &accepted)
    }

    /// Accepts instructions without asking; the digest proves that the user has seen them.
    pub(crate) fn accept_instructions_by_digest(
        &self,
        found: &Instructions,
        seen: &str,
        output: &mut Output,
    ) -> Result<(), Report> {
        if seen.len() < DIGEST || !found.digest.to_string().starts_with(&seen.to_ascii_lowercase()) {
            let hint = "the given digest does not match the current text";
            return Err(unaccepted(found).hint(hint));
        }
        self.accept_instructions(found, output)
    }

    pub(crate) fn accept_instructions(&self, found: &Instructions, output: &mut Output) -> Result<(), Report> {
        let Some(file) = self.acceptance_file() else {
            output.notice("toolway: no home directory to store this in; it holds for this command only");
            return Ok(());
        };
        let acceptance = found.acceptance();
        let kept = Accepted::update(&file, |accepted| accepted.insert_instructions(found.file.clone(), acceptance));
        kept.map_err(|error| {
            Report::new(ExitCode::Internal, "state", format!("cannot store the acceptance: {error}"))
        })?;
        let details =
            json!({ "change": "instructions-accepted", "file": found.file, "digest": found.digest.to_string() });
        self.audit(kind::CONFIGURATION, None, None, &details);
        Ok(())
    }

    /// Ends the acceptance; returns whether there was one.
    pub(crate) fn revoke_instructions(&self, found: &Instructions) -> Result<bool, Report> {
        let Some(file) = self.acceptance_file() else { return Ok(false) };
        let mut was_accepted = false;
        let kept = Accepted::update(&file, |accepted| {
            was_accepted = accepted.remove_instructions(&found.file).is_some();
        });
        kept.map_err(|error| Report::new(ExitCode::Internal, "state", format!("cannot store the change: {error}")))?;
        if was_accepted {
            let details = json!({ "change": "instructions-revoked", "file": found.file });
            self.audit(kind::CONFIGURATION, None, None, &details);
        }
        Ok(was_accepted)
    }
}

/// The refusal without an interactive terminal, with the whole text.
pub(crate) fn unaccepted(found: &Instructions) -> Report {
    Report::new(ExitCode::Denied, "not_accepted", introduction(found)).detail(shown(found)).hint(hint(found))
}

/// Whether instructions are used, in words.
pub(crate) fn state(found: &Instructions) -> &'static str {
    match found.status {
        InstructionsStatus::Accepted => "accepted",
        InstructionsStatus::New => "not used until you accept them",
        InstructionsStatus::Changed(_) => "changed; not used until you accept them again",
    }
}

/// What the instructions say, and what has changed since they were accepted. Nothing is left out.
pub(crate) fn shown(found: &Instructions) -> String {
    let mut text = String::new();
    match &found.status {
        InstructionsStatus::Changed(Some(before)) => {
            text.push_str("Changes since you accepted them:\n");
            let lines = line_difference(&clean::exact(before), &clean::exact(&found.text));
            text.extend(lines.iter().map(|line| format!("  {line}\n")));
        }
        InstructionsStatus::Changed(None) => text.push_str("The accepted text is not kept any more.\n"),
        InstructionsStatus::Accepted | InstructionsStatus::New => {}
    }
    text.push_str("The model would get, with every request:\n");
    text.extend(clean::exact(&found.text).lines().map(|line| format!("  {line}\n")));
    text.trim_end().to_owned()
}

fn introduction(found: &Instructions) -> String {
    format!("the project instructions `{}` are {}", found.file.display(), state(found))
}

/// The command that accepts instructions.
pub(crate) fn hint(found: &Instructions) -> String {
    let digest = &found.digest.to_string()[..DIGEST];
    format!(
        "read them with `toolway trust instructions`; to accept exactly this text, run: toolway trust instructions --digest {digest}"
    )
}
