//! `toolway trust instructions`: `TOOLWAY.md` of the project, as a model gets it after the user has accepted it.

use serde_json::json;
use toolway_config::instructions::Instructions;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output, is_interactive},
    project_instructions,
    report::Report,
};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct InstructionsArgs {
    /// Accept without asking, if the text has this digest
    #[arg(long, conflicts_with = "revoke")]
    digest: Option<String>,

    /// Do not use the instructions any more
    #[arg(long)]
    revoke: bool,
}

pub(super) fn run(args: &InstructionsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let found = app.find_instructions().map_err(|error| Report::usage("instructions", error.to_string()))?;
    let Some(found) = found else {
        return Err(Report::usage("instructions", "the project has no `TOOLWAY.md`")
            .hint("it stands beside the project's `toolway.json`, or at the root of the repository"));
    };
    if args.revoke {
        let sentence = match app.revoke_instructions(&found)? {
            true => "are no longer accepted",
            false => "were not accepted; nothing changed",
        };
        return Ok(print(app, &found, sentence, output));
    }
    if found.is_accepted() {
        if output.format == Format::Human {
            output.line(&project_instructions::shown(&found));
        }
        return Ok(print(app, &found, "are accepted", output));
    }
    match &args.digest {
        Some(seen) => app.accept_instructions_by_digest(&found, seen, output)?,
        None if !is_interactive() => return Err(project_instructions::unaccepted(&found)),
        None => {
            output.notice(&project_instructions::shown(&found));
            if !app.confirm("Let models get these instructions? [y/N]")? {
                let message = "the project instructions were not accepted, and are not used";
                return Err(Report::new(ExitCode::Denied, "not_accepted", message));
            }
            app.accept_instructions(&found, output)?;
        }
    }
    Ok(print(app, &found, "are accepted", output))
}

fn print(app: &App, found: &Instructions, sentence: &str, output: &mut Output) -> ExitCode {
    output.notice(&format!("toolway: the project instructions `{}` {sentence}", found.file.display()));
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let is_accepted = app.find_instructions().ok().flatten().is_some_and(|found| found.is_accepted());
        let file = &found.file;
        let digest = found.digest.to_string();
        output.json(&Raw::of(&json!({ "file": file, "digest": digest, "accepted": is_accepted, "text": found.text })));
    }
    ExitCode::Ok
}
