//! Attaches resources: those that the user or an assistant names, and those that fit a message. Each is read on the path of
//! a call, with caller `agent` and the surface of the agent: policy decides, and there is a record.

use std::{collections::BTreeSet, time::Duration};

use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;
use toolway_host::{
    call::{ApprovalHandling, CallOutcome, CallRequest, Target},
    catalog::{Catalog, Origin, ResourceEntry},
};
use toolway_model::{Message, ResultPart, Role, Vendor, value_of};
use toolway_wire::json::Raw;

use crate::{
    agent::Agent,
    attached_file::MAX_TEXT,
    attachment::{AttachError, AttachedBy, Attachment, AttachmentSource, is_attachment},
    content::{self, Structured},
    context::USUAL_WINDOW,
    conversation::Conversation,
    event::AgentEvent,
};

/// Share of the window that the attachments of one message may have, as a divisor.
const SHARE: u64 = 2;
/// Share of the window that resources may have that fit a message, as a divisor.
const RELEVANT_SHARE: u64 = 8;
/// Resources that are attached to one message because they fit it.
const MOST_RELEVANT: usize = 5;
/// Time to read one of those, whatever its server allows a call. The user, who did not ask for it, waits meanwhile.
const RELEVANT_TIME: Duration = Duration::from_secs(10);

/// How an agent uses resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceOptions {
    /// How old a result of `resources/read` may be that is used again; zero: none is.
    pub cache: Duration,
    /// Servers whose resources for the assistant are attached where they fit a message.
    pub auto_context: BTreeSet<ServerName>,
}

impl Default for ResourceOptions {
    fn default() -> Self {
        Self { cache: Duration::from_secs(300), auto_context: BTreeSet::new() }
    }
}

impl Agent {
    /// Reads resources for a conversation, for a message that follows. An address is a URI, or `SERVER.URI`. Give the model
    /// [`Attachment::message`] of each before the message of the user, also as the first messages of a conversation.
    pub async fn attach_resources(
        &self,
        conversation: &Conversation,
        addresses: &[String],
    ) -> Result<Vec<Attachment>, AttachError> {
        let mut attachments = Vec::with_capacity(addresses.len());
        for address in addresses {
            attachments.push(self.attach_resource(conversation, address).await?);
        }
        Ok(attachments)
    }

    /// Reads one resource for a conversation.
    pub async fn attach_resource(&self, conversation: &Conversation, address: &str) -> Result<Attachment, AttachError> {
        let target = self.resource_target(address);
        // The user names it, also where it is a URL.
        conversation.seen().note_user(target.name());
        let request = self.request(target.clone(), None, conversation);
        self.read_resource(request, AttachedBy::User).await
    }

    /// What a prompt of a server says, as an attachment.
    pub fn attach_prompt(&self, origin: Origin, result: &Raw) -> Attachment {
        let name = format!("{}.{}", origin.server, origin.raw_name);
        Attachment::new(AttachmentSource::Prompt { server: origin.server, name }, self.contents(result))
    }

    /// Whether an address names a server of the host, as `SERVER.URI`.
    pub fn names_server(&self, address: &str) -> bool {
        split_server(address, |server| self.host.has(server)).is_some()
    }

    /// Checks that attachments can be sent with one message.
    pub fn check_attachments(&self, attachments: &[Attachment]) -> Result<(), AttachError> {
        self.check_beside(attachments, 0)
    }

    /// Checks that attachments can be sent with one message that has `others` tokens of attachments already.
    pub(crate) fn check_beside(&self, attachments: &[Attachment], others: u64) -> Result<(), AttachError> {
        let model = || self.model().name().to_owned();
        let takes_audio = !matches!(self.model().vendor(), Vendor::Anthropic | Vendor::Openai);
        let has_audio =
            |attachment: &&Attachment| attachment.content.iter().any(|part| matches!(part, ResultPart::Audio(_)));
        if let Some(sound) = attachments.iter().find(has_audio).filter(|_| !takes_audio) {
            return Err(AttachError::NoAudio { name: sound.name().to_owned(), model: model() });
        }
        let has_image =
            |attachment: &&Attachment| attachment.content.iter().any(|part| matches!(part, ResultPart::Image(_)));
        if let Some(image) = attachments.iter().find(has_image).filter(|_| !self.model().takes_images()) {
            return Err(AttachError::NoImages { name: image.name().to_owned(), model: model() });
        }
        let most = self.model().context_window().unwrap_or(USUAL_WINDOW) / SHARE;
        let tokens = others + attachments.iter().map(Attachment::tokens).sum::<u64>();
        match tokens > most {
            true => Err(AttachError::TooManyTokens { model: model(), tokens, most }),
            false => Ok(()),
        }
    }

    /// The URI of an address.
    pub(crate) fn resource_uri(&self, address: &str) -> String {
        self.resource_target(address).name().to_owned()
    }

    /// What an address means: a URI that is offered as it stands, a server with a URI of it, or any other URI.
    pub(crate) fn resource_target(&self, address: &str) -> Target {
        match split_server(address, |server| self.host.has(server)) {
            Some(origin) if !self.offers_resource(address) => Target::ResourceOf(origin),
            _ => Target::Resource(address.to_owned()),
        }
    }

    /// Whether a resource with this URI is offered now.
    pub(crate) fn offers_resource(&self, uri: &str) -> bool {
        self.host.own_catalog().resources().iter().any(|entry| entry.public.as_str() == uri)
    }

