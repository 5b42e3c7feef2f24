//! `toolway rpc`: any request of the protocol, by hand.

use toolway_host::{call::Target, connection::Lists};
use toolway_wire::json::{Kind, Raw};

use crate::{
    app::App,
    arguments::STDIN,
    exit_code::ExitCode,
    output::{Format, Output, content},
    report::Report,
};

/// Send any request of the protocol and print its result
///
/// The parameters are sent as they are written. What belongs to the connection, as versions, capabilities and tokens
/// of progress, is added.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RpcArgs {
    /// The server, unless --stdio or --url gives it; the method; and its parameters as JSON, or `-`
    #[arg(value_name = "SERVER] <METHOD> [PARAMS", num_args = 1..=3, required = true)]
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
        _ => return Err(Report::usage("arguments", "Give a method, and its parameters if it has any.")),
    };
    app.visit(target, Lists::Ignored, output, async |session, output| {
        let (server, name) = (session.name().clone(), method.clone());
        let request = session.request(app, Target::Method { server, method: name }, params);
        if args.dry_run {
            let request = session.dry_run(app, request, method).await?;
            output.json(&request);
            return Ok(ExitCode::Ok);
        }
        let result = session.result(app, request, method, output).await?;
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
    let params = Raw::parse(text).map_err(|error| wrong(format!("The parameters are not JSON: {error}.")))?;
    match params.kind() {
        Kind::Object => Ok(params),
        _ => Err(wrong("The parameters must be a JSON object.".to_owned())),
    }
}
