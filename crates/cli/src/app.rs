//! What every command of servers has at hand: the environment, the configuration, the way to a server.

use std::{ffi::OsStr, io::Read, sync::Arc, time::Duration};

use toolway_config::{Environment, Paths};
use toolway_host::connection::{DialOptions, DiskEraMemory, LastWords, ServerAddress, dial};
use toolway_wire::{
    exchange::Terms,
    limit::{Limits, MESSAGE_BYTES},
    up::{ConnectOptions, EraChoice, EraMemory, Timeouts, client::HttpClient, connector::HttpOptions},
};

use crate::{
    args::{EraArg, ReachArgs, ShowArgs},
    report::Report,
    session::Session,
    stop::Stop,
    target::Target,
    watch::Watch,
};

/// One run of the program.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) environment: Environment,
    pub(crate) paths: Paths,
    pub(crate) reach: ReachArgs,
    pub(crate) show: ShowArgs,
    pub(crate) stop: Stop,
}

/// Opening a connection.
const CONNECT: Duration = Duration::from_secs(30);

impl App {
    pub(crate) fn new(environment: Environment, reach: ReachArgs, show: ShowArgs) -> Self {
        let paths = Paths::of(&environment);
        let stop = Stop::watch(reach.timeout);
        Self { environment, paths, reach, show, stop }
    }

    /// Goes to a server, works there, and leaves it in good order however the work ended.
    pub(crate) async fn visit<T>(
        &self,
        target: Target,
        work: impl AsyncFnOnce(&Session) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let session = self.connect(target).await?;
        let done = work(&session).await;
        session.leave().await;
        done
    }

    /// Opens the way to a server and shakes hands with it.
    async fn connect(&self, target: Target) -> Result<Session, Report> {
        let last_words = LastWords::default();
        let watch = Arc::new(Watch::new(self.show.verbose, target.secrets.clone()));
        let options = DialOptions {
            connect: ConnectOptions { era: self.era(), timeouts: self.timeouts(), ..ConnectOptions::default() },
            environment: self.environment.clone(),
            last_words: last_words.clone(),
            http: HttpClient::new(self.http_options(), &Limits::default()),
            memory: self.era_memory(),
            tap: Some(Arc::clone(&watch) as _),
            ..DialOptions::default()
        };
        let dialled = self.stop.or(dial(&target.address, options)).await;
        match dialled? {
            Ok(peer) => Ok(Session { peer, target, watch }),
            Err(error) => Err(of_dial(&Report::of_wire(&error), &target, &last_words)),
        }
    }

    /// Where eras are remembered; one that was chosen says nothing about the server.
    fn era_memory(&self) -> Option<Arc<dyn EraMemory>> {
        let folder = self.paths.state.as_ref().filter(|_| self.reach.era == EraArg::Auto)?;
        Some(Arc::new(DiskEraMemory::at(folder.join("eras.json"))))
    }

    fn era(&self) -> EraChoice {
        match self.reach.era {
            EraArg::Auto => EraChoice::Auto,
            EraArg::Legacy => EraChoice::Legacy,
            EraArg::Modern => EraChoice::Modern,
        }
    }

    /// Whoever gives a time means all of it: a long call then does not end at the usual limit.
    fn timeouts(&self) -> Timeouts {
        let usual = Timeouts::default();
        match self.reach.timeout {
            None => usual,
            Some(limit) => {
                let whole = Terms { idle: None, total: Some(limit) };
                Timeouts { probe: usual.probe.min(limit), handshake: limit, list: whole, call: whole }
            }
        }
    }

    /// Standard input to its end, where it is wanted. The keyboard can still stop the command.
    pub(crate) async fn stdin(&self, wanted: bool) -> Result<Vec<u8>, Report> {
        if !wanted {
            return Ok(Vec::new());
        }
        let reading = tokio::task::spawn_blocking(|| all_of(std::io::stdin().lock(), MESSAGE_BYTES));
        let failed = |problem: String| Report::usage("arguments", format!("Cannot read standard input: {problem}."));
        match self.stop.or(reading).await? {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// The clocks of a call.
    pub(crate) fn call_terms(&self) -> Terms {
        self.timeouts().call
    }

    fn http_options(&self) -> HttpOptions {
        let variable = |names: [&str; 2]| {
            let set = names.iter().find_map(|name| self.environment.get(OsStr::new(name)));
            set.and_then(|value| value.to_str()).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        HttpOptions {
            https_proxy: variable(["HTTPS_PROXY", "https_proxy"]),
            no_proxy: variable(["NO_PROXY", "no_proxy"]),
            connect_timeout: Some(self.reach.timeout.unwrap_or(CONNECT).min(CONNECT)),
            ..HttpOptions::default()
        }
    }
}

/// Everything a stream has, unless it is more than a message may hold: half of it is not what somebody meant to send.
fn all_of(stream: impl Read, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if most < bytes.len() {
        return Err(std::io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// A program that did not come up has often said why.
fn of_dial(report: &Report, target: &Target, last_words: &LastWords) -> Report {
    let mut report = report.clone();
    if let (ServerAddress::Process(_), Some(words)) = (&target.address, last_words.quote())
        && !report.message.contains(words.trim())
    {
        report = report.hint(format!("It said: {words}"));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::all_of;

    #[test]
    fn what_is_too_much_is_not_cut() {
        assert_eq!(all_of(&b"four"[..], 4).unwrap(), b"four");
        assert_eq!(all_of(&b"fiver"[..], 4).unwrap_err().to_string(), "it is larger than 4 bytes");
    }
}
