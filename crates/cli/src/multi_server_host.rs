//! Many servers for the length of one command: connected side by side, each in its own time, none in the way of
//! another. Whoever is not there when the time is up is named, with the reason.

mod origin;
mod patience;

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, interval_at, sleep_until};
use toolway_host::{
    catalog::{Catalog, Freshness, ItemKind},
    connection::{Lists, Phase, ServerStatus, state::Counts},
    host::Host,
};

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Output, spinner},
    report::Report,
    target::Target,
    wiring,
};

pub(crate) use origin::News;
use patience::{Course, Missing};
pub(crate) use patience::{LONGEST, Patience};

/// A host with several servers, and what came of each.
#[derive(Debug)]
pub(crate) struct Gathering {
    pub(crate) host: Host,
    pub(crate) seen: Vec<Seen>,
    patience: Patience,
}

/// What came of one server.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) target: Target,
    pub(crate) status: ServerStatus,
    /// How long it took until it was connected, or was not.
    pub(crate) connected: Option<Duration>,
    /// How long it took to say what it has.
    pub(crate) listed: Option<Duration>,
    /// What is shown of it is only a copy of what it listed when it was last heard.
    pub(crate) copied: bool,
    /// What of it is offered, where it said what it has.
    pub(crate) offered: Option<Counts>,
    /// How long it was waited for.
    waited: Duration,
}

/// Of a server that is connected and says no more.
pub(crate) const UNLISTED: &str = "it is connected, and has not said in time what it has";
/// Names that a line of progress has room for.
const NAMED: usize = 3;

impl App {
    /// Connects these servers and asks each what it has; the disabled ones are left alone.
    pub(crate) async fn gather(
        &self,
        targets: Vec<Target>,
        lists: Lists,
        patience: Patience,
        output: &mut Output,
    ) -> Result<Gathering, Report> {
        // Whoever gives a time means all of it.
        let patience = self.reach.timeout.map_or(patience, Patience::Whole);
        let began = Instant::now();
        let (host, _watches) = self.start_host(&targets, lists).await?;
        let mut waiting = Waiting::new(&host, &targets, patience);
        let ended = {
            let ask = |(index, target)| {
                let host = &host;
                async move { (index, times_of(host, target).await) }
            };
            let enabled = targets.iter().enumerate().filter(|(_, target)| target.is_enabled());
            let mut asking: FuturesUnordered<_> = enabled.map(ask).collect();
            self.wait_for(&mut asking, &mut waiting, output).await
        };
        let times = waiting.times;
        if let Err(report) = ended {
            wiring::leave(&host).await;
            return Err(report);
        }
        let (catalog, waited) = (host.catalog(), began.elapsed());
        let seen = targets.into_iter().zip(times).filter_map(|(target, (connected, listed))| {
            let status = host.status(&target.server.name).ok()?;
            let freshness = catalog.freshness_of(&target.server.name);
            let copied = freshness == Some(Freshness::Unverified);
            let offered = (freshness == Some(Freshness::Verified)).then(|| offered(&catalog, &status));
            Some(Seen { target, status, connected, listed, copied, offered, waited })
        });
        let seen = seen.collect();
        Ok(Gathering { host, seen, patience })
    }

    /// Shows things of one kind of all servers there are; whoever is not there is named.
    pub(crate) async fn of_all(
        &self,
        kind: ItemKind,
        output: &mut Output,
        show: impl FnOnce(&Gathering, &mut Output),
    ) -> Result<ExitCode, Report> {
        let targets = self.targets(&[], output)?;
        let gathering = self.gather(targets, Lists::Only(kind), Patience::Short, output).await?;
        gathering.say_absent(output);
        let shown = gathering.refuse_if_nobody();
        if shown.is_ok() {
            show(&gathering, output);
        }
        wiring::leave(&gathering.host).await;
        shown.and_then(|()| gathering.refuse_without_required()).map(|()| ExitCode::Ok)
    }

    async fn wait_for(
        &self,
        asking: &mut FuturesUnordered<impl Future<Output = (usize, Times)>>,
        waiting: &mut Waiting<'_>,
        output: &mut Output,
    ) -> Result<(), Report> {
        let mut beat = interval_at(Instant::now() + spinner::PATIENCE, spinner::BEAT);
        for frame in spinner::FRAMES.iter().cycle() {
            let mut told = false;
            while !told {
                tokio::select! {
                    done = asking.next() => match done {
                        Some((index, taken)) => waiting.answered(index, taken),
                        None => return Ok(()),
                    },
                    _ = beat.tick() => {
                        output.progress(&format!("{frame} {}", waiting.whom()));
                        told = true;
                    }
                    () = sleep_until(waiting.ends()) => return Ok(()),
                    report = self.stop.interrupted() => return Err(report),
                }
            }
        }
        Ok(())
    }
}

/// Who has answered, and who is waited for.
struct Waiting<'a> {
    host: &'a Host,
    targets: &'a [Target],
    times: Vec<Times>,
    patience: Patience,
    began: Instant,
    last_answer: Option<Instant>,
}

impl<'a> Waiting<'a> {
    fn new(host: &'a Host, targets: &'a [Target], patience: Patience) -> Self {
        let times = vec![(None, None); targets.len()];
        Self { host, targets, times, patience, began: Instant::now(), last_answer: None }
    }

