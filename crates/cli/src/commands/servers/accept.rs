//! `toolway servers accept` and `revoke`: the user's acceptance of a project server.

use serde_json::json;
use toolway_config::{
    ServerConfig,
    consent::{Accepted, EntryId},
    server::DefinedBy,
};

use super::{
    find,
    list::{EntryState, view},
};
use crate::{
    app::App,
    commands::config::print,
    exit_code::ExitCode,
    loading,
    output::{Format, Output},
    report::Report,
};

/// Accept a server defined in a project file
///
/// Shows the command or URL, with every variable, file and keychain entry it would receive, and asks for confirmation on a
/// terminal. In a script, give the digest that was shown. A server that changes has to be accepted again. Acceptances are
/// stored in `accepted.json` in the state directory.
#[derive(Debug, clap::Args)]
#[command(after_help = ACCEPT_EXAMPLES)]
pub(super) struct AcceptArgs {
    /// The server
    name: String,

    /// Accept without asking, if the definition has this digest
    #[arg(long)]
    digest: Option<String>,
}

const ACCEPT_EXAMPLES: &str = "\
Examples:
  toolway servers accept files                       Show it and ask
  toolway servers accept files --digest 4be1…        In a script, with the digest that was shown";

/// Revoke the acceptance of a project server
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
        let why =
            if server.source.defined_by == DefinedBy::Project { "is already accepted" } else { "needs no acceptance" };
        let sentence = format!("Server `{}` {why} ({}).", server.name, server.source.place);
        print_result(server, EntryState::of(server), Change::None, &sentence, output);
        return Ok(ExitCode::Ok);
    };
    match &args.digest {
        Some(digest) => app.accept_digest(proposal, digest, output)?,
        None => {
            app.consent(proposal, output)?;
        }
    }
    let server = &proposal.server;
    let sentence = format!("Accepted server `{}` of {}.", server.name, server.source.place);
    print_result(server, EntryState::of(server), Change::Made, &sentence, output);
    Ok(ExitCode::Ok)
}

pub(super) fn revoke(args: &RevokeArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let loaded = app.load()?;
    let server = find(&loaded, &args.name)?;
    let mut was_accepted = false;
    if let Some(file) = app.acceptance_file() {
        let entry = EntryId::of(server);
        let kept = Accepted::update(&file, |accepted| was_accepted = accepted.remove(&entry).is_some());
        kept.map_err(|error| Report::new(ExitCode::Internal, "state", format!("cannot store the change: {error}")))?;
    }
    let what = if was_accepted { "is no longer accepted" } else { "was not accepted; nothing changed" };
    let sentence = format!("Server `{}` of {} {what}.", server.name, server.source.place);
    let state =
        if server.source.defined_by == DefinedBy::Project { EntryState::NotAccepted } else { EntryState::of(server) };
    print_result(server, state, if was_accepted { Change::Made } else { Change::None }, &sentence, output);
    Ok(ExitCode::Ok)
}

/// Whether the command changed anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Made,
    None,
}

/// Prints a sentence, and the server as JSON if that is the format.
fn print_result(server: &ServerConfig, state: EntryState, change: Change, sentence: &str, output: &mut Output) {
    output.notice(sentence);
    if matches!(output.format, Format::Json | Format::Ndjson) {
        print(&json!({ "changed": change == Change::Made, "server": view(server, state) }), output);
    }
}
