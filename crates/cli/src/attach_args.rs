//! `--attach` and `--resource`: files and resources that a model gets before a prompt.

use std::path::PathBuf;

use toolway_agent::{Agent, AttachError, Attachment, AttachmentSource, Conversation};

use crate::{assistant, exit_code::ExitCode, output::clean, report::Report};

/// Options for files and resources.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AttachArgs {
    /// Attach this file: text, an image, or a sound where the model takes one; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,

    /// Attach the resource with this URI, or `SERVER.URI`; can be repeated
    #[arg(long, value_name = "URI")]
    pub(crate) resource: Vec<String>,
}

impl AttachArgs {
    /// Reads the files. A path that the user typed is consent.
    pub(crate) async fn read_files(&self) -> Result<Vec<Attachment>, Report> {
        let mut files = Vec::with_capacity(self.attach.len());
        for path in &self.attach {
            files.push(Attachment::read_file(path).await.map_err(|error| report(&error))?);
        }
        Ok(files)
    }

    /// The resources of the assistant, the files, and the resources of the command line. Checks that the model can take all
    /// of them.
    pub(crate) async fn with_resources(
        &self,
        files: Vec<Attachment>,
        agent: &Agent,
        conversation: &Conversation,
    ) -> Result<Vec<Attachment>, Report> {
        let mut attachments = match agent.assistant() {
            Some(assistant) => agent
                .attach_resources(conversation, assistant.resources())
                .await
                .map_err(|error| assistant::of(assistant.name(), report(&error)))?,
            None => Vec::new(),
        };
        attachments.extend(files);
        let resources = agent.attach_resources(conversation, &self.resource).await;
        attachments.extend(resources.map_err(|error| report(&error))?);
        agent.check_attachments(&attachments).map_err(|error| report(&error))?;
        Ok(attachments)
    }
}

/// What is attached, with its size, in words.
pub(crate) fn words(attachment: &Attachment) -> String {
    let what = match attachment.source() {
        AttachmentSource::File { .. } => "file",
        AttachmentSource::Resource { .. } => "resource",
        AttachmentSource::Prompt { .. } => "prompt",
    };
    format!("attached {what} `{}` (about {} tokens)", clean::flat(attachment.name()), attachment.tokens())
}

/// The report of what is not attached.
pub(crate) fn report(error: &AttachError) -> Report {
    match error {
        AttachError::NotRead { outcome, uri } if outcome.result().is_none() => {
            let detail = format!("while resource `{}` was attached", clean::flat(uri));
            Report::from_outcome(outcome, "resources/read").detail(detail)
        }
        AttachError::TooManyTokens { .. } | AttachError::NoAudio { .. } | AttachError::NoImages { .. } => {
            Report::new(ExitCode::Usage, "arguments", clean::text(&error.to_string()))
        }
        _ => Report::usage("arguments", clean::text(&error.to_string())),
    }
}
