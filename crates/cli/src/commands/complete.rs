//! `toolway complete`: completions of a server for an argument of a prompt or a resource template.

use serde_json::{Map, Value};
use toolway_host::{
    call::{Caller, Completion, CompletionOf},
    connection::Lists,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Ask a server to complete an argument of a prompt or a resource template
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "toolway complete [OPTIONS] [SERVER] --prompt <NAME> <NAME=PREFIX> [NAME=VALUE]...\n       toolway complete [OPTIONS] [SERVER] --template <URI> <NAME=PREFIX> [NAME=VALUE]..."
)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["prompt", "template"]))]
pub(crate) struct CompleteArgs {
    /// The prompt whose argument to complete
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,

    /// The resource template whose variable to complete
    #[arg(long, value_name = "URI")]
    template: Option<String>,

    /// The server (omit with --stdio or --url), then `name=prefix`, and values of other arguments
    #[arg(value_name = "SERVER_AND_ARGUMENTS", num_args = 1.., required = true)]
    words: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway complete --stdio 'toolway sample' --prompt introduce name=A
  toolway complete --stdio 'toolway sample' --template 'greeting://{name}' name=E
  toolway complete files --prompt review file=src/ language=rust";

pub(crate) async fn run(args: &CompleteArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    let target = app.target(&mut words, output)?;
    let mut pairs = Vec::new();
    for word in &words {
        let pair = word.split_once('=');
        pairs.push(
            pair.ok_or_else(|| Report::usage("arguments", format!("`{word}` does not have the form `name=prefix`")))?,
        );
    }
    let Some((argument, known)) = pairs.split_first() else {
        return Err(Report::usage("arguments", "no argument to complete; give it as `name=prefix`"));
    };
    let known: Map<String, Value> = known.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let known = (!known.is_empty()).then_some(Value::Object(known));

    let (argument, value) = (argument.0.to_owned(), argument.1.to_owned());
    app.with_server(target, Lists::Ignored, output, async |single, output| {
        let of = match (&args.prompt, &args.template) {
            (Some(prompt), _) => CompletionOf::PromptOf(single.origin(prompt)),
            (None, template) => CompletionOf::TemplateOf(single.origin(template.as_deref().unwrap_or_default())),
        };
        let completion = Completion { caller_context: (&Caller::Terminal).into(), of, argument, value, known };
        let completed = app.stop.or(single.host.complete(completion)).await?;
        show(&completed.map_err(|outcome| single.report(&outcome, "completion/complete"))?, output);
        Ok(ExitCode::Ok)
    })
    .await
}

fn show(result: &Raw, output: &mut Output) {
    let completion = result.get("completion").unwrap_or_else(Raw::empty_object);
    let values = completion.get("values").map(|values| values.elements()).unwrap_or_default();
    let values: Vec<String> = values.iter().filter_map(|value| Some(value.as_str()?.into_owned())).collect();
    match output.format {
        Format::Json | Format::Ndjson => output.json(result),
        Format::Raw => values.iter().for_each(|value| output.content(format!("{value}\n").as_bytes())),
        Format::Human => {
            values.iter().for_each(|value| output.line(value));
            if completion.get("hasMore").and_then(|more| more.as_bool()) == Some(true) {
                output.notice("(more values available)");
            }
        }
    }
}
