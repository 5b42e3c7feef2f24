//! The three servers of the demo, and how they start.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use toolway_config::ServerName;
use toolway_host::{
    connection::{Phase, Program, ServerAddress, ServerStatus, WantedServer, Way},
    host::Host,
};

use crate::{output::Output, report::Report};

/// The servers: name and role.
const SERVERS: [(&str, &str); 3] = [("notes", "notes"), ("weather", "crashes"), ("archive", "hangs")];
/// Connect timeout of each.
const CONNECT: Duration = Duration::from_secs(3);

/// The servers, as child processes of this program.
pub(super) fn wanted(program: &str) -> Result<Vec<WantedServer>, Report> {
    let server = |(name, role): (&str, &str)| {
        let name = ServerName::from_label(name).map_err(|error| super::failed(&error))?;
        let arguments = ["sample", "--play", role].map(str::to_owned).to_vec();
        let program = Program { arguments, ..Program::new(program) };
        let way = Way::Address(ServerAddress::Process(program));
        Ok(WantedServer { connect: CONNECT, ..WantedServer::new(name, way) })
    };
    SERVERS.into_iter().map(server).collect()
}

/// Waits until each server is ready or has failed, and says how it is.
pub(super) async fn show(host: &Host, output: &mut Output) {
    let began = Instant::now();
    let names: Vec<ServerName> = host.servers().into_iter().map(|status| status.server).collect();
    output.progress("   waiting for the servers …");
    let listed = join_all(names.iter().map(|name| async move { (host.list(name).await, began.elapsed()) })).await;
    for (status, took) in listed {
        if let Ok(status) = status {
            line(host, &status, took, output);
        }
    }
}

fn line(host: &Host, status: &ServerStatus, took: Duration, output: &mut Output) {
    let name = format!("   {:<8}", status.server.as_str());
    match (&status.phase, &status.profile) {
        (Phase::Ready, Some(profile)) => {
            let tools = host.catalog().tools_of(&status.server).len();
            let rest = format!("{tools} tools, protocol {}, after {} ms", profile.revision, took.as_millis());
            output.state_entry(&name, "ready", 6, &rest);
        }
        _ => {
            let error = status.last_error.as_ref();
            let why = error
                .map_or_else(|| status.phase.for_operator().into_string(), |error| error.message.as_str().to_owned());
            let mut lines = why.lines();
            output.state_entry(&name, "failed", 6, lines.next().unwrap_or_default());
            lines.for_each(|line| output.print_wrapped("                   ", line.trim()));
        }
    }
}
