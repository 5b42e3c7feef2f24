//! The inbox of the running gateway, for forms and URLs of a command without a user (`--wait`, `inbox.wait`).
//!
//! The command holds the call, and sends its form or URL over the private socket of the gateway. The connection stays open
//! until the answer arrives; if the command ends, the item is withdrawn.

use toolway_gateway::control::{ControlError, ControlRequest, ControlSocket, MAX_REQUEST_BYTES};
use toolway_host::inbox::{InboxAnswer, InboxItem, ParkedAnswer, ParkedRequest};

use crate::{
    app::App,
    gateway_control::ask,
    record_id,
    report::Report,
    sign_in::print_notice,
    terminal::given::{AnswerArgs, CommandAnswerer},
};

/// The inbox of a running gateway.
#[derive(Debug)]
pub(crate) struct GatewayInbox {
    place: ControlSocket,
}

/// Whether `inbox.wait` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitSetting {
    Wait,
    Unset,
}

impl App {
    /// The answerer of a command, with the terminal if there is one. With `--wait` it leaves forms and URLs to the inbox of
    /// the running gateway, which is then required; with `inbox.wait` if one runs and there is no terminal.
    pub(crate) async fn command_answerer(
        &self,
        args: &AnswerArgs,
        setting: WaitSetting,
    ) -> Result<CommandAnswerer, Report> {
        let answerer = CommandAnswerer::new(args, &self.environment)?;
        self.with_gateway_inbox(answerer, args, setting).await
    }

    /// Like [`Self::command_answerer`], without a terminal.
    pub(crate) async fn unattended_answerer(
        &self,
        args: &AnswerArgs,
        setting: WaitSetting,
    ) -> Result<CommandAnswerer, Report> {
        self.with_gateway_inbox(CommandAnswerer::unattended(args)?, args, setting).await
    }

    async fn with_gateway_inbox(
        &self,
        answerer: CommandAnswerer,
        args: &AnswerArgs,
        setting: WaitSetting,
    ) -> Result<CommandAnswerer, Report> {
        let is_set = setting == WaitSetting::Wait && !answerer.has_terminal();
        if !args.wait && !is_set {
            return Ok(answerer);
        }
        let inbox = match self.ask_gateway_of_configuration(&ControlRequest::Inbox { after: None }).await? {
            Some(_running) => self.control_place().map(|place| GatewayInbox { place }),
            None => None,
        };
        if args.wait && inbox.is_none() {
            let message = "`--wait` needs a running gateway, in whose inbox forms and URLs wait; none is running";
            return Err(Report::usage("no_gateway", message).hint("start one with `toolway serve`"));
        }
        Ok(answerer.with_inbox(inbox))
    }
}

impl WaitSetting {
    pub(crate) fn of(is_set: bool) -> Self {
        if is_set { Self::Wait } else { Self::Unset }
    }
}

impl GatewayInbox {
    /// Waits for the answer of a user; an error is the rest of a sentence that says why no user could answer.
    pub(crate) async fn answer(&self, item: &InboxItem) -> Result<InboxAnswer, String> {
        let request = ParkedRequest::of(item).ok_or("only forms and URLs wait in the inbox of the gateway")?;
        let order = ControlRequest::Park { request };
        let size = serde_json::to_vec(&order).map_or(usize::MAX, |text| text.len());
        if MAX_REQUEST_BYTES <= size {
            return Err(format!("its form is too large for the inbox of the gateway ({MAX_REQUEST_BYTES} bytes)"));
        }
        let short = record_id::short(&item.id);
        print_notice(&format!(
            "toolway: waiting for an answer to {} of `{}`: `toolway inbox answer {short}`, or the console",
            item.content.kind(),
            item.server
        ));
        match ask(&self.place, &order).await {
            Ok(Ok(reply)) => {
                let answer: ParkedAnswer = serde_json::from_value(reply.value)
                    .map_err(|error| format!("the gateway sent an invalid answer: {error}"))?;
                Ok(answer.into_answer())
            }
            Ok(Err(report)) => Err(report.message),
            Err(ControlError::NoGateway) => Err("the gateway has ended".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}
