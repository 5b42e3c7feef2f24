//! One turn: the model works, its calls and words appear, messages are queued, Esc and Ctrl-C stop it.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use toolway_agent::{AgentEvent, Answer, Stop};
use toolway_host::connection::Phase;
use toolway_model::Message;

use super::{
    Chat,
    echo::EchoOff,
    typing::{MAX_QUEUED, Typed, Typing, Unsent},
    usage::tokens,
};
use crate::commands::run::answer_report;

/// Time between two status lines.
const TICK: Duration = Duration::from_millis(120);
/// How long a turn waits for servers that are still connecting.
const CONNECTING: Duration = Duration::from_secs(10);

/// How something ended that the user can stop.
pub(super) enum Stoppable<T> {
    Done(T),
    Stopped,
}

/// What ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoppedBy {
    /// The model was done, or failed.
    Itself,
    /// Esc: messages that wait are sent next.
    Escape,
    /// Ctrl-C: they are not.
    Interrupt,
}

impl Chat<'_> {
    /// Answers messages of the user.
    pub(super) async fn turn(&mut self, messages: Vec<Message>) {
        self.wait_for_servers().await;
        let (began, cancel) = (Instant::now(), CancellationToken::new());
        let (screen, agent) = (self.screen.clone(), self.agent.clone());
        let mut observe = |event: AgentEvent| screen.event(event);
        self.screen.busy("thinking");
        self.screen.typing(self.queued.iter().map(String::as_str), "");
        let answer = agent.answer(&mut self.conversation, messages, &cancel, &mut observe);
        let echo = EchoOff::new();
        let mut typing = self.input.has_keys().then(|| Typing::start(self.gate.clone()));
        let mut stopped_by = StoppedBy::Itself;
        let answered = {
            let mut answer = std::pin::pin!(answer);
            let mut ticks = ticks();
            let mut draft = String::new();
            loop {
                tokio::select! {
                    biased;
                    answered = &mut answer => break answered,
                    _ = tokio::signal::ctrl_c() => {
                        stopped_by = StoppedBy::Interrupt;
                        cancel.cancel();
                        continue;
                    }
                    typed = next_typed(&mut typing) => match typed {
                        Typed::Draft(text) => draft = text,
                        Typed::Message(text) if self.queued.len() < MAX_QUEUED => {
                            draft.clear();
                            self.queued.push_back(text);
                        }
                        Typed::Message(text) => {
                            draft.clear();
                            self.input.prefill(&format!("{text}\n"));
                        }
                        Typed::Stop => {
                            if stopped_by == StoppedBy::Itself {
                                stopped_by = StoppedBy::Escape;
                            }
                            cancel.cancel();
                            continue;
                        }
                    },
                    _ = ticks.tick() => {
                        screen.tick();
                        continue;
                    }
                }
                screen.typing(self.queued.iter().map(String::as_str), &draft);
            }
        };
        self.screen.idle();
        let unsent = match typing {
            Some(typing) => typing.finish().await,
            None => Unsent { messages: Vec::new(), draft: String::new() },
        };
        drop(echo);
        self.was_interrupted = stopped_by == StoppedBy::Interrupt;
        self.queued.extend(unsent.messages);
        // Nothing is sent after Ctrl-C or an error without the user.
        let mut left = match (&answered, stopped_by) {
            (Ok(_), StoppedBy::Itself | StoppedBy::Escape) => Vec::new(),
            (Err(_), _) | (Ok(_), StoppedBy::Interrupt) => self.queued.drain(..).collect::<Vec<_>>(),
        };
        match answered {
            Ok(answer) => self.end_turn(&answer, stopped_by, began.elapsed()),
            Err(error) => self.screen.line(&answer_report(&error).to_human()),
        }
        match left.len() {
            0 => {}
            1 => self.screen.note("The queued message was not sent; it is at the prompt."),
            count => self.screen.note(&format!("The {count} queued messages were not sent; they are at the prompt.")),
        }
        left.extend(Some(unsent.draft).filter(|draft| !draft.is_empty()));
        self.input.prefill(&left.join("\n"));
    }

    fn end_turn(&mut self, answer: &Answer, stopped_by: StoppedBy, duration: Duration) {
        self.count_usage(&answer.usage);
        let why = match answer.stop {
            Stop::Done => None,
            Stop::Cancelled if stopped_by == StoppedBy::Escape => Some("Stopped.".to_owned()),
            Stop::Cancelled => Some("Stopped. Press Ctrl-C again to leave.".to_owned()),
            Stop::MaxOutput => {
                Some("The model reached its limit of output tokens; say `go on` to continue.".to_owned())
            }
            Stop::Refused => Some("The model refused to answer.".to_owned()),
            other => Some(format!("Stopped before the model was done: {}.", other.as_str())),
        };
        if let Some(why) = why {
            self.screen.line(&why);
        }
        let calls = match answer.calls.len() {
            0 => String::new(),
            1 => ", 1 call".to_owned(),
            count => format!(", {count} calls"),
        };
        self.screen.note(&format!("{}{calls}, {:.1} s\n", tokens(&answer.usage), duration.as_secs_f64()));
    }

    /// Waits a while for servers that are still connecting, and reports those that failed, once.
    pub(super) async fn wait_for_servers(&mut self) {
        let Some(connecting) = self.connecting.take() else { return };
        self.screen.busy("connecting servers");
        let waited = self.stoppable(tokio::time::timeout(CONNECTING, connecting)).await;
        self.screen.idle();
        if matches!(waited, Stoppable::Stopped) {
            self.screen.note("Going on without the servers that are still connecting.");
        }
        for status in self.host.servers() {
            let is_connecting = matches!(status.phase, Phase::Connecting { .. });
            let is_ready = matches!(status.phase, Phase::Ready | Phase::Stopped(_) | Phase::Disabled);
            let why = status.phase.for_operator();
            if is_connecting {
                self.screen.line(&format!("server `{}` is still connecting", status.server));
            } else if !is_ready {
                self.screen.line(&format!("server `{}` is not available: {}", status.server, why.as_str()));
            }
        }
    }

    /// Runs something that Ctrl-C stops, with the status line.
    pub(super) async fn stoppable<T>(&self, work: impl Future<Output = T>) -> Stoppable<T> {
        let mut work = std::pin::pin!(work);
        let (_echo, mut ticks) = (EchoOff::new(), ticks());
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Stoppable::Done(done),
                _ = tokio::signal::ctrl_c() => return Stoppable::Stopped,
                _ = ticks.tick() => self.screen.tick(),
            }
        }
    }
}

async fn next_typed(typing: &mut Option<Typing>) -> Typed {
    match typing {
        Some(typing) => typing.next().await,
        None => std::future::pending().await,
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
