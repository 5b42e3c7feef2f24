//! `toolway call`: one tool, called once.

use std::{path::PathBuf, time::Duration};

use toolway_host::{
    call::{CallRequest, Target},
    catalog::{Catalog, ItemKind, ToolEntry},
    connection::Lists,
};
use toolway_wire::{
    json::Raw,
    message::{item::Tool, result::CallResult},
};

use super::tools;
use crate::{
    app::App,
    arguments::{
        self, Problem,
        call_form::CallForm,
        check::{self, Checked},
    },
    exit_code::ExitCode,
    output::{
        Format, Output,
        content::{self, Piece},
    },
    report::Report,
    save,
    schema::{self, Schema},
    session::Session,
    target::Selected,
};

/// Call one tool and print its result
///
/// The arguments are checked against the tool's schema before anything is sent. The result goes to standard output;
/// progress and everything else goes to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// `<server>.<tool>` or `<server>__<tool>`; only `<tool>` where an option gives the server
    ///
    /// The arguments can stand behind it as in code, in one word: `'files.read_file(path: "notes.txt")'`. A value there
    /// is JSON; a text may have single quotes instead.
    tool: String,

    /// `name=value`, `name:=json`, `name=@file`, a value for the next argument, one JSON object, or `-`
    ///
    /// A value becomes what the tool's schema wants; a number keeps its digits. `name:=json` is sent as it is written.
    /// `name=@file` sends a file's text, `name:=@file` its JSON, `name=@@x` the text `@x`. Values without a name go to
    /// the arguments in the schema's order. A name given several times makes a list. `-` reads one JSON object from
    /// standard input.
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,

    /// Print the exact request instead of sending it
    ///
    /// The server is started or dialled, because its schema and its era decide what would be sent.
    #[arg(long)]
    dry_run: bool,

    /// Write images, sound and other bytes to this folder or file
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
}

/// How long the arguments may be checked.
const CHECK: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  toolway call files.read_file path=notes.txt
  toolway call files.edit_file path=notes.txt edits:='[{\"oldText\":\"a\",\"newText\":\"b\"}]' --dry-run
  toolway call --stdio 'toolway sample' add 2 3
  toolway call --stdio 'toolway sample' 'add(a: 2, b: 3)'
  toolway call --stdio 'toolway sample' picture --save pictures/
  echo '{\"a\":2,\"b\":3}' | toolway call --stdio 'toolway sample' add -";

pub(crate) async fn run(args: &CallArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let form = CallForm::of(&args.tool);
    if form.is_some() && !args.arguments.is_empty() {
        let message = "Arguments stand in the parentheses or behind the tool, not in both places.";
        return Err(Report::usage("arguments", message));
    }
    let selected = app.selected(form.map_or(args.tool.as_str(), |form| form.tool), output)?;
    let meant = Target::ToolOf(selected.target.origin(&selected.name));
    app.refuse_left_out(&selected.target, ItemKind::Tool, meant).await?;
    let stdin = app.stdin(arguments::want_stdin(&args.arguments)).await?;
    app.visit(selected.target.clone(), Lists::Only(ItemKind::Tool), output, async |session, output| {
        let catalog = session.listed(ItemKind::Tool, output)?;
        let entry = find(&catalog, session, &selected)?;
        let read = |schema: &Schema| match &form {
            Some(form) => arguments::read_form(form, schema),
            None => arguments::read(&args.arguments, schema, &stdin),
        };
        let arguments = arguments_of(&entry.item, read, app, output).await?;
        let request = CallRequest {
            chosen: Some(entry.fingerprint),
            ..session.request(app, Target::ToolOf(entry.origin.clone()), Some(arguments))
        };
        if args.dry_run {
            let request = session.dry_run(app, request, "tools/call").await?;
            output.json(&request);
            return Ok(ExitCode::Ok);
        }
        call(session, app, request, args, output).await
    })
    .await
}

/// The tool that is meant: by the server's own name for it, or by the public one.
fn find<'a>(catalog: &'a Catalog, session: &Session, selected: &Selected) -> Result<&'a ToolEntry, Report> {
    let public = selected.word.parse().ok();
    let is_ours = |entry: &&ToolEntry| entry.origin.server == *session.name();
    let by_public = || public.as_ref().and_then(|name| catalog.find_tool(name)).filter(is_ours);
    match catalog.tool_at(session.name(), &selected.name).or_else(by_public) {
        Some(entry) => Ok(entry),
        None => Err(tools::unknown(catalog.tools_of(session.name()), &selected.name)),
    }
}

