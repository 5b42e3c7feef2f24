//! `toolway rpc`: sends any protocol request.

use toolway_host::{call::Target, connection::Lists};
use toolway_wire::json::{JsonKind, Raw};

use crate::{
    app::App,
    arguments::{STDIN, parse_json},
    exit_code::ExitCode,
    lifecycle::CalledItem,
    output::{Format, Output, content},
    report::Report,
};

/// Send any protocol request and print its result
///
/// The parameters are sent as given. Protocol version, capabilities and progress tokens are added where the protocol needs them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "toolway rpc [OPTIONS] [SERVER] <METHOD> [PARAMS]")]
pub(crate) struct RpcArgs {
    /// The server (omit with --stdio or --url), the method, and its parameters as JSON or `-` for standard input
    #[arg(value_name = "SERVER_METHOD_PARAMS", num_args = 1..=3, required = true)]
    words: Vec<String>,

    /// Print the exact request instead of sending it
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  toolway rpc files tools/list
  toolway rpc --stdio 'toolway sample' tools/call '{\"name\":\"echo\",\"arguments\":{\"text\":\"hi\"}}'
  toolway rpc files logging/setLevel '{\"level\":\"debug\"}' -v";

pub(crate) async fn run(args: &RpcArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    let target = app.target(&mut words, output)?;
    let (method, params) = match words.as_slice() {
        [method] => (method, None),
        [method, params] => {
            let stdin = app.stdin(params == STDIN).await?;
            let text = if params == STDIN { stdin } else { params.clone().into_bytes() };
            (method, Some(read(text)?))
        }
        _ => return Err(Report::usage("arguments", "give a method, and optionally its parameters")),
    };
    let item = Target::Method { server: target.server.name.clone(), method: method.clone() };
    let answerer = app.plain_answerer()?;
    let item = CalledItem { target, item };
    app.with_called_server(item, Lists::Ignored, answerer, output, async |single, output| {
        let (server, name) = (single.name().clone(), method.clone());
        let request = single.request(app, Target::Method { server, method: name }, params);
        if args.dry_run {
            let request = single.dry_run(app, request, method).await?;
            output.json(&request);
            return Ok(ExitCode::Ok);
        }
        let result = single.call(app, request, method, output).await?;
        match output.format {
            Format::Human => output.line(&content::indented(&result)),
            Format::Json | Format::Ndjson | Format::Raw => output.json(&result),
        }
        Ok(ExitCode::Ok)
    })
    .await
}

fn read(text: Vec<u8>) -> Result<Raw, Report> {
    let wrong = |problem: String| Report::usage("arguments", problem);
    let params = parse_json(text).map_err(|problem| wrong(format!("parameters: {problem}")))?;
    match params.kind() {
        JsonKind::Object => Ok(params),
        _ => Err(wrong("the parameters must be a JSON object".to_owned())),
    }
}
