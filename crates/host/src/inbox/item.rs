//! One item that waits for a person, and the answers to it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value, json};
use toolway_config::{ServerName, Trust, visible};
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails},
    json::Raw,
    message::RpcError,
};
use uuid::Uuid;

use super::{
    AnswerError, Form, ITEM_LIFETIME,
    approval_rows::{self, ArgumentRow},
};
use crate::{
    call::{CallId, Caller},
    policy::{
        Annotations, ApprovalAnswer, ApprovalRequest, ApprovalTerm, AskedCall, Lift, Proposal, Reached, RuleId, Scope,
        Subject, Surface,
    },
    sampling::SamplingDetails,
};

/// Something that waits for a person.
#[derive(Clone, Debug)]
pub struct InboxItem {
    /// UUIDv7 of the item.
    pub id: String,
    /// When it was asked.
    pub created_at: SystemTime,
    /// When it ends without an answer.
    pub expires_at: SystemTime,
    /// Server that asks, or that the call goes to.
    pub server: ServerName,
    /// Caller of the call it belongs to; `None` outside a call.
    pub caller: Option<Caller>,
    /// Surface of the call.
    pub surface: Option<Surface>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// Conversation of the call.
    pub conversation: Option<Arc<str>>,
    /// Whether the call belongs to a session of a gateway's client.
    pub has_session: bool,
    /// What is asked.
    pub content: InboxContent,
}

/// What an item asks.
#[derive(Clone, Debug)]
pub enum InboxContent {
    /// Policy asks whether a call may be sent.
    Approval(Box<ApprovalDetails>),
    /// A server asks for values.
    Form {
        /// Text of the server; untrusted.
        message: String,
        /// The fields.
        form: Form,
    },
    /// A server asks the user to open a URL.
    Url {
        /// Text of the server; untrusted.
        message: String,
        /// The URL; untrusted.
        url: String,
    },
    /// A server asks for the answer of a model.
    Sampling(Box<SamplingDetails>),
}

/// A call that requires an approval.
#[derive(Clone, Debug)]
pub struct ApprovalDetails {
    /// Server, kind and name of the item.
    pub subject: Subject,
    /// Title of the tool, set by its server.
    pub title: Option<String>,
    /// Arguments as they will be sent.
    pub arguments: Option<Raw>,
    /// The arguments as they are shown, computed once.
    pub rows: Arc<[ArgumentRow]>,
    /// Annotations of the tool.
    pub annotations: Annotations,
    /// Trust of the server.
    pub trust: Trust,
    /// Rule that asks.
    pub rule: RuleId,
    /// Reason in the rule.
    pub reason: Option<String>,
    /// The command that writes a rule that allows the call without asking, if there is one.
    pub remedy: Option<String>,
    /// What the call reaches, if that is why it is asked about.
    pub reached: Reached,
    /// What answers for longer than this call cover.
    pub proposal: Proposal,
    /// Whether such answers are used: not in mode `ask`.
    pub lift: Lift,
}

/// The call that an item belongs to.
#[derive(Clone, Debug)]
pub struct ItemOrigin {
    /// Id of the call; `None` for requests without a record.
    pub call: Option<CallId>,
    /// Identity on whose behalf the call is made.
    pub caller: Caller,
    /// Surface of the call.
    pub surface: Surface,
    /// Conversation of the call.
    pub conversation: Option<Arc<str>>,
    /// Whether the call belongs to a session of a gateway's client.
    pub has_session: bool,
}

/// Answer to an item.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxAnswer {
    /// To an approval request.
    Approval(ApprovalAnswer),
    /// To a form or URL.
    Elicitation(ElicitationAnswer),
    /// To a sampling request.
    Sampling(SamplingAnswer),
    /// No user is available, or none answered in time.
    Unavailable,
}

/// Answer to a form or URL.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// The user gave these values; none for a URL, which the user agreed to open.
    Accept(Map<String, Value>),
    /// The user agreed to open a URL, and it was opened.
    Opened,
    /// The user said no.
    Decline,
    /// The user closed it without deciding.
    Cancel,
}

