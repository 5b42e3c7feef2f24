//! `toolway config path`: the files and directories that Toolway uses.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::print;
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Print the files and directories that Toolway uses
///
/// With `-o raw`, prints only your user file, which may not exist yet.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PathArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway config path
  $EDITOR \"$(toolway config path -o raw)\"";

pub(super) fn run(PathArgs {}: &PathArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    // An invalid file must be listed too.
    let own = app.try_load().ok().and_then(|loaded| loaded.own_file);
    let own = own.or_else(|| app.reach.config.clone()).or_else(|| app.paths.user_config());
    let project = match app.reach.config {
        Some(_) => None,
        None => app.project()?.project.map(|project| project.file),
    };
    let known = [
        ("user", own),
        ("project", project),
        ("accepted", app.acceptance_file()),
        ("state", app.paths.state.clone()),
        ("cache", app.paths.cache.clone()),
    ];
    show(&known, output)
}

fn show(known: &[(&str, Option<PathBuf>)], output: &mut Output) -> Result<ExitCode, Report> {
    let there = known.iter().filter_map(|(what, path)| Some((*what, path.as_deref()?)));
    match output.format {
        Format::Json | Format::Ndjson => {
            let paths = there.map(|(what, path)| (what.to_owned(), Value::from(path.display().to_string())));
            print(&Value::Object(paths.collect::<Map<_, _>>()), output);
        }
        Format::Human => {
            let row = |(what, path): (&str, &Path)| {
                let note = if path.exists() { "" } else { "does not exist" };
                [what.to_owned(), path.display().to_string(), note.to_owned()]
            };
            output.table(["WHAT", "PATH", ""], &there.map(row).collect::<Vec<_>>());
        }
        Format::Raw => {
            let no_home = || Report::usage("config", "no home directory, so there is no user file");
            let own = known.iter().find_map(|(what, path)| path.as_deref().filter(|_| *what == "user"));
            output.content(format!("{}\n", own.ok_or_else(no_home)?.display()).as_bytes());
        }
    }
    Ok(ExitCode::Ok)
}
