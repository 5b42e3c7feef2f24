//! `toolway call`: calls one tool.

mod detached;

use std::{path::PathBuf, sync::Arc, time::Duration};

use toolway_config::ArgumentValidation;
use toolway_host::{
    call::{CallRequest, Caller, Target},
    catalog::{Catalog, ItemKind, ToolEntry},
    connection::Lists,
    policy::Annotations,
    record::IdempotencyKey,
    validation::check::CheckResult,
};
use toolway_wire::{
    json::Raw,
    message::{item::Tool, result::CallResult},
};

use super::tools;
use crate::{
    app::App,
    arguments::{self, ArgumentError, call_form::CallForm, check},
    exit_code::ExitCode,
    gateway_inbox::WaitSetting,
    lifecycle::CalledItem,
    output::{
        Format, Output,
        content::{self, Piece, Repetition},
    },
    report::Report,
    save,
    schema::{self, Schema},
    single_server_host::SingleServerHost,
    target::SelectedItem,
    terminal::given::{AnswerArgs, CommandAnswerer},
};

/// Call one tool and print its result
///
/// Checks the arguments against the tool's schema before sending the call. The result goes to standard output, progress and
/// everything else to standard error. Structured content goes to standard output as one JSON value, unless the text says the
/// same; a text that says something else then goes to standard error (`-o raw` prints only the text).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// `<server>.<tool>`, `<server>__<tool>` or `<server> <tool>`, or `<tool>` if an option gives the server
    ///
    /// The arguments can follow in parentheses, as in code: `'files.read_file(path: "notes.txt")'`. Values are then JSON;
    /// strings may also be in single quotes.
    tool: String,

    /// `name=value`, `name:=json`, `name=@file`, a value for the next argument, one JSON object, or `-`
    ///
    /// Values are converted to the type in the tool's schema; numbers keep their digits. `name:=json` is sent unchanged.
    /// `name=@file` sends the file's text, `name:=@file` its JSON, `name=@@x` the text `@x`. Values without a name are
    /// assigned to the arguments in schema order. A repeated name makes a list. `-` reads one JSON object from standard input.
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,

    /// All arguments as one JSON object, like `{…}` after the tool
    #[arg(long, value_name = "JSON")]
    args: Option<String>,

    /// Print the exact request instead of sending it
    ///
    /// Connects to the server, because its schema and its protocol era determine the request.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    answer: AnswerArgs,

    /// Do not wait for the result: print the id of the task, which a running gateway or `toolway tasks wait` follows
    ///
    /// The tool must run as a task. A stdio server needs a running gateway (`toolway serve`), because it ends with the
    /// process that started it; so does an HTTP server with sessions, unless its `sessions` are kept.
    #[arg(long, conflicts_with_all = ["dry_run", "save"])]
    detach: bool,

    /// Ask the server to keep a task and its result for this long
    #[arg(long, value_name = "SECONDS", value_parser = crate::args::seconds)]
    task_ttl: Option<Duration>,

    /// Name the call, so that a repetition under the same key does not act twice
    ///
    /// With the same tool and arguments, it prints the recorded result or waits for the running call. It is refused if the
    /// outcome of the first call is unknown. A key is kept for 24 hours.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    /// Write images, audio and other binary content to this directory or file
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
}

/// Time limit for checking the arguments.
const CHECK: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  toolway call files.read_file path=notes.txt
  toolway call files read_file --args '{\"path\":\"notes.txt\"}'
  toolway call files.edit_file path=notes.txt edits:='[{\"oldText\":\"a\",\"newText\":\"b\"}]' --dry-run
  toolway call --stdio 'toolway sample' add 2 3
  toolway call --stdio 'toolway sample' 'add(a: 2, b: 3)'
  toolway call --stdio 'toolway sample' picture --save pictures/
  toolway call reports.build year=2026 --detach
  echo '{\"a\":2,\"b\":3}' | toolway call --stdio 'toolway sample' add -";

