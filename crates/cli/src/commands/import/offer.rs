//! What `toolway import` offers at a terminal: to copy the servers that it found, or to keep reading their files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use toolway_config::{
    Loaded, Secret,
    edit::{Change, plan_imports},
    import::Echo,
    server::{DefinedBy, Format as SourceFormat},
};
use toolway_host::record::kind;

use super::{
    ImportArgs, SourceFile,
    copy::{self, Copied, CopyOutcome, Destination, EnteredInputs, MissingInput},
    is_in_use, report,
};
use crate::{
    app::App,
    commands::servers::apply_edit::{lock, own_file},
    output::{Format, Output, is_interactive},
    report::Report,
    terminal::{
        ask_yes_or_no,
        hidden_line::{self, HiddenLine},
    },
};

/// Asks whether to copy the servers, else whether to keep reading their files. Without a terminal it names the options.
pub(super) async fn offer(
    args: &ImportArgs,
    files: &[SourceFile],
    loaded: &Loaded,
    app: &App,
    output: &mut Output,
) -> Result<(), Report> {
    let formats = readable(files, loaded);
    if !is_interactive() || output.format != Format::Human {
        hint(args, copyable(files, loaded), &formats, output);
        return Ok(());
    }
    let planned = copy::preview(files, Destination::User, app)?;
    let labels = copied_labels(&planned);
    if labels.is_empty() && formats.is_empty() {
        return Ok(());
    }
    output.notice("");
    if !labels.is_empty() {
        say_plan(&planned, &labels, output);
        let question = match labels.as_slice() {
            [label] => format!("Copy `{label}` to {}? [Y/n]", planned.file.display()),
            several => format!("Copy these {} servers to {}? [Y/n]", several.len(), planned.file.display()),
        };
        if ask_yes_or_no(&question, app).await? {
            let entered = enter_inputs(&planned, output).await?;
            let copied = copy::copy_all(files, Destination::User, &entered, app)?;
            report::print_copied(files, &copied, output);
            return app.apply_in_gateway(output).await;
        }
    }
    if !formats.is_empty() {
        let names: Vec<&str> = formats.iter().map(|format| format.as_str()).collect();
        let question = format!("Keep reading the files of {} where they are instead? [Y/n]", names.join(", "));
        if ask_yes_or_no(&question, app).await? {
            keep_reading(&formats, app, output)?;
            return app.apply_in_gateway(output).await;
        }
    }
    output.notice("Nothing was changed.");
    Ok(())
}

/// Adds the applications of these files to `imports`.
pub(super) fn keep(files: &[SourceFile], loaded: &Loaded, app: &App, output: &mut Output) -> Result<(), Report> {
    match readable(files, loaded).as_slice() {
        [] => Err(Report::usage("usage", "no further application's file to keep reading was found")),
        formats => keep_reading(formats, app, output),
    }
}

/// Asks for the inputs that have no value yet. An empty answer leaves one without.
pub(super) async fn enter_inputs(planned: &Copied, output: &mut Output) -> Result<EnteredInputs, Report> {
    let mut entered: EnteredInputs = BTreeMap::new();
    for missing in missing_inputs(planned) {
        let MissingInput { name, input } = missing;
        if entered.contains_key(name) {
            continue;
        }
        let what = input.description.clone().unwrap_or_else(|| input.id.clone());
        let text = match input.echo {
            Echo::Hidden => read_hidden(format!("{what} (hidden; Enter to skip): ")).await?,
            Echo::Shown => {
                output.notice(&format!("{what} (Enter to skip):"));
                read_line().await
            }
        };
        if !text.is_empty() {
            entered.insert(name.clone(), Secret::new(text));
        }
    }
    Ok(entered)
}

async fn read_hidden(prompt: String) -> Result<String, Report> {
    let typed = tokio::task::spawn_blocking(move || hidden_line::read(&prompt)).await;
    match typed {
        Ok(Ok(HiddenLine::Text(text))) => Ok(text),
        Ok(Ok(HiddenLine::Left)) => Err(Report::interrupted()),
        _ => Ok(String::new()),
    }
}

async fn read_line() -> String {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line.trim().to_owned()).unwrap_or_default()
    });
    read.await.unwrap_or_default()
}

