//! `toolway logout`: deletes the stored credentials of a server.

use serde_json::json;
use toolway_host::{connection::sign_in::SignInChange, record::kind};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Sign out of a server
///
/// Deletes the stored tokens and client registration, including those obtained without a browser. Does not revoke them at
/// the authorization server; you can do that on its own pages.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogoutArgs {
    /// The server
    server: String,

    /// Delete the sign-in of this gateway client
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
    let account = app.stored_account(&config, server, &principal)?;
    let forgotten = app.stop.or(account.options.sign_in.forget()).await?;
    let forgotten = forgotten.map_err(|error| Report::vault(&error))?;
    let details = json!({ "change": "signed out", "principal": principal.as_str(), "credentials": forgotten });
    app.audit(kind::SIGN_IN, Some(server.name.as_str()), None, &details);
    app.notify_gateway(&server.name, args.client.as_deref(), SignInChange::SignedOut, output).await;
    if output.format == Format::Human {
        output.line(&match forgotten {
            0 => format!("Not signed in to `{}`.", server.name),
            _ => format!("Signed out of `{}`.", server.name),
        });
    } else {
        output.json(&Raw::of(&json!({ "server": server.name.as_str(), "forgotten": forgotten })));
    }
    Ok(ExitCode::Ok)
}