pub(crate) async fn run(args: &CallArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words: Vec<String> = std::iter::once(&args.tool).chain(&args.arguments).cloned().collect();
    app.join_address(&mut words);
    let tool = words.remove(0);
    if args.args.is_some() && !words.is_empty() {
        return Err(Report::usage("arguments", "give arguments with --args or after the tool, not both"));
    }
    words.extend(args.args.clone());
    let key = args.idempotency_key.as_deref().map(|key| IdempotencyKey::new(Caller::Terminal.label(), key)).transpose();
    let key = key.map_err(|error| Report::usage("arguments", error.to_string()))?;
    let form = CallForm::of(&tool);
    if form.is_some() && !words.is_empty() {
        let message = "give arguments in parentheses or after the tool, not both";
        return Err(Report::usage("arguments", message));
    }
    let selected = app.select(form.map_or(tool.as_str(), |form| form.tool), ItemKind::Tool, output)?;
    let meant = Target::ToolOf(selected.target.origin(&selected.name));
    app.refuse_excluded(&selected.target, ItemKind::Tool, meant.clone()).await?;
    if args.detach {
        detached::check(&selected.target, app).await?;
    }
    let stdin = app.stdin(arguments::uses_stdin(&words)).await?;
    let setting = WaitSetting::of(selected.target.settings.inbox_wait.value);
    let answerer = Arc::new(app.command_answerer(&args.answer, setting).await?);
    let lists = Lists::Only(ItemKind::Tool);
    let can_answer = answerer.is_available();
    let item = CalledItem { target: selected.target.clone(), item: meant };
    let called = app.with_called_server(item, lists, answerer, output, async |single, output| {
        let catalog = single.catalog(ItemKind::Tool, output)?;
        let entry = find(&catalog, single, &selected.name, &selected.selector)?;
        let read = |schema: &Schema| match &form {
            Some(form) => arguments::read_form(form, schema),
            None => arguments::read(&words, schema, &stdin),
        };
        let mode = single.target.settings.validation.arguments.value.unwrap_or(ArgumentValidation::Reject);
        let arguments = arguments_of(&entry.item, read, mode, app, output).await?;
        let request = CallRequest {
            chosen: Some(entry.fingerprint),
            task_ttl: args.task_ttl,
            idempotency_key: key.clone().map(Ok),
            ..single.request(app, Target::ToolOf(entry.origin.clone()), Some(arguments))
        };
        if args.dry_run {
            let request = single.dry_run(app, request, "tools/call").await?;
            output.json(&request);
            return Ok(ExitCode::Ok);
        }
        say_destructive(entry, output);
        if args.detach {
            return detached::run(single, app, entry, request, output).await;
        }
        call(single, app, request, args, output).await
    });
    match called.await {
        Err(report) if report.code == "unknown_tool" && !can_answer => {
            Err(offered_to_others(&selected, app, output).await.unwrap_or(report))
        }
        ended => ended,
    }
}

/// The report of a tool that the server offers only to clients that answer its forms; `None` if it does not offer it at all.
async fn offered_to_others(selected: &SelectedItem, app: &App, output: &mut Output) -> Option<Report> {
    let (lists, answerer) = (Lists::Only(ItemKind::Tool), Arc::new(CommandAnswerer::for_lists()));
    let found = app.with_answered_server(selected.target.clone(), lists, answerer, output, async |single, output| {
        let catalog = single.catalog(ItemKind::Tool, output)?;
        find(&catalog, single, &selected.name, &selected.selector).map(|entry| entry.item.name.clone())
    });
    let name = found.await.ok()?;
    let message = format!("tool `{name}` needs a user who answers; the server offers it to no other client");
    let report = Report::new(ExitCode::InputRequired, "input_required", message);
    Some(report.hint("run this at a terminal, or answer with `--answer field=value`, `--decline` or `--wait`"))
}

/// Finds the selected tool by the server's own name or by its public name.
pub(super) fn find<'a>(
    catalog: &'a Catalog,
    single: &SingleServerHost,
    name: &str,
    selector: &str,
) -> Result<&'a ToolEntry, Report> {
    let public = selector.parse().ok();
    let is_ours = |entry: &&ToolEntry| entry.origin.server == *single.name();
    let by_public = || public.as_ref().and_then(|name| catalog.find_tool(name)).filter(is_ours);
    match catalog.tool_at(single.name(), name).or_else(by_public) {
        Some(entry) => Ok(entry),
        None => match catalog.hidden_at(ItemKind::Tool, single.name(), name) {
            Some(hidden) => Err(tools::hidden::report(hidden)),
            None => Err(tools::unknown(catalog.tools_of(single.name()), name, &single.target)),
        },
    }
}