/// Answer to a sampling request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingAnswer {
    /// The model may answer this request; or its answer may be sent.
    Once,
    /// The model may answer this and later requests of the server.
    Always,
    /// It may not.
    No,
}

/// An item as it is recorded: when it appears, and when it ends. It never answers anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRecord {
    /// UUIDv7 of the item.
    pub id: String,
    /// When it was asked.
    pub created_at: SystemTime,
    /// When it ends without an answer.
    pub expires_at: SystemTime,
    /// `approval`, `form`, `url` or `sampling`.
    pub kind: &'static str,
    /// Server name.
    pub server: ServerName,
    /// `kind[:name]` of the caller; `None` outside a call.
    pub caller: Option<String>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// One sentence, without arguments.
    pub text: String,
    /// Kind of the answer and the surface that gave it; `None` while it waits.
    pub outcome: Option<(&'static str, String)>,
}

// === impl InboxItem ===

impl InboxItem {
    pub(super) fn new(server: ServerName, origin: Option<ItemOrigin>, content: InboxContent) -> Self {
        let created_at = SystemTime::now();
        let (call, caller, surface, conversation, has_session) = match origin {
            Some(ItemOrigin { call, caller, surface, conversation, has_session }) => {
                (call, Some(caller), Some(surface), conversation, has_session)
            }
            None => (None, None, None, None, false),
        };
        Self {
            id: Uuid::now_v7().to_string(),
            created_at,
            expires_at: created_at + ITEM_LIFETIME,
            server,
            caller,
            surface,
            call,
            conversation,
            has_session,
            content,
        }
    }

    /// The item of an approval request. `rows` are those of its arguments.
    pub(crate) fn approval(
        request: &ApprovalRequest,
        rows: Arc<[ArgumentRow]>,
        title: Option<String>,
        proposal: Proposal,
        origin: ItemOrigin,
    ) -> Self {
        let details = ApprovalDetails {
            subject: request.subject().clone(),
            title,
            arguments: request.arguments().cloned(),
            rows,
            annotations: request.annotations(),
            trust: request.trust(),
            rule: request.rule().clone(),
            reason: request.reason().map(str::to_owned),
            remedy: request.remedy(),
            reached: request.reached().clone(),
            proposal,
            lift: request.lift(),
        };
        Self::new(request.subject().server.clone(), Some(origin), InboxContent::Approval(Box::new(details)))
    }

    /// The item of an elicitation request, or the error for the server.
    pub(crate) fn elicitation(
        server: &ServerName,
        request: &ServerRequestDetails,
        origin: Option<ItemOrigin>,
    ) -> Result<Self, RpcError> {
        let invalid = |why: &str| RpcError::new(RpcError::INVALID_PARAMS, &format!("invalid elicitation: {why}"));
        let params = request.params.as_ref().ok_or_else(|| invalid("no params"))?;
        let content = InboxContent::of_elicitation(params).map_err(|why| invalid(&why))?;
        Ok(Self::new(server.clone(), origin, content))
    }

    /// The item of a sampling request.
    pub(crate) fn sampling(server: &ServerName, details: SamplingDetails, origin: ItemOrigin) -> Self {
        Self::new(server.clone(), Some(origin), InboxContent::Sampling(Box::new(details)))
    }

    /// Whether an approval can hold for later calls of the same conversation or session.
    pub fn has_conversation(&self) -> bool {
        self.conversation.is_some() || self.has_session
    }

