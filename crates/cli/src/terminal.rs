//! The terminal of this process as an [`Answerer`]: approvals, forms and URLs are answered with keys, in place.
//!
//! | part | file |
//! |---|---|
//! | items that wait, and the thread that prompts | `terminal/prompt_queue.rs` |
//! | raw mode, keys, output of one prompt | `terminal/prompt_session.rs` |
//! | prompts: keys in, answer out | `terminal/approval_prompt.rs`, `terminal/form_prompt.rs` |
//! | their text | `terminal/approval_text.rs`, `terminal/argument_diff.rs`, `terminal/form_text.rs`, `terminal/text.rs` |
//! | answers given on the command line | `terminal/given.rs` |
//! | the value of a secret | `terminal/hidden_line.rs` |
//! | a question of one key, a list to choose from | `terminal/raw_keys.rs`, `terminal/picker.rs` |
//!
//! There is one prompt at a time. Approvals that wait at the same time are one prompt. Output is appended to standard
//! error; nothing above the current line changes.

mod approval_prompt;
mod approval_text;
mod argument_diff;
mod form_prompt;
mod form_text;
pub(crate) mod given;
pub(crate) mod hidden_line;
mod line_editor;
mod picker;
mod prompt_queue;
mod prompt_session;
mod raw_keys;
mod sampling_prompt;
pub(crate) mod text;

use std::{ffi::OsStr, sync::Arc};

use futures_util::future::BoxFuture;
use toolway_config::Environment;
use toolway_host::inbox::{Answerer, ElicitationAnswer, ElicitationModes, InboxAnswer, InboxContent, InboxItem};
use url::Url;

pub(crate) use picker::Picker;
pub(crate) use raw_keys::{ask_yes_or_no, confirm};

use crate::sign_in::opener::Openers;
use prompt_queue::PromptQueue;

/// Answers the items of a host at the terminal.
pub(crate) struct TerminalAnswerer {
    queue: Arc<PromptQueue>,
    openers: Openers,
}

impl TerminalAnswerer {
    /// Prompts on standard error, and reads keys from standard input. Both must be terminals
    /// ([`crate::output::is_interactive`]).
    pub(crate) fn new(environment: &Environment) -> Self {
        let is_set = |name: &str| environment.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
        Self { queue: Arc::new(PromptQueue::new(!is_set("NO_COLOR"))), openers: Openers::of(environment) }
    }

    /// Whether a prompt is on the screen, so that nothing else should be written there.
    pub(crate) fn is_prompting(&self) -> bool {
        self.queue.is_prompting()
    }
}

impl Answerer for TerminalAnswerer {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::FormsAndUrls
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async move {
            let answer = self.queue.ask(item).await;
            if let (InboxContent::Url { url, .. }, InboxAnswer::Elicitation(ElicitationAnswer::Accept(_))) =
                (&item.content, &answer)
            {
                let opened = match Url::parse(url) {
                    Ok(url) => self.openers.open(&url).await,
                    Err(_) => false,
                };
                self.queue.report_opened(opened);
                if opened {
                    return InboxAnswer::Elicitation(ElicitationAnswer::Opened);
                }
            }
            answer
        })
    }
}