async fn call(
    single: &SingleServerHost,
    app: &App,
    request: CallRequest,
    args: &CallArgs,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let name = request.target.name().to_owned();
    let result = CallResult::view(&single.call(app, request, "tools/call", output).await?);
    show(&result, args.save.as_ref(), &name, output)?;
    if let Some(report) = single.unanswered() {
        return Err(report);
    }
    if result.is_error { Err(single.attribute(Report::tool_error(&name), "tools/call")) } else { Ok(ExitCode::Ok) }
}

/// Says that the tool is annotated as destructive. Typing the call is consent, so that nothing is asked.
fn say_destructive(entry: &ToolEntry, output: &mut Output) {
    let annotations = entry.item.raw.get("annotations");
    let is_said = annotations.as_ref().and_then(|annotations| annotations.get("destructiveHint")?.as_bool());
    if is_said == Some(true) && Annotations::of_tool(annotations.as_ref()).destructive {
        output.notice(&format!("toolway: tool `{}` may delete or overwrite data", entry.origin.raw_name));
    }
}

/// Converts and checks the arguments.
async fn arguments_of(
    tool: &Tool,
    read: impl FnOnce(&Schema) -> Result<Raw, ArgumentError>,
    mode: ArgumentValidation,
    app: &App,
    output: &mut Output,
) -> Result<Raw, Report> {
    let schema = Schema::new(tool.input_schema.clone());
    let wrong = |message: String| {
        let message = format!("tool `{}`: {message}", tool.name);
        Report::usage("arguments", message).hint(format!("usage: {}", schema::signature(tool)))
    };
    let arguments = read(&schema).map_err(|error| {
        let report = wrong(error.message);
        error.hint.into_iter().fold(report, Report::hint)
    })?;
    let checked = match mode {
        ArgumentValidation::Off => CheckResult::Valid,
        ArgumentValidation::Reject | ArgumentValidation::Report => check_in_time(&schema, &arguments, app).await?,
    };
    match checked {
        CheckResult::Valid => {}
        // Reported when the call has ended.
        CheckResult::Invalid(_) if mode == ArgumentValidation::Report => {}
        CheckResult::Invalid(messages) => return Err(wrong(messages.join("; "))),
        CheckResult::Unchecked(why) => output.notice(&format!("toolway: arguments sent without a check: {why}")),
    }
    Ok(arguments)
}

/// Runs the check with a time limit, because a hostile schema can take forever.
async fn check_in_time(schema: &Schema, arguments: &Raw, app: &App) -> Result<CheckResult, Report> {
    let (schema, arguments) = (schema.clone(), arguments.clone());
    let checking = tokio::task::spawn_blocking(move || check::arguments(&schema, &arguments));
    Ok(match app.stop.or(tokio::time::timeout(CHECK, checking)).await? {
        Ok(Ok(checked)) => checked,
        Ok(Err(error)) => CheckResult::Unchecked(error.to_string()),
        Err(_) => CheckResult::Unchecked(format!("the schema check took longer than {CHECK:?}")),
    })
}

pub(super) fn show(result: &CallResult, save: Option<&PathBuf>, tool: &str, output: &mut Output) -> Result<(), Report> {
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
            output.notice(&format!("Written: {}", file.display()));
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

/// Prints the content. With structured content, standard output is one value: the text if it says the same, else the
/// structured content; what else there is goes to standard error.
fn human(result: &CallResult, pieces: &[Piece], saved: bool, output: &mut Output) {
    let shown = pieces.iter().filter(|piece| !(saved && matches!(piece, Piece::Bytes { .. })));
    let Some(structured) = &result.structured else {
        shown.for_each(|piece| output.line(&piece.described()));
        if pieces.is_empty() {
            output.notice("(no content)");
        }
        return;
    };
    let repetition = content::repetition(structured, pieces);
    for piece in shown {
        match (piece, repetition) {
            (Piece::Text(text), Repetition::Whole) => output.line(text),
            (Piece::Text(_), Repetition::Elements) => {}
            _ => output.notice(&piece.described()),
        }
    }
    if repetition != Repetition::Whole {
        output.line(&content::indented(structured));
    }
}