    /// The time left until it expires.
    pub fn remaining(&self) -> Duration {
        self.expires_at.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// One sentence that says what is asked. The text of a server is quoted as such.
    pub fn summary(&self) -> String {
        match &self.content {
            InboxContent::Approval(details) => {
                let caller = match &self.caller {
                    Some(Caller::Agent(_)) => "the model".to_owned(),
                    Some(caller) => caller.to_string(),
                    None => "a caller".to_owned(),
                };
                let Subject { server, kind, raw_name } = &details.subject;
                format!("may {caller} use the {kind} `{raw_name}` of `{server}`?")
            }
            InboxContent::Form { message, .. } => format!("`{}` asks for values: {message}", self.server),
            InboxContent::Url { message, .. } => format!("`{}` asks to open a URL: {message}", self.server),
            InboxContent::Sampling(details) if details.answer.is_some() => {
                format!("may `{}` get the answer of the model `{}`?", self.server, details.model)
            }
            InboxContent::Sampling(details) => format!("`{}` asks the model `{}`", self.server, details.model),
        }
    }

    /// Checks that an answer fits this item.
    pub(super) fn check(&self, answer: &InboxAnswer) -> Result<(), AnswerError> {
        match (&self.content, answer) {
            (
                InboxContent::Approval(_),
                InboxAnswer::Approval(ApprovalAnswer::Approved { term: ApprovalTerm::Conversation, .. }),
            ) if !self.has_conversation() => Err(AnswerError::NoConversation(self.id.clone())),
            (
                InboxContent::Approval(details),
                InboxAnswer::Approval(ApprovalAnswer::Approved { scope: Some(scope), .. }),
            ) if !scope.covers(details.asked_call()) => Err(AnswerError::NotCovered(self.id.clone())),
            (
                InboxContent::Approval(_),
                InboxAnswer::Approval(ApprovalAnswer::Approved {
                    term: ApprovalTerm::Always,
                    scope: Some(Scope::AnyHost),
                    ..
                }),
            ) => Err(AnswerError::AnyHostForGood(self.id.clone())),
            (InboxContent::Sampling(details), InboxAnswer::Sampling(SamplingAnswer::Always))
                if details.answer.is_some() =>
            {
                Err(AnswerError::NoTerm(self.id.clone()))
            }
            (_, InboxAnswer::Unavailable)
            | (InboxContent::Approval(_), InboxAnswer::Approval(_))
            | (InboxContent::Url { .. }, InboxAnswer::Elicitation(_))
            | (InboxContent::Sampling(_), InboxAnswer::Sampling(_)) => Ok(()),
            (InboxContent::Form { form, .. }, InboxAnswer::Elicitation(ElicitationAnswer::Accept(content))) => {
                form.check(content).map_err(AnswerError::InvalidForm)
            }
            (
                InboxContent::Form { .. },
                InboxAnswer::Elicitation(ElicitationAnswer::Decline | ElicitationAnswer::Cancel),
            ) => Ok(()),
            _ => Err(AnswerError::WrongKind { id: self.id.clone(), kind: self.content.kind() }),
        }
    }
}

impl ApprovalDetails {
    /// Warnings about the call: what its annotations say, and hidden characters.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = approval_rows::warnings(self.annotations, self.trust);
        if visible::has_hidden(&self.subject.raw_name) {
            warnings.push("the name contains hidden characters".to_owned());
        }
        warnings.extend(approval_rows::hidden_warnings(&self.rows));
        warnings
    }

    /// Whether what would be sent contains hidden characters. Approving it takes two steps.
    pub fn has_hidden(&self) -> bool {
        visible::has_hidden(&self.subject.raw_name) || self.rows.iter().any(|row| row.has_hidden)
    }

    /// The call, as scopes are compared with it.
    pub fn asked_call(&self) -> AskedCall<'_> {
        AskedCall { arguments: self.arguments.as_ref(), reached: &self.reached }
    }

    /// Whether an answer can hold for longer than this call. In mode `ask` every call is asked about.
    pub fn can_last(&self) -> bool {
        self.lift == Lift::BySaved
    }

    /// Whether the call is asked about only because it reaches new hosts.
    pub fn asks_for_hosts(&self) -> bool {
        self.reached.new_hosts().next().is_some()
    }

    /// Bytes of the rows.
    fn row_bytes(&self) -> usize {
        let texts = |row: &ArgumentRow| row.argument.len() + row.label.len() + row.value.len();
        self.rows.iter().map(|row| size_of::<ArgumentRow>() + texts(row)).sum()
    }
}

