//! The items that wait for the terminal, and the thread that prompts for one after another.
//!
//! Keys are read on a thread of its own, because reading blocks. The thread ends when nothing waits. An item whose future
//! is dropped leaves the terminal at once: the last one of a prompt restores it.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolway_host::{
    inbox::{ElicitationAnswer, InboxAnswer, InboxContent, InboxItem},
    policy::ApprovalAnswer,
};

use super::{
    approval_prompt, form_prompt,
    prompt_session::{self, PromptEnd, PromptSession},
    sampling_prompt,
};

/// The items of one terminal.
pub(crate) struct PromptQueue {
    // Nothing awaits under this lock; it is held while a prompt writes.
    pub(super) state: Mutex<State>,
    pub(super) is_coloured: bool,
}

/// What waits, and what is on the screen.
#[derive(Default)]
pub(super) struct State {
    waiting: Vec<Waiting>,
    /// Ids of the items that the prompt on the screen asks about.
    pub(super) shown: Vec<String>,
    /// Whether the terminal is in raw mode.
    pub(super) is_raw: bool,
    is_working: bool,
}

/// An item and the future that waits for its answer.
pub(super) struct Waiting {
    pub(super) item: InboxItem,
    reply: oneshot::Sender<InboxAnswer>,
}

/// Whether the thread that prompts is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Idle,
    Busy,
}

/// Removes an item when its future is dropped.
struct Withdrawal<'a> {
    queue: &'a PromptQueue,
    id: &'a str,
}

/// Time to collect the calls of one turn before the prompt is shown. Later ones are added to it.
const SETTLE: Duration = Duration::from_millis(30);
/// How long an interrupted item may stay unanswered, so that what the signal stops can end it.
const INTERRUPTION: Duration = Duration::from_secs(2);

// === impl PromptQueue ===

