//! `toolway logout`: what came of a sign-in is forgotten.

use serde_json::json;
use toolway_host::connection::sign_in::Signing;
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Forget what came of signing in to a server
///
/// Tokens and the registration as a client are removed from where they are kept, also those that were got without a
/// person. The authorization server is not told; where it lists what you agreed to, you can take that back there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogoutArgs {
    /// The server
    server: String,

    /// What this client of the gateway signed in to
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway logout tickets
  toolway logout tickets --profile work";

pub(crate) async fn run(args: &LogoutArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let config = app.config_for([args.server.as_str()], output)?;
    let server = crate::target::entry(&config, &args.server)?;
    let principal = app.principal_of(args.client.as_deref())?;
    let account = app.whatever_is_kept(&config, server, &principal)?;
    let forgotten = app.stop.or(account.options.sign_in.forget()).await?;
    let forgotten = forgotten.map_err(|error| Report::vault(&error))?;
    app.tell_gateway_of(&server.name, args.client.as_deref(), Signing::Out, output).await;
    if output.format == Format::Human {
        output.line(&match forgotten {
            0 => format!("Nobody was signed in to `{}`.", server.name),
            _ => format!("Signed out of `{}`.", server.name),
        });
    } else {
        output.json(&Raw::of(&json!({ "server": server.name.as_str(), "forgotten": forgotten })));
    }
    Ok(ExitCode::Ok)
}
