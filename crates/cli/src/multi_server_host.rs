//! A host with several servers for the duration of one command. They are connected in parallel; servers that do not
//! respond in time are reported with the reason.

mod listing_age;
mod wait_policy;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, interval_at, sleep_until};
use toolway_config::Environment;
use toolway_host::{
    catalog::{Catalog, Freshness, ItemKind},
    connection::{Lists, Phase, ServerStatus, state::Counts},
    host::Host,
    inbox::{Answerer, NoAnswerer},
};

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    output::{Output, spinner},
    report::Report,
    target::Target,
    terminal::given::CommandAnswerer,
};

pub(crate) use listing_age::ListingAge;
pub(crate) use wait_policy::{LONGEST, WaitPolicy};
use wait_policy::{PendingServer, WaitProgress};

/// Host with several servers, and the outcome of each.
#[derive(Debug)]
pub(crate) struct MultiServerHost {
    pub(crate) host: Host,
    pub(crate) outcomes: Vec<ServerOutcome>,
    policy: WaitPolicy,
}

/// Outcome of connecting and listing one server.
#[derive(Debug)]
pub(crate) struct ServerOutcome {
    pub(crate) target: Target,
    pub(crate) status: ServerStatus,
    /// Time until the connection succeeded or failed; `None` if neither happened in time.
    pub(crate) connect_time: Option<Duration>,
    /// Time to list its items; `None` if that failed or timed out.
    pub(crate) list_time: Option<Duration>,
    /// Whether its items come from the listing cache.
    pub(crate) cached: bool,
    /// Number of offered items; `None` if the server was not listed in this run.
    pub(crate) counts: Option<Counts>,
    /// Time spent waiting for it.
    waited: Duration,
}

/// Problem of a connected server whose lists timed out.
pub(crate) const UNLISTED: &str = "connected, but did not list its items in time";
/// Server names in a progress line.
const MAX_NAMED: usize = 3;

impl App {
    /// Connects and lists these servers in parallel, except the disabled ones.
    pub(crate) async fn connect_all(
        &self,
        targets: Vec<Target>,
        lists: Lists,
        policy: WaitPolicy,
        output: &mut Output,
    ) -> Result<MultiServerHost, Report> {
        // `--timeout` replaces the default policy.
        let policy = self.reach.timeout.map_or(policy, WaitPolicy::Fixed);
        let began = Instant::now();
        // Some tools are offered only to clients that answer forms. What counts items is told what all clients get.
        let answerer: Arc<dyn Answerer> = match lists {
            Lists::Only(ItemKind::Tool) => Arc::new(CommandAnswerer::for_lists()),
            _ => Arc::new(NoAnswerer),
        };
        let (host, _taps) = self.command_host(&targets, lists, answerer).await?;
        let mut waiting = ServerWait::new(&host, &targets, policy);
        let ended = {
            let start = |(index, target)| {
                let host = &host;
                async move { (index, measure(host, target).await) }
            };
            let enabled = targets.iter().enumerate().filter(|(_, target)| target.is_enabled());
            let mut pending: FuturesUnordered<_> = enabled.map(start).collect();
            self.wait_for(&mut pending, &mut waiting, output).await
        };
        let times = waiting.times;
        if let Err(report) = ended {
            lifecycle::disconnect(&host).await;
            return Err(report);
        }
        let (catalog, waited) = (host.catalog(), began.elapsed());
        let outcomes = targets.into_iter().zip(times).filter_map(|(target, (connect_time, list_time))| {
            let status = host.status(&target.server.name).ok()?;
            let freshness = catalog.freshness_of(&target.server.name);
            let cached = freshness == Some(Freshness::Unverified);
            let counts = (freshness == Some(Freshness::Verified)).then(|| count_items(&catalog, &status));
            Some(ServerOutcome { target, status, connect_time, list_time, cached, counts, waited })
        });
        let outcomes = outcomes.collect();
        Ok(MultiServerHost { host, outcomes, policy })
    }