impl PromptQueue {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self { state: Mutex::default(), is_coloured }
    }

    pub(super) fn is_prompting(&self) -> bool {
        !self.state.lock().shown.is_empty()
    }

    /// Waits for the answer to an item.
    pub(super) async fn ask(self: &Arc<Self>, item: &InboxItem) -> InboxAnswer {
        let (reply, answer) = oneshot::channel();
        let withdrawal = Withdrawal { queue: self, id: &item.id };
        if self.add(Waiting { item: item.clone(), reply }) == Worker::Idle {
            let queue = Arc::clone(self);
            let spawned = thread::Builder::new().name("prompts".to_owned()).spawn(move || queue.work());
            if spawned.is_err() {
                self.state.lock().is_working = false;
                return InboxAnswer::Unavailable;
            }
        }
        let answer = answer.await.unwrap_or(InboxAnswer::Unavailable);
        drop(withdrawal);
        answer
    }

    /// Adds an item; returns what the thread did before.
    fn add(&self, waiting: Waiting) -> Worker {
        let mut state = self.state.lock();
        state.waiting.push(waiting);
        if std::mem::replace(&mut state.is_working, true) { Worker::Busy } else { Worker::Idle }
    }

    /// Says whether a web page was opened.
    pub(super) fn report_opened(&self, opened: bool) {
        let text =
            if opened { "Opened in the browser." } else { "No browser could be started; open the address above." };
        prompt_session::print(text);
    }

    /// Prompts until nothing waits.
    fn work(&self) {
        while let Some(first) = self.take_first() {
            match &first.item.content {
                InboxContent::Approval(_) => self.ask_approvals(first),
                InboxContent::Form { .. } | InboxContent::Url { .. } => self.ask_elicitation(first),
                InboxContent::Sampling(_) => self.ask_sampling(first),
            }
        }
    }

    fn take_first(&self) -> Option<Waiting> {
        let mut state = self.state.lock();
        state.waiting.retain(|waiting| !waiting.reply.is_closed());
        if state.waiting.is_empty() {
            state.is_working = false;
            return None;
        }
        let first = state.waiting.remove(0);
        state.shown = vec![first.item.id.clone()];
        Some(first)
    }

    /// Adds the approval requests that have arrived since then to the same prompt, in the order of the calls: which of them
    /// waits first is chance.
    pub(super) fn add_approvals(&self, open: &mut Vec<Waiting>) {
        let mut state = self.state.lock();
        // A prompt whose items were all withdrawn ends; what comes then has a prompt of its own.
        let is_open = !state.shown.is_empty();
        let is_added = |waiting: &mut Waiting| is_open && matches!(waiting.item.content, InboxContent::Approval(_));
        let taken: Vec<Waiting> = state.waiting.extract_if(.., is_added).collect();
        state.shown.extend(taken.iter().map(|waiting| waiting.item.id.clone()));
        drop(state);
        open.extend(taken);
        open.sort_by_key(|waiting| waiting.item.call);
    }

    /// Whether approvals wait that are not part of the prompt.
    pub(super) fn approvals_wait(&self) -> bool {
        let is_approval = |waiting: &Waiting| matches!(waiting.item.content, InboxContent::Approval(_));
        self.state.lock().waiting.iter().any(|waiting| waiting.is_open() && is_approval(waiting))
    }

    /// Answers an item of the prompt. The terminal is restored before the last answer, which may end the process.
    pub(super) fn answer(&self, waiting: Waiting, answer: InboxAnswer) {
        let mut state = self.state.lock();
        state.shown.retain(|id| *id != waiting.item.id);
        if state.shown.is_empty() {
            prompt_session::leave(&mut state);
        }
        drop(state);
        waiting.answer(answer);
    }

    fn ask_approvals(&self, first: Waiting) {
        // Calls of one turn come at almost the same time.
        thread::sleep(SETTLE);
        let mut open = vec![first];
        self.add_approvals(&mut open);
        let stop = PromptSession::open(self).and_then(|session| approval_prompt::ask(&session, &mut open)).err();
        self.state.lock().shown.clear();
        if let Some(stop) = stop {
            self.end_unanswered(open, stop);
        }
    }

    fn ask_elicitation(&self, waiting: Waiting) {
        let item = &waiting.item;
        let answer = PromptSession::open(self).and_then(|session| match &item.content {
            InboxContent::Form { message, form } => form_prompt::fill(&session, &item.server, message, form),
            InboxContent::Url { message, url } => form_prompt::consent(&session, &item.server, message, url),
            InboxContent::Approval(_) | InboxContent::Sampling(_) => Ok(ElicitationAnswer::Cancel),
        });
        self.state.lock().shown.clear();
        match answer {
            Ok(answer) => waiting.answer(InboxAnswer::Elicitation(answer)),
            Err(stop) => self.end_unanswered(vec![waiting], stop),
        }
    }

    fn ask_sampling(&self, waiting: Waiting) {
        let InboxContent::Sampling(details) = &waiting.item.content else { return };
        let server = &waiting.item.server;
        let answer = PromptSession::open(self).and_then(|session| sampling_prompt::ask(&session, server, details));
        self.state.lock().shown.clear();
        match answer {
            Ok(answer) => waiting.answer(InboxAnswer::Sampling(answer)),
            Err(stop) => self.end_unanswered(vec![waiting], stop),
        }
    }

    /// Ends items that the user did not answer.
    fn end_unanswered(&self, open: Vec<Waiting>, stop: PromptEnd) {
        if stop == PromptEnd::Interrupted && prompt_session::interrupt() {
            let deadline = Instant::now() + INTERRUPTION;
            // What the signal stops drops its futures.
            while Instant::now() < deadline && open.iter().any(|waiting| !waiting.reply.is_closed()) {
                thread::sleep(prompt_session::TICK);
            }
        }
        for waiting in open {
            let answer = match waiting.item.content {
                InboxContent::Approval(_) => InboxAnswer::Approval(ApprovalAnswer::Unavailable),
                InboxContent::Sampling(_) => InboxAnswer::Unavailable,
                InboxContent::Form { .. } | InboxContent::Url { .. } => {
                    InboxAnswer::Elicitation(ElicitationAnswer::Cancel)
                }
            };
            waiting.answer(answer);
        }
    }
}

impl Waiting {
    /// Answers the item. It may have been answered elsewhere meanwhile.
    fn answer(self, answer: InboxAnswer) {
        drop(self.reply.send(answer));
    }

    /// Whether an answer is still needed.
    pub(super) fn is_open(&self) -> bool {
        !self.reply.is_closed()
    }
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.waiting.retain(|waiting| waiting.item.id != self.id);
        let was_shown = state.shown.iter().any(|id| id == self.id);
        state.shown.retain(|id| id != self.id);
        if was_shown && state.shown.is_empty() {
            prompt_session::restore(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::sync::oneshot;
    use toolway_config::ServerName;
    use toolway_host::{
        call::CallId,
        inbox::{InboxContent, InboxItem},
    };

    use super::{PromptQueue, Waiting};

    fn waiting(call: u128) -> Waiting {
        let (reply, _) = oneshot::channel();
        let item = InboxItem {
            id: call.to_string(),
            created_at: SystemTime::UNIX_EPOCH,
            expires_at: SystemTime::UNIX_EPOCH,
            server: ServerName::from_label("shop").unwrap(),
            caller: None,
            surface: None,
            call: Some(CallId::from_u128(call)),
            conversation: None,
            has_session: false,
            content: InboxContent::Url { message: String::new(), url: String::new() },
        };
        Waiting { item, reply }
    }

    #[test]
    fn an_earlier_call_that_joins_late_is_asked_about_first() {
        let mut open = vec![waiting(7), waiting(2), waiting(5)];
        PromptQueue::new(false).add_approvals(&mut open);
        let calls: Vec<&str> = open.iter().map(|waiting| waiting.item.id.as_str()).collect();
        assert_eq!(calls, ["2", "5", "7"]);
    }
}
