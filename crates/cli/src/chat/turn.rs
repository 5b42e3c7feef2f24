//! One turn: the model works, its calls and words appear, Ctrl-C stops it.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use toolway_agent::{AgentError, AgentEvent, Answer, Stop};
use toolway_host::connection::Phase;
use toolway_model::Message;

use super::{Chat, echo::EchoOff, usage::tokens};
use crate::commands::run::model_report;

/// Time between two status lines.
const TICK: Duration = Duration::from_millis(120);
/// How long a turn waits for servers that are still connecting.
const CONNECTING: Duration = Duration::from_secs(10);

/// How something ended that the user can stop.
pub(super) enum Stoppable<T> {
    Done(T),
    Stopped,
}

impl Chat<'_> {
    /// Answers messages of the user.
    pub(super) async fn turn(&mut self, messages: Vec<Message>) {
        self.wait_for_servers().await;
        let (began, cancel) = (Instant::now(), CancellationToken::new());
        let (screen, agent) = (self.screen.clone(), self.agent.clone());
        let mut observe = |event: AgentEvent| screen.event(event);
        self.screen.busy("thinking");
        let answer = agent.answer(&mut self.conversation, messages, &cancel, &mut observe);
        let echo = EchoOff::new();
        let answered = {
            let mut answer = std::pin::pin!(answer);
            let mut ticks = ticks();
            loop {
                tokio::select! {
                    biased;
                    answered = &mut answer => break answered,
                    _ = tokio::signal::ctrl_c() => cancel.cancel(),
                    _ = ticks.tick() => screen.tick(),
                }
            }
        };
        drop(echo);
        self.screen.idle();
        self.was_interrupted = cancel.is_cancelled();
        match answered {
            Ok(answer) => self.end_turn(&answer, began.elapsed()),
            Err(AgentError::Model(error)) => self.screen.line(&model_report(&error).to_human()),
        }
    }

    fn end_turn(&mut self, answer: &Answer, duration: Duration) {
        self.count_usage(&answer.usage);
        let why = match answer.stop {
            Stop::Done => None,
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

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