async fn call(
    session: &Session,
    app: &App,
    request: CallRequest,
    args: &CallArgs,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let name = request.target.name().to_owned();
    let result = CallResult::view(&session.result(app, request, "tools/call", output).await?);
    show(&result, args.save.as_ref(), &name, output)?;
    if result.is_error { Err(session.judged(Report::tool_error(&name))) } else { Ok(ExitCode::Ok) }
}

/// The arguments, read and checked.
async fn arguments_of(
    tool: &Tool,
    read: impl FnOnce(&Schema) -> Result<Raw, Problem>,
    app: &App,
    output: &mut Output,
) -> Result<Raw, Report> {
    let schema = Schema::new(tool.input_schema.clone());
    let wrong = |sentence: String| {
        let message = format!("`{}`: {sentence}", tool.name);
        Report::usage("arguments", message).hint(format!("It takes: {}", schema::signature(tool)))
    };
    let arguments = read(&schema).map_err(|problem| {
        let report = wrong(problem.sentence);
        problem.idea.into_iter().fold(report, Report::hint)
    })?;
    match checked(&schema, &arguments, app).await? {
        Checked::Fine => {}
        Checked::Wrong(sentences) => return Err(wrong(sentences.join(" "))),
        Checked::Unknown(why) => output.say(&format!("toolway: the arguments are not checked: {why}")),
    }
    Ok(arguments)
}

/// The check, in the time it may take: a schema can be made so that nobody ever comes to its end.
async fn checked(schema: &Schema, arguments: &Raw, app: &App) -> Result<Checked, Report> {
    let (schema, arguments) = (schema.clone(), arguments.clone());
    let checking = tokio::task::spawn_blocking(move || check::arguments(&schema, &arguments));
    Ok(match app.stop.or(tokio::time::timeout(CHECK, checking)).await? {
        Ok(Ok(checked)) => checked,
        Ok(Err(error)) => Checked::Unknown(error.to_string()),
        Err(_) => Checked::Unknown(format!("the schema is not done with after {CHECK:?}")),
    })
}

fn show(result: &CallResult, save: Option<&PathBuf>, tool: &str, output: &mut Output) -> Result<(), Report> {
    let pieces: Vec<Piece> = result.content.iter().map(Piece::of).collect();
    match output.format {
        Format::Json | Format::Ndjson => output.json(&result.raw),
        Format::Raw => raw(&pieces, output),
        Format::Human => human(result, &pieces, save.is_some(), output),
    }
    let bytes = pieces.iter().filter(|piece| matches!(piece, Piece::Bytes { .. }));
    for (number, piece) in (1..).zip(bytes) {
        if let Some(place) = save
            && let Some(file) = save::write(place, tool, number, piece)?
        {
            output.say(&format!("Written: {}", file.display()));
        }
    }
    Ok(())
}

pub(crate) fn raw(pieces: &[Piece], output: &mut Output) {
    for piece in pieces {
        match piece {
            Piece::Text(text) if text.ends_with('\n') => output.content(text.as_bytes()),
            Piece::Text(text) => output.content(format!("{text}\n").as_bytes()),
            Piece::Bytes { bytes: Some(bytes), .. } => output.content(bytes),
            Piece::Bytes { .. } | Piece::Mention(_) => output.content(format!("{}\n", piece.described()).as_bytes()),
        }
    }
}

fn human(result: &CallResult, pieces: &[Piece], saved: bool, output: &mut Output) {
    for piece in pieces.iter().filter(|piece| !saved || !matches!(piece, Piece::Bytes { .. })) {
        output.line(&piece.described());
    }
    // Most servers say the structured form a second time, as text.
    let meant = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    if let Some(structured) = &result.structured {
        let value = meant(&structured.text());
        let is_said = |piece: &Piece| matches!(piece, Piece::Text(text) if value.is_some() && meant(text) == value);
        if !pieces.iter().any(is_said) {
            output.line(&content::indented(structured));
        }
    }
    if pieces.is_empty() && result.structured.is_none() {
        output.say("(no content)");
    }
}
