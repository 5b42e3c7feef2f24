//! Writes a planned change of a configuration file, and says what was done.

use serde_json::Value;
use toolway_config::edit::Change;
use toolway_host::record::kind;

use crate::{app::App, exit_code::ExitCode, output::Output, report::Report};

/// Writes the change and notes it in the audit log, with the file in `details`. Nothing happens to a file that is not edited.
/// The caller holds the lock of the configuration.
pub(crate) fn write(change: &Change, mut details: Value, app: &App) -> Result<(), Report> {
    if let Change::Text { file, .. } = change {
        change.write()?;
        details["file"] = file.display().to_string().into();
        app.audit(kind::CONFIGURATION, None, None, &details);
    }
    Ok(())
}

/// Says what was written, or what the user has to write, and lets a running gateway use it. Without the lock.
pub(crate) async fn report(change: &Change, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match change {
        Change::Text { file, .. } => {
            output.notice(&format!("toolway: wrote {}", file.display()));
            app.apply_in_gateway(output).await?;
        }
        Change::Lines { lines, advice, .. } => {
            output.notice(&format!("YAML files are not edited. {advice}"));
            output.line(lines.trim_end());
        }
    }
    Ok(ExitCode::Ok)
}
