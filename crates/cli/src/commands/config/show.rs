//! `toolway config show`: every value and its origin.

use serde_json::{Value, json};
use toolway_config::{
    Origin,
    show::{ShownValue, show},
};

use super::{place, print};
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Show every value and where it comes from, with secrets masked
///
/// Project servers that are not accepted are not included; `toolway servers` lists them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowConfigArgs {
    /// Only this key and the keys below it, e.g. `requestTimeout` or `mcpServers.files`
    key: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway config show
  toolway config show mcpServers.files
  toolway config show -o json | jq '.values[] | select(.origin.from != \"default\")'";

pub(super) fn run(args: &ShowConfigArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config(output)?;
    let mut values = show(&config);
    if let Some(key) = &args.key {
        values.retain(|value| is_under(&value.key, key));
        if values.is_empty() {
            let report = Report::usage("unknown_key", format!("unknown key `{key}`"));
            return Err(report.hint("list all keys with `toolway config show`"));
        }
    }
    match output.format {
        Format::Json => print(&json!({ "values": values.iter().map(view).collect::<Vec<_>>() }), output),
        Format::Ndjson => values.iter().for_each(|value| print(&view(value), output)),
        Format::Raw => values.iter().for_each(|value| output.line(&format!("{}={}", value.key, value.value))),
        Format::Human => {
            let row = |value: &ShownValue| [value.key.clone(), value.value.to_string(), value.origin.to_string()];
            output.table(["KEY", "VALUE", "FROM"], &values.iter().map(row).collect::<Vec<_>>());
        }
    }
    Ok(ExitCode::Ok)
}

fn is_under(key: &str, wanted: &str) -> bool {
    key.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn view(value: &ShownValue) -> Value {
    json!({ "key": value.key, "value": value.value, "origin": origin(&value.origin) })
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "from": "default" }),
        Origin::File(at) => {
            let mut view = place(at);
            view["from"] = "file".into();
            view
        }
        Origin::Variable(name) => json!({ "from": "variable", "name": name }),
        Origin::Flag(name) => json!({ "from": "option", "name": name }),
    }
}
