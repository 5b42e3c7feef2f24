//! The resources of an assistant (`assistants.NAME.resources`): attached before the first message of a new conversation, each
//! read on the path of a call. A conversation that goes on has them already.

use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;
use toolway_host::call::Target;
use toolway_model::Message;

use crate::{
    agent::Agent,
    attaching::AttachedResource,
    attachment::{AttachError, Attachment},
    context,
    conversation::Conversation,
    event::AgentEvent,
};

/// How long a conversation waits for servers that have not listed their resources yet.
const LISTING: Duration = Duration::from_secs(10);

impl Agent {
    /// Attaches the resources of the assistant to a conversation without messages, except for those that are among
    /// `messages`. What cannot be attached is said, and the conversation goes on without it.
    pub(crate) async fn attach_of_assistant(
        &self,
        conversation: &mut Conversation,
        messages: &[Message],
        cancel: &CancellationToken,
        observe: &mut (dyn FnMut(AgentEvent) + Send),
    ) {
        let Some(assistant) = self.assistant().filter(|_| conversation.messages().is_empty()) else { return };
        let given = messages.iter().filter(|message| message.attached.is_some());
        let given_tokens = given.clone().map(context::message_tokens).sum();
        let mut known: Vec<String> = given.filter_map(|message| message.attached.clone()).collect();
        let mut attachments: Vec<Attachment> = Vec::new();
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.wait_until_offered(assistant.resources()) => {}
        }
        for address in assistant.resources() {
            let uri = self.resource_uri(address);
            if known.contains(&uri) {
                continue;
            }
            known.push(uri.clone());
            let read = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                read = self.attach_resource(conversation, address) => read,
            };
            let fits = |attachment: Attachment| {
                attachments.push(attachment);
                self.check_beside(&attachments, given_tokens).inspect_err(|_| drop(attachments.pop()))
            };
            if let Err(error) = read.and_then(fits) {
                observe(AgentEvent::LeftOut(left_out(assistant.name(), &uri, &error)));
            }
        }
        for attachment in attachments {
            let server = attachment.server().cloned();
            let uri = attachment.name().to_owned();
            let tokens = attachment.tokens();
            let message = attachment.message(conversation);
            let bytes = serde_json::to_vec(&message).map_or(0, |text| text.len());
            conversation.push(message).await;
            observe(AgentEvent::Attached(AttachedResource { server, uri, tokens, bytes }));
        }
    }

    /// Waits until the servers have listed their resources that these addresses may mean.
    async fn wait_until_offered(&self, addresses: &[String]) {
        let visible = self.visible();
        let all = || self.host.servers().into_iter().map(|status| status.server).collect();
        let of_address = |address: &String| match self.resource_target(address) {
            Target::ResourceOf(origin) => vec![origin.server],
            _ if self.offers_resource(address) => Vec::new(),
            _ => all(),
        };
        let mut servers: Vec<ServerName> = addresses.iter().flat_map(of_address).collect();
        servers.retain(|server| visible.covers(server));
        servers.sort();
        servers.dedup();
        let listed = join_all(servers.iter().map(|server| self.host.list(server)));
        let _in_time = tokio::time::timeout(LISTING, listed).await;
    }
}

fn left_out(assistant: &str, uri: &str, error: &AttachError) -> String {
    format!("resource `{uri}` of assistant `{assistant}` is not attached: {error}")
}