    /// Lists one kind of items of all servers with `show`, and reports unavailable servers.
    pub(crate) async fn list_all(
        &self,
        kind: ItemKind,
        output: &mut Output,
        show: impl FnOnce(&MultiServerHost, &mut Output),
    ) -> Result<ExitCode, Report> {
        let targets = self.targets(&[], output)?;
        let hosts = self.connect_all(targets, Lists::Only(kind), WaitPolicy::Adaptive, output).await?;
        hosts.report_unavailable(output);
        let shown = hosts.check_any_available();
        if shown.is_ok() {
            show(&hosts, output);
        }
        lifecycle::disconnect(&hosts.host).await;
        shown.and_then(|()| hosts.check_required()).map(|()| ExitCode::Ok)
    }

    async fn wait_for(
        &self,
        pending: &mut FuturesUnordered<impl Future<Output = (usize, Times)>>,
        waiting: &mut ServerWait<'_>,
        output: &mut Output,
    ) -> Result<(), Report> {
        let mut beat = interval_at(Instant::now() + spinner::DELAY, spinner::INTERVAL);
        for frame in spinner::FRAMES.iter().cycle() {
            let mut drawn = false;
            while !drawn {
                tokio::select! {
                    done = pending.next() => match done {
                        Some((index, taken)) => waiting.record(index, taken),
                        None => return Ok(()),
                    },
                    () = sleep_until(waiting.next_note()) => waiting.say_installing(&self.environment, output),
                    _ = beat.tick() => {
                        output.progress(&format!("{frame} {}", waiting.progress_text()));
                        drawn = true;
                    }
                    () = sleep_until(waiting.deadline()) => return Ok(()),
                    report = self.stop.interrupted() => return Err(report),
                }
            }
        }
        Ok(())
    }
}

/// Progress of waiting for the servers.
struct ServerWait<'a> {
    host: &'a Host,
    targets: &'a [Target],
    times: Vec<Times>,
    policy: WaitPolicy,
    began: Instant,
    last_answer: Option<Instant>,
    /// Whether the user was told about installations.
    installing_said: bool,
}

impl<'a> ServerWait<'a> {
    fn new(host: &'a Host, targets: &'a [Target], policy: WaitPolicy) -> Self {
        let times = vec![(None, None); targets.len()];
        Self { host, targets, times, policy, began: Instant::now(), last_answer: None, installing_said: false }
    }

    fn record(&mut self, index: usize, taken: Times) {
        self.times[index] = taken;
        if taken.1.is_some() {
            self.last_answer = Some(Instant::now());
        }
    }

    fn pending(&self) -> impl Iterator<Item = &'a Target> {
        let all = self.targets.iter().zip(&self.times);
        all.filter(|(target, times)| times.0.is_none() && target.is_enabled()).map(|(target, _)| target)
    }

    /// When waiting ends if no other server responds.
    fn deadline(&self) -> Instant {
        let catalog = self.host.catalog();
        let is_known = |target: &Target| catalog.freshness_of(&target.server.name).is_some();
        let any_known = self.targets.iter().any(is_known);
        let progress = WaitProgress { began: self.began, last_answer: self.last_answer, any_known };
        let to_pending = |target: &Target| {
            let install = target.server.installer().map(|_| target.server.connect);
            PendingServer { known: is_known(target), required: target.is_required(), install }
        };
        self.policy.deadline(progress, self.pending().map(to_pending))
    }

    /// When the user is told about installations; in a year if that is done.
    fn next_note(&self) -> Instant {
        let delay =
            if self.installing_said { Duration::from_secs(365 * 24 * 60 * 60) } else { lifecycle::INSTALL_DELAY };
        self.began + delay
    }

    /// Says which pending servers may be installing, once.
    fn say_installing(&mut self, environment: &Environment, output: &mut Output) {
        self.installing_said = true;
        let notes = self.pending().filter_map(|target| target.install_note(self.host, environment));
        notes.for_each(|note| output.notice(&note));
    }

    /// The names of pending servers for the progress line.
    fn progress_text(&self) -> String {
        let names: Vec<&str> = self.pending().map(|target| target.server.name.as_str()).collect();
        let shown = names[..names.len().min(MAX_NAMED)].join(", ");
        let more = names.len().saturating_sub(MAX_NAMED);
        let more = if 0 < more { format!(" and {more} more") } else { String::new() };
        format!("waiting for {shown}{more}")
    }
}

