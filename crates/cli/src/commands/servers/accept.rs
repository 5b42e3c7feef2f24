//! `toolway servers accept` and `revoke`: a person's yes to a project's server, and taking it back.

use toolway_config::{
    consent::{Accepted, EntryId},
    server::Behind,
};

use super::find;
use crate::{app::App, exit_code::ExitCode, loading, output::Output, report::Report};

/// Accept a server that a project's file brought along
///
/// Shown is what would be started or dialled, with every variable, file and keychain entry it would be handed. On a
/// terminal you are asked; elsewhere give the digest that was shown to you. A server that changes afterwards has to be
/// accepted again. Kept in `accepted.json` of the state directory.
#[derive(Debug, clap::Args)]
#[command(after_help = ACCEPT_EXAMPLES)]
pub(super) struct AcceptArgs {
    /// The server
    name: String,

    /// Accept without a question, but only what has this digest
    #[arg(long)]
    digest: Option<String>,
}

const ACCEPT_EXAMPLES: &str = "\
Examples:
  toolway servers accept files                       Shows it and asks
  toolway servers accept files --digest 4be1…        In a script, with the digest that was shown";

/// Take back that a project's server was accepted
#[derive(Debug, clap::Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(super) struct RevokeArgs {
    /// The server
    name: String,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  toolway servers revoke files";

pub(super) fn run(args: &AcceptArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let Some(proposal) = loading::proposal_of(&loaded, &args.name) else {
        let server = find(&loaded, &args.name)?;
        let why = if server.source.behind == Behind::Project { "is accepted already" } else { "is your own" };
        output.say(&format!("`{}` {why} ({}).", server.name, server.source.place));
        return Ok(ExitCode::Ok);
    };
    match &args.digest {
        Some(digest) => app.accept_seen(proposal, digest, output)?,
        None => {
            app.consent(proposal, output)?;
        }
    }
    output.say(&format!("Accepted: `{}` of {}.", proposal.server.name, proposal.server.source.place));
    Ok(ExitCode::Ok)
}

pub(super) fn revoke(args: &RevokeArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let server = find(&loaded, &args.name)?;
    let mut was_accepted = false;
    if let Some(file) = app.ledger() {
        let entry = EntryId::of(server);
        let kept = Accepted::update(&file, |accepted| was_accepted = accepted.remove(&entry).is_some());
        kept.map_err(|error| Report::new(ExitCode::Internal, "state", format!("It is not kept: {error}.")))?;
    }
    let what = if was_accepted { "is no longer accepted" } else { "was not accepted, so nothing changes" };
    output.say(&format!("`{}` of {} {what}.", server.name, server.source.place));
    Ok(ExitCode::Ok)
}
