//! `toolway assistants add | set | remove`: edits one entry of `assistants` of the user's file.

use std::path::Path;

use serde_json::json;
use toolway_config::{
    Loaded,
    edit::{AssistantEdit, Change, plan_assistant},
};
use toolway_host::record::kind;
use toolway_wire::json::Raw;

use super::members::{self, KeyArgs, Members};
use crate::{
    app::App,
    assistant,
    commands::servers::apply_edit::{lock, own_file},
    line_difference::line_difference,
    output::{Format, Output},
    report::Report,
};

/// Add an assistant, and show the difference of the file
#[derive(Debug, clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    /// Its name: 1 to 64 letters, digits, `.`, `_` or `-`
    name: String,

    #[command(flatten)]
    keys: KeyArgs,

    #[command(flatten)]
    how: HowArgs,
}

const ADD_EXAMPLES: &str = "\
Examples:
  toolway assistants add librarian --servers files --tools 'files.read_*'
  toolway assistants add builder --approval trusted-only --trusted-tools 'git.*' --max-tool-calls 40 --dry-run";

/// Change keys of an assistant, and show the difference of the file
#[derive(Debug, clap::Args)]
#[command(after_help = SET_EXAMPLES)]
pub(super) struct SetArgs {
    /// Its name
    name: String,

    /// Remove a key, e.g. `model` or `budgets.maxTime`; repeatable
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,

    #[command(flatten)]
    keys: KeyArgs,

    #[command(flatten)]
    how: HowArgs,
}

const SET_EXAMPLES: &str = "\
Examples:
  toolway assistants set librarian --approval trusted-only --trust-tool files.read_text_file
  toolway assistants set librarian --unset model";

/// Remove an assistant
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(super) struct RemoveArgs {
    /// Its name
    name: String,

    #[command(flatten)]
    how: HowArgs,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  toolway assistants remove librarian";

#[derive(Debug, clap::Args)]
struct HowArgs {
    /// Show the difference and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn add(args: &AddArgs, app: &App, output: &mut Output) -> Result<(), Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    if let Some(known) = loaded.config.settings.assistants.value.get(&args.name) {
        let message = format!("assistant `{}` already exists ({})", args.name, known.place);
        let hint = format!("change it with `toolway assistants set {} …`", args.name);
        return Err(Report::usage("exists", message).hint(hint));
    }
    let mut members = members::members(&args.keys, None, &loaded, app)?;
    if !members.iter().any(|(key, _)| key == "approval") {
        let default = toolway_config::Approval::default().as_str().to_owned();
        members.push(("approval".to_owned(), Some(toolway_config::edit::NewValue::Text(default))));
    }
    let pending = Pending { verb: "added", name: &args.name, how: &args.how };
    pending.apply(&AssistantEdit::Set(members), &loaded, app, output)
}

pub(super) fn set(args: &SetArgs, app: &App, output: &mut Output) -> Result<(), Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    let known = assistant::find(&loaded.config.settings, &args.name)?;
    let mut members: Members = members::members(&args.keys, Some(known), &loaded, app)?;
    for key in &args.unset {
        members.push(members::removal(key)?);
    }
    if members.is_empty() {
        return Err(Report::usage("arguments", "nothing to change; see `toolway assistants set --help`"));
    }
    let pending = Pending { verb: "changed", name: &args.name, how: &args.how };
    pending.apply(&AssistantEdit::Set(members), &loaded, app, output)
}

pub(super) fn remove(args: &RemoveArgs, app: &App, output: &mut Output) -> Result<(), Report> {
    let _lock = lock(app)?;
    let loaded = app.load()?;
    assistant::find(&loaded.config.settings, &args.name)?;
    let pending = Pending { verb: "removed", name: &args.name, how: &args.how };
    pending.apply(&AssistantEdit::Remove, &loaded, app, output)
}

/// An edit that is not applied yet.
struct Pending<'a> {
    verb: &'static str,
    name: &'a str,
    how: &'a HowArgs,
}

impl Pending<'_> {
    fn apply(&self, edit: &AssistantEdit, loaded: &Loaded, app: &App, output: &mut Output) -> Result<(), Report> {
        let change = plan_assistant(&own_file(loaded)?, self.name, edit)?;
        self.print(&change, output);
        if let Change::Text { file, before, text } = &change
            && !self.how.dry_run
            && before != text
        {
            write(&change, file, self.verb, self.name, app)?;
        }
        Ok(())
    }

    fn print(&self, change: &Change, output: &mut Output) {
        let dry = self.how.dry_run;
        let name = self.name;
        let is_human = output.format == Format::Human;
        match change {
            Change::Text { file, before, text } if is_human => {
                output.line(&file.display().to_string());
                line_difference(before, text).iter().for_each(|line| output.line(line));
                if before == text {
                    output.notice(&format!("toolway: assistant `{name}` has these values already"));
                }
            }
            Change::Text { file, before, text } => {
                let changed = !dry && before != text;
                let difference = line_difference(before, text);
                let view = json!({ "changed": changed, "file": file, "assistant": name, "difference": difference });
                output.json(&Raw::of(&view));
            }
            Change::Lines { lines, advice, .. } if is_human => {
                output.notice(&format!("YAML files are not edited. {advice}"));
                output.line(lines.trim_end());
            }
            Change::Lines { file, lines, advice } => {
                let view = json!({
                    "changed": false, "file": file, "assistant": name, "lines": lines, "advice": advice,
                });
                output.json(&Raw::of(&view));
            }
        }
        if dry && is_human {
            output.notice("toolway: nothing was written");
        }
    }
}

/// Writes a change of the assistant `name` to its file, and records that. `verb`: `added`, `changed` or `removed`.
pub(crate) fn write(change: &Change, file: &Path, verb: &str, name: &str, app: &App) -> Result<(), Report> {
    change.write()?;
    let details = json!({ "change": format!("{verb} assistant"), "file": file, "assistant": name });
    app.audit(kind::CONFIGURATION, None, None, &details);
    Ok(())
}
