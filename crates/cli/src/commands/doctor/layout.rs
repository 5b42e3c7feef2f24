//! How a diagnosis is laid out for a user: one line for a healthy server, problem and advice first for the others, and the
//! details with `--verbose`.

use toolway_host::connection::Phase;

use super::{
    Diagnosis, StoreReport, TAIL, clear_secrets,
    instructions::InstructionsReport,
    processes::{self, ServerProcesses},
};
use crate::{
    commands::ping,
    output::{Output, state},
    server_view,
    unused::Unused,
};

/// Whether details are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Details {
    Shown,
    Hidden,
}

/// What `doctor` has found.
pub(super) struct Findings<'a> {
    pub(super) servers: &'a [Diagnosis<'a>],
    pub(super) unused: &'a [Unused],
    pub(super) in_clear: &'a [clear_secrets::Finding],
    /// Processes of the running gateway.
    pub(super) processes: &'a [ServerProcesses],
    pub(super) store: &'a StoreReport,
    /// `TOOLWAY.md` of the project.
    pub(super) instructions: Option<&'a InstructionsReport>,
}

impl Findings<'_> {
    /// Prints everything: unhealthy servers first, with blank lines between what has several lines.
    pub(super) fn print(&self, details: Details, output: &mut Output) {
        let mut sorted: Vec<&Diagnosis<'_>> = self.servers.iter().collect();
        sorted.sort_by_key(|finding| state::rank(server_view::state(finding.outcome)));
        let is_long = |finding: &Diagnosis<'_>| {
            let has_findings = finding.outcome.problem().is_some()
                || finding.outcome.status.stray_output.is_some()
                || !finding.unusual.is_empty();
            has_findings || details == Details::Shown
        };
        let mut previous: Option<&Diagnosis<'_>> = None;
        for finding in sorted {
            if previous.is_some_and(|previous| is_long(previous) || is_long(finding)) {
                output.line("");
            }
            finding.print(details, output);
            previous = Some(finding);
        }
        for unused in self.unused {
            output.line("");
            print_unused(unused, output);
        }
        for finding in self.in_clear {
            output.line("");
            finding.print(output);
        }
        processes::print(self.processes, output);
        output.line("");
        output.line(&self.store.line);
        self.instructions.into_iter().for_each(|instructions| instructions.print(output));
        let states = self.servers.iter().map(|finding| server_view::state(finding.outcome));
        if let Some(summary) = state::summary(states.chain(self.unused.iter().map(Unused::state))) {
            output.line(&summary);
        }
    }
}

impl Diagnosis<'_> {
    fn print(&self, details: Details, output: &mut Output) {
        let outcome = self.outcome;
        output.state_entry(outcome.status.server.as_str(), server_view::state(outcome), 0, &self.brief());
        if let Some(problem) = outcome.problem() {
            output.field(&format!("    problem        {problem}"));
            output.field(&format!("    advice         {}", self.advice));
            let tail = server_view::tail(outcome, TAIL);
            tail.iter().for_each(|line| output.field(&format!("    standard error {line}")));
            if !self.withheld.is_empty() {
                let names = self.withheld.join(", ");
                output.field(&format!("    not passed     {names}; your shell has it, the server does not"));
            }
        }
        if let Some(stray) = &outcome.status.stray_output {
            output.field(&format!("    warning        it prints text that is not MCP on standard output: \"{stray}\""));
        }
        self.unusual.iter().for_each(|line| output.field(&format!("    unusual        {line}")));
        if details == Details::Shown {
            self.print_details(output);
        }
    }

    /// What stands beside the state of a server without a problem.
    fn brief(&self) -> String {
        let (outcome, status) = (self.outcome, &self.outcome.status);
        if outcome.problem().is_some() {
            return String::new();
        }
        if status.phase == Phase::Disabled {
            return format!("in {}", status.source);
        }
        let revision = status.profile.as_ref().map(|profile| profile.revision.to_string());
        let ready = outcome.connect_time.map(|taken| format!("connected in {:.1} s", taken.as_secs_f64()));
        let parts = [server_view::counted(outcome), revision, ready];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn timing(&self) -> Option<String> {
        let (outcome, is_connected) = (self.outcome, self.outcome.status.profile.is_some());
        let time = |time: std::time::Duration| format!("{:.0} ms", time.as_secs_f64() * 1_000.0);
        let connected = outcome.connect_time.filter(|_| is_connected);
        let connected = connected.map(|taken| format!("connected in {}", time(taken)));
        let listed = outcome.list_time.map(|taken| format!("listed in {}", time(taken)));
        let times: Vec<String> = [connected, listed].into_iter().flatten().collect();
        (!times.is_empty()).then(|| times.join(", "))
    }

    fn print_details(&self, output: &mut Output) {
        let (outcome, status) = (self.outcome, &self.outcome.status);
        output.field(&format!("    transport      {}", self.reached));
        output.field(&format!("    defined in     {}", status.source));
        if !self.environment.is_empty() {
            output.field(&format!("    environment    {}", self.environment.join(", ")));
        }
        if outcome.target.is_program() {
            let folder = self.folder.as_ref().map(|folder| format!(" (starts in {})", folder.display()));
            let folder = folder.unwrap_or_default();
            output.field(&format!(
                "    could reach    its environment, all files of your account{folder}, network not restricted"
            ));
        } else {
            output.field("    could reach    nothing on this machine; it receives requests and configured headers");
        }
        if let Some(limits) = outcome.target.server.limits.to_json() {
            output.field(&format!("    limits         {limits}"));
        }
        if let Some(profile) = &status.profile {
            output.field(&format!("    protocol       {} ({})", profile.revision, profile.era));
        }
        if let Some(timing) = self.timing() {
            output.field(&format!("    timing         {timing}"));
        }
        if let Some(counted) = server_view::counted(outcome) {
            output.field(&format!("    items          {counted}"));
        }
        if let (Phase::Ready, Some(cleanup)) = (&status.phase, &status.cleanup) {
            output.field(&format!("    cleanup        {}", ping::cleanup_text(cleanup)));
        }
        if let Some(sharing) = self.sharing() {
            output.field(&format!("    in a gateway   {sharing}"));
        }
    }
}

fn print_unused(unused: &Unused, output: &mut Output) {
    output.state_entry(&unused.title(), unused.state(), 0, "");
    output.field(&format!("    problem        {}", unused.reason));
    output.field(&format!("    advice         {}", unused.advice()));
    output.field(&format!("    defined in     {}", unused.place()));
}
