//! Asks the user whether to accept a project's server, and shows what it would run or connect to.

use serde_json::json;
use toolway_config::{
    ServerConfig,
    consent::{Accepted, Difference, Proposal, ProposalStatus},
    server::Transport,
};
use toolway_host::record::kind;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Output, is_interactive},
    report::Report,
    terminal,
};

/// Hex digits of a digest that are shown and required: 128 bits.
const DIGEST: usize = 32;

impl App {
    /// Asks the user to accept a server. Without an interactive terminal, fails and says how to accept it.
    pub(crate) fn consent(&self, proposal: &Proposal, output: &mut Output) -> Result<ServerConfig, Report> {
        if !is_interactive() {
            return Err(refusal(proposal));
        }
        output.notice(&format!("toolway: {}\n{}", introduction(proposal), details(proposal)));
        if !self.confirm("Accept this server? [y/N]")? {
            let message = format!("server `{}` was not accepted, and nothing of it was used", proposal.server.name);
            return Err(Report::new(ExitCode::Denied, "not_accepted", message));
        }
        self.accept(proposal, output)?;
        Ok(proposal.server.clone())
    }

    /// Accepts a server without asking; the digest proves that the user has seen this definition.
    pub(crate) fn accept_digest(&self, proposal: &Proposal, seen: &str, output: &mut Output) -> Result<(), Report> {
        let digest = proposal.digest.to_string();
        if seen.len() < DIGEST || !digest.starts_with(&seen.to_ascii_lowercase()) {
            return Err(refusal(proposal).hint("the given digest does not match the current definition"));
        }
        self.accept(proposal, output)
    }

    /// Stores the acceptance of a server.
    pub(crate) fn accept(&self, proposal: &Proposal, output: &mut Output) -> Result<(), Report> {
        let Some(file) = self.acceptance_file() else {
            output.notice("toolway: no home directory to store this in; the server is accepted for this command only");
            return Ok(());
        };
        let (entry, acceptance) = proposal.acceptance();
        let kept = Accepted::update(&file, |accepted| accepted.insert(entry, acceptance));
        kept.map_err(|error| {
            Report::new(ExitCode::Internal, "state", format!("cannot store the acceptance: {error}"))
        })?;
        let details = json!({ "change": "accepted", "digest": proposal.digest.to_string() });
        self.audit(kind::CONFIGURATION, Some(proposal.server.name.as_str()), None, &details);
        Ok(())
    }

    /// Asks a question that one key answers, on the terminal; only `y` is yes. What was typed before the question was there
    /// does not answer it. Ctrl-C still stops the command.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool, Report> {
        let asking = || tokio::runtime::Handle::current().block_on(terminal::confirm(question, self));
        tokio::task::block_in_place(asking)
    }
}

/// The refusal without an interactive terminal: what the server would do, and the command that accepts it.
pub(crate) fn refusal(proposal: &Proposal) -> Report {
    let digest = &proposal.digest.to_string()[..DIGEST];
    let name = &proposal.server.name;
    Report::new(ExitCode::Denied, "not_accepted", introduction(proposal))
        .detail(details(proposal))
        .hint(format!("to accept exactly this, run: toolway servers accept {name} --digest {digest}"))
}

fn introduction(proposal: &Proposal) -> String {
    let server = &proposal.server;
    let (name, place) = (&server.name, &server.source.place);
    match &proposal.status {
        ProposalStatus::New => {
            format!("server `{name}` comes from a project file ({place}) and is not used until you accept it")
        }
        ProposalStatus::Changed(_) => {
            format!("server `{name}` has changed in a project file ({place}) and is not used until you accept it again")
        }
    }
}

/// Why a project server is not used.
pub(crate) fn reason(proposal: &Proposal) -> &'static str {
    match proposal.status {
        ProposalStatus::New => "from a project file; not used until you accept it",
        ProposalStatus::Changed(_) => "changed in a project file; not used until you accept it again",
    }
}

fn details(proposal: &Proposal) -> String {
    let mut text = String::new();
    if let ProposalStatus::Changed(differences) = &proposal.status {
        text.push_str("Changes since you accepted it:\n");
        text.extend(differences.iter().map(difference));
    }
    text.push_str(match proposal.server.transport {
        Transport::Process(_) => "It would start:\n",
        Transport::Http(_) => "It would connect to:\n",
    });
    text.extend(proposal.summary.lines.iter().map(|line| format!("  {}: {}\n", line.what, line.text)));
    text.trim_end().to_owned()
}

fn difference(difference: &Difference) -> String {
    let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "(nothing)".to_owned());
    format!("  {}: {} → {}\n", difference.what, side(&difference.before), side(&difference.now))
}
