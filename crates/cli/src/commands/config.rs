//! `toolway config`: writes, shows and checks the configuration.

mod check;
mod init;
mod path;
mod reload;
mod show;

use clap::Subcommand;
use serde_json::Value;
use toolway_config::{Place, schema};
use toolway_wire::json::Raw;

use crate::{app::App, effect::Effect, exit_code::ExitCode, output::Output, report::Report};

/// Write, show and check the configuration
///
/// It is merged from defaults, your user file, the project file, the environment (TOOLWAY_*) and command-line options; later
/// ones override earlier ones. These commands do not connect to servers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(init::InitArgs),
    Show(show::ShowConfigArgs),
    Check(check::CheckArgs),
    Path(path::PathArgs),
    Reload(reload::ReloadArgs),
    Schema(SchemaArgs),
}

/// Print the JSON Schema of the configuration, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = SCHEMA_EXAMPLES)]
struct SchemaArgs {}

const EXAMPLES: &str = "\
Examples:
  toolway config init                   Write a commented example
  toolway config show                   Every value with its file and line
  toolway config check                  Errors and warnings with file and line
  toolway config path                   Which files are used
  toolway config reload                 Make the running gateway read them again";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  toolway config schema > toolway.schema.json     Then: { \"$schema\": \"./toolway.schema.json\", … }";

impl ConfigArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.action {
            Action::Init(_) | Action::Reload(_) => Effect::Widens,
            Action::Show(_) | Action::Check(_) | Action::Path(_) | Action::Schema(_) => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &ConfigArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.action {
        Action::Init(args) => init::run(args, app, output),
        Action::Show(args) => show::run(args, app, output),
        Action::Check(args) => check::run(args, app, output),
        Action::Path(args) => path::run(args, app, output),
        Action::Reload(args) => reload::run(args, app, output).await,
        Action::Schema(SchemaArgs {}) => {
            output.content(format!("{:#}\n", schema::schema()).as_bytes());
            Ok(ExitCode::Ok)
        }
    }
}

/// Prints one JSON value.
pub(crate) fn print(value: &Value, output: &mut Output) {
    output.json(&Raw::of(value));
}

/// File and line as JSON; line 0 means no line.
pub(crate) fn place(place: &Place) -> Value {
    let mut value = serde_json::json!({ "file": place.file.display().to_string() });
    if place.line != 0 {
        value["line"] = place.line.into();
    }
    value
}
