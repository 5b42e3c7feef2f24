//! `toolway complete`: what a server proposes for an argument of a prompt or a template.

use serde_json::{Map, Value};
use toolway_host::{
    call::{Caller, Completion, beside::CompletionOf},
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
#[command(group = clap::ArgGroup::new("what").required(true).args(["prompt", "template"]))]
pub(crate) struct CompleteArgs {
    /// The prompt whose argument is completed
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,

    /// The resource template whose variable is completed
    #[arg(long, value_name = "URI")]
    template: Option<String>,

    /// The server, unless --stdio or --url gives it; then `name=beginning`, and values of other arguments
    #[arg(value_name = "SERVER] <NAME=BEGINNING", num_args = 1.., required = true)]
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
        pairs.push(pair.ok_or_else(|| Report::usage("arguments", format!("`{word}` is not `name=beginning`.")))?);
    }
    let Some((argument, known)) = pairs.split_first() else {
        return Err(Report::usage("arguments", "Which argument? Say `name=beginning`."));
    };
    let known: Map<String, Value> = known.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let known = (!known.is_empty()).then_some(Value::Object(known));

    let (argument, value) = (argument.0.to_owned(), argument.1.to_owned());
    app.visit(target, Lists::Ignored, output, async |session, output| {
        let of = match (&args.prompt, &args.template) {
            (Some(prompt), _) => CompletionOf::PromptOf(session.origin(prompt)),
            (None, template) => CompletionOf::TemplateOf(session.origin(template.as_deref().unwrap_or_default())),
        };
        let completion = Completion { on_behalf: (&Caller::Terminal).into(), of, argument, value, known };
        let completed = app.stop.or(session.host.complete(completion)).await?;
        show(&completed.map_err(|outcome| session.report(&outcome, "completion/complete"))?, output);
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
                output.say("(there are more)");
            }
        }
    }
}
