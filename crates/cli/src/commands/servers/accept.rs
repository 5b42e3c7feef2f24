//! `toolway servers accept` and `revoke`: a person's yes to a project's server, and taking it back.

use serde_json::json;
use toolway_config::{
    ServerConfig,
    consent::{Accepted, EntryId},
    server::Behind,
};

use super::{
    find,
    list::{State, view},
};
use crate::{
    app::App,
    commands::config::print,
    exit_code::ExitCode,
    loading,
    output::{Format, Output},
    report::Report,
};

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
        let sentence = format!("`{}` {why} ({}).", server.name, server.source.place);
        tell(server, State::of(server), News::None, &sentence, output);
        return Ok(ExitCode::Ok);
    };
    match &args.digest {
        Some(digest) => app.accept_seen(proposal, digest, output)?,
        None => {
            app.consent(proposal, output)?;
        }
    }
    let server = &proposal.server;
    let sentence = format!("Accepted: `{}` of {}.", server.name, server.source.place);
    tell(server, State::of(server), News::Some, &sentence, output);
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
    let sentence = format!("`{}` of {} {what}.", server.name, server.source.place);
    let state = if server.source.behind == Behind::Project { State::NotAccepted } else { State::of(server) };
    tell(server, state, if was_accepted { News::Some } else { News::None }, &sentence, output);
    Ok(ExitCode::Ok)
}

/// Whether anything is different now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Some,
    None,
}

/// A sentence for people, and the server as it is now for programs.
fn tell(server: &ServerConfig, state: State, news: News, sentence: &str, output: &mut Output) {
    output.say(sentence);
    if matches!(output.format, Format::Json | Format::Ndjson) {
        print(&json!({ "changed": news == News::Some, "server": view(server, state) }), output);
    }
}