fn missing_inputs(planned: &Copied) -> impl Iterator<Item = &MissingInput> {
    planned.entries.iter().flat_map(|(_, outcome)| match outcome {
        CopyOutcome::Copied(secrets) | CopyOutcome::ManualEdit(secrets, _) => secrets.missing.as_slice(),
        CopyOutcome::Skipped(_) => &[],
    })
}

fn copied_labels(planned: &Copied) -> Vec<&str> {
    let copied = planned.entries.iter().filter(|(_, outcome)| !matches!(outcome, CopyOutcome::Skipped(_)));
    copied.map(|(origin, _)| origin.label.as_str()).collect()
}

/// Number of servers that a copy would add, without opening the vault.
fn copyable(files: &[SourceFile], loaded: &Loaded) -> usize {
    let servers = files.iter().filter_map(|file| file.imported.as_ref().ok()).flat_map(|imported| &imported.servers);
    let is_own = |name| loaded.config.servers.get(name).is_some_and(|own| own.source.format == SourceFormat::Toolway);
    let new = servers.filter(|server| server.source.defined_by == DefinedBy::User && !is_own(&server.name));
    new.map(|server| &server.name).collect::<BTreeSet<_>>().len()
}

/// The applications with servers in these files that are not read yet.
fn readable(files: &[SourceFile], loaded: &Loaded) -> Vec<SourceFormat> {
    let mut formats = Vec::new();
    for file in files {
        let format = file.found.format;
        let has_servers = file.imported.as_ref().is_ok_and(|imported| !imported.servers.is_empty());
        if has_servers
            && SourceFormat::OTHERS.contains(&format)
            && !is_in_use(loaded, format)
            && !formats.contains(&format)
        {
            formats.push(format);
        }
    }
    formats
}

/// What would be copied, what is left out and why, and what happens to secrets.
fn say_plan(planned: &Copied, labels: &[&str], output: &mut Output) {
    output.notice(&format!("To copy: {}", labels.join(", ")));
    let mut secrets = 0;
    for (origin, outcome) in &planned.entries {
        match outcome {
            CopyOutcome::Copied(found) | CopyOutcome::ManualEdit(found, _) => secrets += found.entry.count(),
            CopyOutcome::Skipped(why) => {
                output.notice(&format!("Left out: `{}` of {} ({}): {why}", origin.label, origin.host, origin.place));
            }
        }
    }
    match secrets {
        0 => {}
        1 => output.notice("1 secret goes to the vault, and the file refers to it."),
        _ => output.notice(&format!("{secrets} secrets go to the vault, and the file refers to them.")),
    }
    let inputs = missing_inputs(planned).count();
    if inputs > 0 {
        output.notice(&format!("{inputs} input(s) will be asked for and stored in the vault."));
    }
}

/// For scripts: the commands that do what a terminal is asked.
fn hint(args: &ImportArgs, count: usize, formats: &[SourceFormat], output: &mut Output) {
    let source = if args.host == super::ALL { String::new() } else { format!(" {}", args.host) };
    let copy = match count {
        0 => None,
        1 => Some(format!("copy it with `toolway import{source} --copy`")),
        _ => Some(format!("copy these {count} servers with `toolway import{source} --copy`")),
    };
    let keep = (!formats.is_empty()).then(|| format!("keep reading the file with `toolway import{source} --keep`"));
    let options: Vec<String> = copy.into_iter().chain(keep).collect();
    if !options.is_empty() {
        output.notice(&format!("hint: {}", options.join(", or ")));
    }
}

fn keep_reading(formats: &[SourceFormat], app: &App, output: &mut Output) -> Result<(), Report> {
    let _lock = lock(app)?;
    let names: Vec<&str> = formats.iter().map(|format| format.as_str()).collect();
    match plan_imports(&own_file(&app.load()?)?, formats)? {
        Change::Lines { lines, advice, .. } => {
            output.notice(&format!("YAML files are not edited. {advice}"));
            output.line(lines.trim_end());
        }
        change @ Change::Text { .. } => {
            change.write()?;
            app.audit(kind::CONFIGURATION, None, None, &json!({ "change": "imports", "applications": names }));
            if output.format == Format::Human {
                output.line(&format!("The files of {} are read where they are (`imports`).", names.join(", ")));
            } else {
                crate::commands::config::print(&json!({ "imports": names }), output);
            }
        }
    }
    Ok(())
}