impl InboxContent {
    /// The form or URL of an elicitation, or why it is invalid.
    pub(super) fn of_elicitation(params: &Raw) -> Result<Self, String> {
        let text = |key: &str| params.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let message = text("message").unwrap_or_default();
        match text("mode").as_deref() {
            None | Some("form") => {
                let schema = params.get("requestedSchema").ok_or("no `requestedSchema`")?;
                Ok(Self::Form { message, form: Form::of(&schema)? })
            }
            Some("url") => Ok(Self::Url { message, url: text("url").ok_or("no `url`")? }),
            Some(other) => Err(format!("unknown mode `{other}`")),
        }
    }

    /// The word for scripts and records.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Approval(_) => "approval",
            Self::Form { .. } => "form",
            Self::Url { .. } => "url",
            Self::Sampling(_) => "sampling",
        }
    }

    /// About how many bytes are kept beside the request. The arguments of a call are charged with it.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            Self::Approval(details) => details.proposal.kept_bytes() + details.row_bytes(),
            Self::Form { message, form } => message.len() + form.kept_bytes(),
            Self::Url { message, url } => message.len() + url.len(),
            Self::Sampling(details) => details.kept_bytes(),
        }
    }
}

// === impl InboxAnswer ===

impl InboxAnswer {
    /// Kind of the answer, and the surface that gave it if it is known.
    pub(super) fn summary(&self) -> (&'static str, String) {
        match self {
            Self::Approval(ApprovalAnswer::Approved { term, by, .. }) => (term.as_str(), by.clone()),
            Self::Approval(ApprovalAnswer::Declined { term: ApprovalTerm::Always, by, .. }) => ("never", by.clone()),
            Self::Approval(ApprovalAnswer::Declined { by, .. }) => ("no", by.clone()),
            Self::Sampling(SamplingAnswer::Once) => ("once", String::new()),
            Self::Sampling(SamplingAnswer::Always) => ("always", String::new()),
            Self::Sampling(SamplingAnswer::No) => ("no", String::new()),
            Self::Elicitation(ElicitationAnswer::Accept(_) | ElicitationAnswer::Opened) => ("accept", String::new()),
            Self::Elicitation(ElicitationAnswer::Decline) => ("decline", String::new()),
            Self::Elicitation(ElicitationAnswer::Cancel) => ("cancel", String::new()),
            Self::Approval(ApprovalAnswer::Unavailable) | Self::Unavailable => ("unanswered", String::new()),
        }
    }

    /// The answer for the server that asked. Without a user in time, the form or URL is closed.
    pub(crate) fn into_wire(self, is_url: bool) -> Answer {
        match self {
            Self::Elicitation(ElicitationAnswer::Accept(_)) if is_url => accepted(),
            Self::Elicitation(ElicitationAnswer::Opened) => accepted(),
            Self::Elicitation(ElicitationAnswer::Accept(content)) => {
                Answer::Given(Raw::of(&json!({ "action": "accept", "content": content })))
            }
            Self::Elicitation(ElicitationAnswer::Decline) => Answer::declined(),
            Self::Elicitation(ElicitationAnswer::Cancel) | Self::Unavailable => Answer::dismissed(),
            Self::Approval(_) | Self::Sampling(_) => Answer::Unavailable,
        }
    }
}

/// The answer that a URL was accepted.
fn accepted() -> Answer {
    Answer::Given(Raw::of(&json!({ "action": "accept" })))
}

// === impl InboxRecord ===

impl InboxRecord {
    pub(super) fn of(item: &InboxItem, outcome: Option<(&'static str, String)>) -> Self {
        Self {
            id: item.id.clone(),
            created_at: item.created_at,
            expires_at: item.expires_at,
            kind: item.content.kind(),
            server: item.server.clone(),
            caller: item.caller.as_ref().map(Caller::label),
            call: item.call,
            text: item.summary(),
            outcome,
        }
    }
}