/// Time for connecting and for listing.
type Times = (Option<Duration>, Option<Duration>);

async fn measure(host: &Host, target: &Target) -> Times {
    let (name, began) = (&target.server.name, Instant::now());
    let connected = host.connect(name).await;
    let taken = began.elapsed();
    if !connected.is_ok_and(|status| status.phase == Phase::Ready) {
        return (Some(taken), None);
    }
    let listed = host.list(name).await.is_ok_and(|status| status.phase == Phase::Ready);
    (Some(taken), listed.then(|| began.elapsed() - taken))
}

/// Number of items that the filters pass.
fn count_items(catalog: &Catalog, status: &ServerStatus) -> Counts {
    let server = &status.server;
    Counts {
        tools: catalog.tools_of(server).len(),
        resources: catalog.resources_of(server).len(),
        templates: catalog.templates_of(server).len(),
        prompts: catalog.prompts_of(server).len(),
        set_aside: catalog.set_aside().iter().filter(|item| item.server == *server).count(),
    }
}

// === impl MultiServerHost ===

impl MultiServerHost {
    /// Prints each unavailable server with the reason.
    pub(crate) fn report_unavailable(&self, output: &mut Output) {
        for outcome in &self.outcomes {
            let Some(problem) = outcome.problem() else { continue };
            let name = &outcome.status.server;
            let effect = if outcome.cached { "; showing its cached listing" } else { "" };
            match outcome.is_connecting() {
                true => output.notice(&format!("toolway: server `{name}` is {problem}{effect}")),
                false => output.notice(&format!("toolway: server `{name}` is unavailable: {problem}{effect}")),
            }
        }
        if self.policy == WaitPolicy::Adaptive && self.outcomes.iter().any(ServerOutcome::is_pending) {
            output.notice("toolway: use `--timeout SECONDS` to wait longer for servers that have not responded");
        }
    }

    /// Fails if a required server is unavailable.
    pub(crate) fn check_required(&self) -> Result<(), Report> {
        let required = |outcome: &&ServerOutcome| outcome.target.is_required() && outcome.problem().is_some();
        match self.outcomes.iter().find(required) {
            None => Ok(()),
            Some(missing) => {
                let message = format!("required server `{}` is unavailable", missing.status.server);
                Err(Report::new(ExitCode::Unreachable, "required_missing", message))
            }
        }
    }

    /// Fails if no server responded and none has a cached listing.
    pub(crate) fn check_any_available(&self) -> Result<(), Report> {
        let wanted = |outcome: &&ServerOutcome| outcome.target.is_enabled();
        let mut wanted = self.outcomes.iter().filter(wanted).peekable();
        if wanted.peek().is_none() {
            return Err(Report::usage("disabled", "every server is disabled"));
        }
        if wanted.any(|outcome| outcome.problem().is_none() || outcome.cached) {
            return Ok(());
        }
        Err(Report::from_code("unreachable", "no server is available")
            .hint("run `toolway doctor` to diagnose each server"))
    }
}

// === impl ServerOutcome ===

impl ServerOutcome {
    /// Why it is unavailable; `None` if it is available or disabled.
    pub(crate) fn problem(&self) -> Option<String> {
        match &self.status.phase {
            Phase::Disabled => None,
            Phase::Ready if self.counts.is_some() => None,
            Phase::Ready => Some(self.last_error().unwrap_or_else(|| UNLISTED.to_owned())),
            Phase::Connecting { .. } if self.is_connecting() => {
                Some(format!("still connecting after {:.1} s", self.waited.as_secs_f64()))
            }
            phase => Some(self.last_error().unwrap_or_else(|| phase.for_operator().into_string())),
        }
    }

    /// Whether its first attempt to connect has not ended.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.status.phase, Phase::Connecting { .. }) && self.connect_time.is_none()
    }

    /// Whether it may still become available.
    fn is_pending(&self) -> bool {
        let unsettled = matches!(self.status.phase, Phase::Connecting { .. } | Phase::Ready);
        unsettled && self.connect_time.is_none() && self.counts.is_none()
    }

    fn last_error(&self) -> Option<String> {
        self.status.last_error.as_ref().map(|error| error.message.as_str().to_owned())
    }
}