    fn answered(&mut self, index: usize, taken: Times) {
        self.times[index] = taken;
        if taken.1.is_some() {
            self.last_answer = Some(Instant::now());
        }
    }

    fn missing(&self) -> impl Iterator<Item = &'a Target> {
        let all = self.targets.iter().zip(&self.times);
        all.filter(|(target, times)| times.0.is_none() && target.is_enabled()).map(|(target, _)| target)
    }

    /// When waiting ends, as it looks now.
    fn ends(&self) -> Instant {
        let catalog = self.host.catalog();
        let is_known = |target: &Target| catalog.freshness_of(&target.server.name).is_some();
        let anything = self.targets.iter().any(is_known);
        let course = Course { began: self.began, last_answer: self.last_answer, anything };
        let missing = |target: &Target| Missing { known: is_known(target), required: target.is_required() };
        self.patience.ends(course, self.missing().map(missing))
    }

    /// The names, as far as a line of progress has room.
    fn whom(&self) -> String {
        let names: Vec<&str> = self.missing().map(|target| target.server.name.as_str()).collect();
        let shown = names[..names.len().min(NAMED)].join(", ");
        let more = names.len().saturating_sub(NAMED);
        let more = if 0 < more { format!(" and {more} more") } else { String::new() };
        format!("waiting for {shown}{more}")
    }
}

/// How long connecting and listing took.
type Times = (Option<Duration>, Option<Duration>);

async fn times_of(host: &Host, target: &Target) -> Times {
    let (name, began) = (&target.server.name, Instant::now());
    let connected = host.connect(name).await;
    let taken = began.elapsed();
    if !connected.is_ok_and(|status| status.phase == Phase::Ready) {
        return (Some(taken), None);
    }
    let listed = host.list(name).await.is_ok_and(|status| status.phase == Phase::Ready);
    (Some(taken), listed.then(|| began.elapsed() - taken))
}

/// What the filters let through.
fn offered(catalog: &Catalog, status: &ServerStatus) -> Counts {
    let server = &status.server;
    Counts {
        tools: catalog.tools_of(server).len(),
        resources: catalog.resources_of(server).len(),
        templates: catalog.templates_of(server).len(),
        prompts: catalog.prompts_of(server).len(),
        set_aside: catalog.set_aside().iter().filter(|item| item.server == *server).count(),
    }
}

// === impl Gathering ===

impl Gathering {
    /// Names those that are not there, each with its reason.
    pub(crate) fn say_absent(&self, output: &mut Output) {
        for seen in &self.seen {
            let Some(problem) = seen.problem() else { continue };
            let name = &seen.status.server;
            let fate = if seen.copied { "is shown as it was last listed" } else { "is left out" };
            output.say(&format!("toolway: `{name}` {fate}: {problem}"));
        }
        if self.patience == Patience::Short && self.seen.iter().any(Seen::is_under_way) {
            output.say("toolway: `--timeout SECONDS` waits longer for those that have not answered.");
        }
    }

    /// What was shown is not all where a server without which nothing goes on is not there.
    pub(crate) fn refuse_without_required(&self) -> Result<(), Report> {
        let required = |seen: &&Seen| seen.target.is_required() && seen.problem().is_some();
        match self.seen.iter().find(required) {
            None => Ok(()),
            Some(missing) => {
                let sentence = format!("The server `{}` is required, and is not there.", missing.status.server);
                Err(Report::new(ExitCode::Unreachable, "required_missing", sentence))
            }
        }
    }

    /// Nobody answered and nothing is known: then there is nothing to show.
    pub(crate) fn refuse_if_nobody(&self) -> Result<(), Report> {
        let wanted = |seen: &&Seen| seen.target.is_enabled();
        let mut wanted = self.seen.iter().filter(wanted).peekable();
        if wanted.peek().is_none() {
            return Err(Report::usage("disabled", "Every server is disabled."));
        }
        if wanted.any(|seen| seen.problem().is_none() || seen.copied) {
            return Ok(());
        }
        Err(Report::of_code("unreachable", "no server answered").hint("`toolway doctor` says what each of them needs."))
    }
}

// === impl Seen ===

impl Seen {
    /// Why it is not there; none where it is, or where that is as it should be.
    pub(crate) fn problem(&self) -> Option<String> {
        match &self.status.phase {
            Phase::Disabled => None,
            Phase::Ready if self.offered.is_some() => None,
            Phase::Ready => Some(self.last_error().unwrap_or_else(|| UNLISTED.to_owned())),
            Phase::Connecting { .. } if self.connected.is_none() => {
                Some(format!("still connecting after {:.1} s", self.waited.as_secs_f64()))
            }
            phase => Some(self.last_error().unwrap_or_else(|| phase.to_string())),
        }
    }

    /// Whether something may still come of it.
    fn is_under_way(&self) -> bool {
        let unsettled = matches!(self.status.phase, Phase::Connecting { .. } | Phase::Ready);
        unsettled && self.connected.is_none() && self.offered.is_none()
    }

    fn last_error(&self) -> Option<String> {
        self.status.last_error.as_ref().map(|error| error.message.clone())
    }
}