    async fn read_resource(&self, request: CallRequest, by: AttachedBy) -> Result<Attachment, AttachError> {
        let target = request.target.clone();
        let mut relay = self.host.open(request);
        let outcome = relay.end_with(|_| {}).await;
        let uri = target.name().to_owned();
        let CallOutcome::Answered(result) = &outcome else {
            return Err(AttachError::NotRead { uri, outcome: Box::new(outcome) });
        };
        let content = self.contents(result);
        let bytes: usize =
            content.iter().map(|part| if let ResultPart::Text { text } = part { text.len() } else { 0 }).sum();
        if bytes > MAX_TEXT {
            return Err(AttachError::TooLarge { name: uri, most: MAX_TEXT });
        }
        let server = match &target {
            Target::ResourceOf(origin) => Some(origin.server.clone()),
            _ => relay.server().cloned().or_else(|| owner(&self.host.own_catalog(), &uri)),
        };
        Ok(Attachment::new(AttachmentSource::Resource { server, uri, by }, content))
    }

    fn contents(&self, result: &Raw) -> Vec<ResultPart> {
        let redactor = self.host.redactor();
        let mut value = value_of(result);
        redactor.value(&mut value);
        content::parts(&value, result, Structured::Undeclared, &redactor)
    }

    /// Adds the resources for the assistant that fit the messages of the user, and says so. Reads no further ones once it is
    /// cancelled.
    pub(crate) async fn attach_relevant(
        &self,
        conversation: &mut Conversation,
        messages: &[Message],
        cancel: &CancellationToken,
        observe: &mut (dyn FnMut(AgentEvent) + Send),
    ) {
        let servers = &self.options.reading.auto_context;
        if servers.is_empty() {
            return;
        }
        let is_typed =
            |message: &&Message| message.role == Role::User && !is_attachment(message) && message.task.is_none();
        let words: String = messages.iter().filter(is_typed).map(|message| message.text() + "\n").collect();
        let catalog = self.host.own_catalog();
        let visible = self.visible();
        let known: Vec<&Message> = conversation.messages().iter().chain(messages).collect();
        let is_new = |uri: &str| known.iter().all(|message| message.attached.as_deref() != Some(uri));
        let hits = catalog.search_resources(&words, |entry| {
            let server = &entry.origin.server;
            servers.contains(server) && visible.covers(server) && is_for_assistant(entry) && is_new(&entry.item.uri)
        });
        let origins: Vec<Origin> = hits.into_iter().take(MOST_RELEVANT).map(|hit| hit.entry.origin.clone()).collect();
        let mut left = self.model().context_window().unwrap_or(USUAL_WINDOW) / RELEVANT_SHARE;
        for origin in origins {
            let request = self.request(Target::ResourceOf(origin.clone()), None, conversation);
            let request = CallRequest { approval: ApprovalHandling::Refuse, ..request };
            let shown = format!("resource `{}` of `{}`", origin.raw_name, origin.server);
            let read = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                read = tokio::time::timeout(RELEVANT_TIME, self.read_resource(request, AttachedBy::Relevance)) => read,
            };
            let Ok(read) = read else {
                let seconds = RELEVANT_TIME.as_secs();
                let why = format!("{shown} is not attached: its server did not answer within {seconds} s");
                observe(AgentEvent::LeftOut(why));
                continue;
            };
            let read = read.and_then(|attachment| {
                self.check_beside(std::slice::from_ref(&attachment), 0)?;
                Ok(attachment)
            });
            match read {
                Ok(attachment) if attachment.tokens() <= left => {
                    left -= attachment.tokens();
                    let tokens = attachment.tokens();
                    let message = attachment.message(conversation);
                    let bytes = serde_json::to_vec(&message).map_or(0, |text| text.len());
                    conversation.push(message).await;
                    let Origin { server, raw_name: uri } = origin;
                    observe(AgentEvent::Attached(AttachedResource { server: Some(server), uri, tokens, bytes }));
                }
                Ok(attachment) => observe(AgentEvent::LeftOut(format!(
                    "{shown} is not attached: it has about {} tokens, and {left} are left for such resources",
                    attachment.tokens()
                ))),
                Err(error) => observe(AgentEvent::LeftOut(format!("{shown} is not attached: {error}"))),
            }
        }
    }
}

/// A resource that Toolway attached because it is one of the assistant, or fits a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedResource {
    /// The server that wrote it; `None` if it is not known.
    pub server: Option<ServerName>,
    /// Its URI.
    pub uri: String,
    /// Tokens of its content, estimated.
    pub tokens: u64,
    /// Bytes of the message with it.
    pub bytes: usize,
}

impl AttachedResource {
    /// What happened, in words; the URI is text of a server.
    pub fn words(&self) -> String {
        let Self { server, uri, tokens, .. } = self;
        let server = server.as_ref().map(|server| format!(" of `{server}`")).unwrap_or_default();
        format!("attached resource `{uri}`{server} (about {tokens} tokens)")
    }
}

/// The server and the URI of `SERVER.URI`.
fn split_server(address: &str, is_known: impl Fn(&ServerName) -> bool) -> Option<Origin> {
    let (server, uri) = address.split_once('.')?;
    let server: ServerName = server.parse().ok().filter(is_known)?;
    uri.contains(':').then(|| Origin { server, raw_name: uri.to_owned() })
}

fn owner(catalog: &Catalog, uri: &str) -> Option<ServerName> {
    let entry = catalog.resources().iter().find(|entry| entry.public.as_str() == uri)?;
    Some(entry.origin.server.clone())
}

/// Whether a server annotates a resource for the model.
fn is_for_assistant(entry: &ResourceEntry) -> bool {
    let audience = entry.item.raw.get("annotations").and_then(|annotations| annotations.get("audience"));
    audience.is_some_and(|audience| audience.elements().iter().any(|who| who.as_str().as_deref() == Some("assistant")))
}
