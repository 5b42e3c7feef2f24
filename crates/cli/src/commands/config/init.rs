//! `toolway config init`: writes a commented example.

use toolway_config::{document::Language, edit::replace};
use toolway_host::record::kind;

use crate::{
    app::App,
    commands::servers::apply_edit::cannot_write,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Write a commented example as your user file, or to the file of --config
///
/// An existing file is never changed. All servers of the example are disabled; remove what you do not need. A file name that
/// ends with `.yaml` or `.yml` gets YAML, any other JSON with comments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InitArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway config init
  toolway config init --config team.yaml";

const JSON: &str = include_str!("init/toolway.json");
const YAML: &str = include_str!("init/toolway.yaml");

pub(super) fn run(InitArgs {}: &InitArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let file = app.reach.config.clone().or_else(|| app.paths.user_config());
    let no_home = || Report::usage("config", "no home directory for the configuration; name a file with --config");
    let file = file.ok_or_else(no_home)?;
    if file.symlink_metadata().is_ok() {
        let report = Report::usage("file_exists", format!("`{}` already exists and was not changed", file.display()));
        return Err(report.hint("show its values with `toolway config show`, or name another file with --config"));
    }
    let text = match Language::of(&file) {
        Language::Yaml => YAML,
        Language::Jsonc => JSON,
        Language::Toml => return Err(Report::usage("config", "TOML is not supported; use `.json` or `.yaml`")),
    };
    replace(&file, text).map_err(|error| cannot_write(&file, &error))?;
    let details = serde_json::json!({ "change": "created", "file": file });
    app.audit(kind::CONFIGURATION, None, None, &details);
    match output.format {
        Format::Json | Format::Ndjson => super::print(&serde_json::json!({ "file": file }), output),
        Format::Human | Format::Raw => output.line(&format!("Wrote {}", file.display())),
    }
    Ok(ExitCode::Ok)
}
