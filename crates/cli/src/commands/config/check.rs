//! `toolway config check`: errors and warnings of the configuration, with file and line.

use serde_json::{Value, json};
use toolway_config::{
    Place,
    show::{Strictness, check},
};

use super::{place, print};
use crate::{
    app::App,
    commands::clients,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Check the configuration: exit code 0 if it is valid, 2 if not
///
/// Finds invalid files, unusable entries, unset variables, unknown keys and settings of clients without a key. Skips servers that are disabled or not accepted.
/// Does not connect to servers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CheckArgs {
    /// Treat unknown keys as errors instead of warnings
    #[arg(long)]
    strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway config check
  toolway config check --strict                         For CI
  toolway config check --config team/toolway.yaml       Another file";

/// One error or warning.
struct ConfigProblem {
    place: Place,
    text: String,
}

pub(super) fn run(args: &CheckArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let strictness = if args.strict { Strictness::Strict } else { Strictness::Usual };
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    match app.try_load() {
        Ok(loaded) => {
            let checked = check(&loaded, &app.environment, &*app.keychain(&loaded.config.settings), strictness);
            problems.extend(checked.problems.iter().map(|error| ConfigProblem::new(error.place(), error)));
            let clients = clients::unknown(&loaded.config, app);
            let all = checked.warnings.iter().chain(&clients);
            warnings.extend(all.map(|warning| ConfigProblem::new(warning.place.clone(), warning)));
        }
        Err(error) => problems.push(ConfigProblem::new(error.place(), &error)),
    }
    show(&problems, &warnings, output);
    match problems.len() {
        0 => Ok(ExitCode::Ok),
        1 => Err(Report::usage("config", "the configuration has 1 error")),
        many => Err(Report::usage("config", format!("the configuration has {many} errors"))),
    }
}

fn show(problems: &[ConfigProblem], warnings: &[ConfigProblem], output: &mut Output) {
    let views = |findings: &[ConfigProblem]| findings.iter().map(ConfigProblem::view).collect::<Vec<_>>();
    match output.format {
        Format::Json | Format::Ndjson => {
            print(&json!({ "problems": views(problems), "warnings": views(warnings) }), output);
        }
        Format::Human | Format::Raw => {
            for finding in problems {
                output.line(&finding.text);
            }
            for finding in warnings {
                output.line(&format!("{} (warning)", finding.text));
            }
            if problems.is_empty() && warnings.is_empty() {
                output.notice("The configuration is valid.");
            }
        }
    }
}

impl ConfigProblem {
    fn new(place: Place, text: &impl ToString) -> Self {
        Self { place, text: text.to_string() }
    }

    fn view(&self) -> Value {
        let mut view = place(&self.place);
        let prefix = format!("{}: ", self.place);
        view["message"] = self.text.strip_prefix(&prefix).unwrap_or(&self.text).into();
        view
    }
}
