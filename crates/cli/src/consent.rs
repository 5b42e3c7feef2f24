//! The question about a project's server: what it would do, and a person's yes or no.

use std::io::{BufRead, Write};

use toolway_config::{
    ServerConfig,
    consent::{Accepted, Difference, News, Proposal},
    server::Transport,
};

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Output, person_present},
    report::Report,
};

/// Letters of a digest that are shown and must be given: 128 bits, which nobody meets by trying.
const DIGEST: usize = 32;

impl App {
    /// Asks whoever is there; where nobody is, refuses and says how to accept.
    pub(crate) fn consent(&self, proposal: &Proposal, output: &mut Output) -> Result<ServerConfig, Report> {
        if !person_present() {
            return Err(refusal(proposal));
        }
        output.say(&format!("toolway: {}\n{}", introduction(proposal), details(proposal)));
        if !self.says_yes("Accept it? [y/N] ")? {
            let message = format!("`{}` was not accepted; nothing of it was used.", proposal.server.name);
            return Err(Report::new(ExitCode::Denied, "not_accepted", message));
        }
        self.accept(proposal, output)?;
        Ok(proposal.server.clone())
    }

    /// Accepts without a question what somebody has seen before, which the digest proves.
    pub(crate) fn accept_seen(&self, proposal: &Proposal, seen: &str, output: &mut Output) -> Result<(), Report> {
        let digest = proposal.digest.to_string();
        if seen.len() < DIGEST || !digest.starts_with(&seen.to_ascii_lowercase()) {
            return Err(refusal(proposal).hint("The digest that was given is not the one of what stands there now."));
        }
        self.accept(proposal, output)
    }

    /// Keeps a yes.
    pub(crate) fn accept(&self, proposal: &Proposal, output: &mut Output) -> Result<(), Report> {
        let Some(file) = self.ledger() else {
            output.say("toolway: there is no home to keep this in; it holds for this command only.");
            return Ok(());
        };
        let (entry, acceptance) = proposal.acceptance();
        let kept = Accepted::update(&file, |accepted| accepted.insert(entry, acceptance));
        kept.map(drop).map_err(|error| Report::new(ExitCode::Internal, "state", format!("It is not kept: {error}.")))
    }

    /// Puts a question to the terminal. The keyboard can still stop the command.
    fn says_yes(&self, question: &str) -> Result<bool, Report> {
        let mut talk = std::io::stderr();
        let _gone = write!(talk, "{question}").and_then(|()| talk.flush());
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|_| line).unwrap_or_default()
        });
        let waiting = || tokio::runtime::Handle::current().block_on(self.stop.or(reading));
        let line = tokio::task::block_in_place(waiting)?.unwrap_or_default();
        Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

/// Where nobody can be asked: what it would do, and the command that accepts exactly this.
pub(crate) fn refusal(proposal: &Proposal) -> Report {
    let digest = &proposal.digest.to_string()[..DIGEST];
    let name = &proposal.server.name;
    Report::new(ExitCode::Denied, "not_accepted", introduction(proposal))
        .hint(details(proposal))
        .hint(format!("To accept exactly this: toolway servers accept {name} --digest {digest}"))
}

fn introduction(proposal: &Proposal) -> String {
    let server = &proposal.server;
    let (name, place) = (&server.name, &server.source.place);
    match &proposal.news {
        News::New => format!("`{name}` comes from a project's file ({place}) and is not used until you accept it."),
        News::Changed(_) => {
            format!("`{name}` has changed in a project's file ({place}) and is not used until you accept it again.")
        }
    }
}

/// Why a project's server waits, in few words.
pub(crate) fn news(proposal: &Proposal) -> &'static str {
    match proposal.news {
        News::New => "it comes from a project's file and is not used until you accept it",
        News::Changed(_) => "it has changed in a project's file and is not used until you accept it again",
    }
}

fn details(proposal: &Proposal) -> String {
    let mut text = String::new();
    if let News::Changed(differences) = &proposal.news {
        text.push_str("What is different from what you accepted:\n");
        text.extend(differences.iter().map(difference));
    }
    text.push_str(match proposal.server.transport {
        Transport::Process(_) => "This would be started:\n",
        Transport::Http(_) => "This would be dialled:\n",
    });
    text.extend(proposal.shown.lines.iter().map(|line| format!("  {}: {}\n", line.what, line.text)));
    text.trim_end().to_owned()
}

fn difference(difference: &Difference) -> String {
    let side = |text: &Option<String>| text.clone().unwrap_or_else(|| "(nothing)".to_owned());
    format!("  {}: {} → {}\n", difference.what, side(&difference.before), side(&difference.now))
}
