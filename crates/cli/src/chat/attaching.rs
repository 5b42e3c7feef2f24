//! Messages with references: what `@` names is attached, with its size, before the message is sent. Only at a terminal: lines of
//! standard input may be text of others.

use std::path::PathBuf;

use toolway_agent::{AttachError, Attachment};
use toolway_host::catalog::{Catalog, PromptEntry};
use toolway_model::Message;

use super::{Chat, command, input::ChatInput, reference, turn::Stoppable};
use crate::{attach_args, output::clean, terminal::Picker};

/// What a reference means.
enum Meaning {
    /// A file, and its name as it was typed.
    File(PathBuf, String),
    /// The address of a resource.
    Resource(String),
    Prompt(Box<PromptEntry>),
}

/// Why a message is not sent; what is to be said was said.
struct NotSent;

impl Chat<'_> {
    /// Sends a message of the user, with what it refers to.
    pub(super) async fn send(&mut self, text: &str) {
        match self.attachments(text).await {
            Ok(attachments) => {
                let attached = attachments.into_iter().map(|attachment| attachment.message(&self.conversation));
                let messages = attached.chain([Message::user(text)]).collect();
                self.turn(messages).await;
            }
            Err(NotSent) => self.screen.note("The message was not sent; the up arrow brings it back."),
        }
    }

    /// Reads what a message refers to, and says how large it is.
    async fn attachments(&mut self, text: &str) -> Result<Vec<Attachment>, NotSent> {
        let references = match &self.input {
            ChatInput::Editor(_) => reference::references(text),
            ChatInput::Lines(_) => Vec::new(),
        };
        let mut attachments = Vec::new();
        for reference in references {
            let meaning = match self.meaning(&reference.name).await {
                Some(meaning) => Some(meaning),
                None => self.meaning(&reference.trimmed).await,
            };
            match meaning {
                Some(Meaning::File(path, name)) => attachments.push(self.attach_file(path, name).await?),
                Some(Meaning::Resource(address)) => attachments.push(self.attach_resource(&address).await?),
                Some(Meaning::Prompt(prompt)) => attachments.push(self.attach_prompt(&prompt).await?),
                None => {
                    let name = clean::flat(&reference.trimmed);
                    self.screen.note(&format!("`@{name}` is no file, resource or prompt; it is sent as text."));
                }
            }
        }
        self.agent.check_attachments(&attachments).map_err(|error| self.say(&error))?;
        attachments.iter().for_each(|attachment| self.screen.note(&format!("{}.", attach_args::words(attachment))));
        Ok(attachments)
    }

    /// What a name means: a file first, which needs no server.
    async fn meaning(&mut self, name: &str) -> Option<Meaning> {
        let path = self.folders.path(name);
        if std::fs::symlink_metadata(&path).is_ok() {
            return Some(Meaning::File(path, name.to_owned()));
        }
        // Resources and prompts are known when servers are connected.
        self.wait_for_servers().await;
        let catalog = self.host.catalog();
        let is_resource = is_offered(&catalog, name) || self.agent.names_server(name);
        match command::find_prompt(&catalog, name) {
            _ if is_resource => Some(Meaning::Resource(name.to_owned())),
            Some(prompt) => Some(Meaning::Prompt(Box::new(prompt.clone()))),
            None => None,
        }
    }

    async fn attach_file(&mut self, path: PathBuf, name: String) -> Result<Attachment, NotSent> {
        if !self.folders.holds(&path) && path.is_file() {
            let title = format!(
                "Attach {}? It is outside the working folder, or hidden.",
                clean::flat(&path.display().to_string())
            );
            let rows = vec!["No".to_owned(), "Attach it".to_owned()];
            if self.choose(Picker { title, rows, selected: 0 }).await != Some(1) {
                return Err(NotSent);
            }
        }
        Attachment::read_file_as(&path, name).await.map_err(|error| self.say(&error))
    }

    async fn attach_resource(&mut self, address: &str) -> Result<Attachment, NotSent> {
        self.screen.busy(&format!("reading {}", clean::flat(address)));
        let read = self.stoppable(self.agent.attach_resource(&self.conversation, address)).await;
        self.screen.idle();
        match read {
            Stoppable::Done(read) => read.map_err(|error| self.say(&error)),
            Stoppable::Stopped => Err(NotSent),
        }
    }

    async fn attach_prompt(&mut self, prompt: &PromptEntry) -> Result<Attachment, NotSent> {
        let result = self.get_prompt_result(prompt, &[]).await.ok_or(NotSent)?;
        Ok(self.agent.attach_prompt(prompt.origin.clone(), &result))
    }

    fn say(&self, error: &AttachError) -> NotSent {
        self.screen.line(&attach_args::report(error).to_human());
        NotSent
    }
}

fn is_offered(catalog: &Catalog, uri: &str) -> bool {
    catalog.resources().iter().any(|entry| entry.public.as_str() == uri)
}
