//! What `serve` prints when it starts: where it listens, how a client gets a key and its set-up, and how many servers are
//! ready, with one line for each that is not.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use serde_json::json;
use toolway_config::{GatewayAccess, GatewaySettings, Secret};
use toolway_host::{
    connection::{Phase, ServerStatus, StopReason},
    host::Host,
};
use toolway_wire::json::Raw;

use crate::{
    console_backend::BoundConsole,
    exposure,
    output::{Format, Output},
    report::Report,
};

/// How long the servers may take before the first report says which are ready.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is printed of the console.
pub(super) enum ShownConsole {
    /// A link that signs one browser in; at a terminal only, because other programs can read a file or a pipe.
    Link(String),
    /// Its address.
    Address(String),
}

/// What the start says, once the address is bound.
pub(super) struct Announcement<'a> {
    pub(super) address: SocketAddr,
    pub(super) settings: &'a GatewaySettings,
    /// A key for this run, if one was made.
    pub(super) key: Option<&'a Secret>,
    /// Number of clients with a key of their own.
    pub(super) stored_keys: usize,
    pub(super) console: Option<ShownConsole>,
}

// === impl ShownConsole ===

impl ShownConsole {
    pub(super) fn of(console: &BoundConsole, output: &Output) -> Result<Self, Report> {
        let is_private = match output.format {
            Format::Human => output.shows_notices_at_terminal(),
            Format::Json | Format::Ndjson | Format::Raw => output.shows_results_at_terminal(),
        };
        if is_private { console.link().map(Self::Link) } else { Ok(Self::Address(console.console.url())) }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Link(text) | Self::Address(text) => text,
        }
    }
}

// === impl Announcement ===

impl Announcement<'_> {
    /// Prints it. A key and a link that signs in are given only if they go to a terminal.
    pub(super) fn print(&self, output: &mut Output) {
        let access = self.settings.access.value;
        let listening = exposure::listening(self.settings, self.address);
        let url = exposure::endpoint(self.settings, self.address);
        if output.format != Format::Human {
            let key = self.key.map(Secret::expose);
            let console = self.console.as_ref().map(ShownConsole::as_str);
            output.json(&Raw::of(
                &json!({ "listening": listening, "url": url, "access": access.as_str(), "key": key, "console": console }),
            ));
            return;
        }
        output.line(&format!("listening on {listening}"));
        if url != listening {
            output.line(&format!("URL for clients: {url}"));
        }
        if let Some(key) = self.key {
            output.line(&format!("key for this run: {}", key.expose()));
        }
        output.line(match (access, self.stored_keys) {
            (GatewayAccess::Open, _) => "access is open: every user and program on this machine can connect",
            (GatewayAccess::Keys, 0) => {
                "`toolway clients add NAME` creates the key of a client, and prints how to set it up"
            }
            (GatewayAccess::Keys, _) => {
                "`toolway clients snippet NAME [--for codex]` prints how to set up a client that has a key"
            }
        });
        match &self.console {
            Some(ShownConsole::Link(link)) => output.notice(&format!(
                "toolway: console: {link} (valid once, for 10 minutes; `toolway console` makes a new link)"
            )),
            Some(ShownConsole::Address(address)) => output.notice(&format!(
                "toolway: console: {address} (`toolway console --no-open` prints a link that signs you in)"
            )),
            None => {}
        }
    }
}

/// Reports which servers are ready shortly after the start, without delaying it.
pub(super) async fn report_servers(host: &Host, output: &mut Output) -> Infallible {
    host.wait_until_listed(PATIENCE).await;
    for line in lines(&host.servers()) {
        output.notice(&format!("toolway: {line}"));
    }
    std::future::pending().await
}

/// The number of ready servers, then each problem with the command that helps.
fn lines(servers: &[ServerStatus]) -> Vec<String> {
    let is_later = |status: &&ServerStatus| status.phase == Phase::Stopped(StopReason::NotNeededYet);
    let is_wanted = |status: &&ServerStatus| status.phase != Phase::Disabled && !is_later(status);
    let wanted: Vec<&ServerStatus> = servers.iter().filter(is_wanted).collect();
    let later = match servers.iter().filter(is_later).count() {
        0 => String::new(),
        1 => "; 1 more starts when it is used".to_owned(),
        many => format!("; {many} more start when they are used"),
    };
    let ready = wanted.iter().filter(|status| status.phase == Phase::Ready).count();
    let noun = if wanted.len() == 1 { "server" } else { "servers" };
    let summary = format!("{ready} of {} {noun} ready{later}", wanted.len());
    let problems = wanted.into_iter().filter(|status| status.phase != Phase::Ready).map(problem);
    std::iter::once(summary).chain(problems).collect()
}

/// Why a server is not ready, and the command that helps.
fn problem(status: &ServerStatus) -> String {
    let name = &status.server;
    let error = || status.last_error.as_ref().map(|error| error.message.as_str().to_owned());
    match &status.phase {
        Phase::Connecting { .. } => format!("server `{name}`: still connecting: `toolway status {name}`"),
        Phase::SignInRequired { .. } => format!("server `{name}`: sign-in required: `toolway login {name}`"),
        phase => {
            let reason = error().unwrap_or_else(|| phase.for_operator().into_string());
            format!("server `{name}`: {reason}: `toolway doctor {name}`")
        }
    }
}
