//! Text by audience. [`OperatorText`] may contain stderr output of servers, file paths, variable names and addresses;
//! [`ClientText`] is made of fixed words and of names that the client knows, so that it can be shown to gateway clients
//! and to models.

use std::fmt;

use toolway_wire::error::WireError;

use crate::{
    connection::DialError,
    policy::{Refusal, RuleId},
    record::Repeated,
};

/// Text for the operator: the local commands and the operator log. It cannot be printed by accident: it has no `Display`,
/// and [`as_str`](Self::as_str) is the only way to its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorText(String);

/// Text for a client of the gateway, or for a model. Only this crate makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientText {
    text: String,
    /// Stable code of the failure, if details are withheld.
    class: Option<&'static str>,
}

// === impl OperatorText ===

impl OperatorText {
    /// Text that only the operator may read.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text. Not for clients, models or the access log.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As [`Self::as_str`], owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl From<ClientText> for OperatorText {
    fn from(text: ClientText) -> Self {
        Self(text.text)
    }
}

// === impl ClientText ===

impl ClientText {
    /// Text without withheld details.
    pub(crate) fn complete(text: impl Into<String>) -> Self {
        Self { text: text.into(), class: None }
    }

    /// Text that was one for clients when it was stored. For implementations of ports only.
    pub fn stored(text: impl Into<String>) -> Self {
        Self::complete(text)
    }

    /// What a stable error code means, without the details.
    pub(crate) fn of_code(code: &'static str) -> Self {
        Self { text: sentence(code).to_owned(), class: Some(code) }
    }

    /// The same with other words around the text.
    pub(crate) fn map(self, change: impl FnOnce(&str) -> String) -> Self {
        Self { text: change(&self.text), ..self }
    }

    /// Stable code of the failure; `None` if no details are withheld.
    pub fn class(&self) -> Option<&'static str> {
        self.class
    }

    /// The text with the id under which the operator log has the withheld details, if there are any.
    pub fn with_id(&self, id: impl fmt::Display) -> String {
        match self.class {
            Some(class) => format!("{} (`{class}`, id {id})", self.text),
            None => self.text.clone(),
        }
    }
}

impl fmt::Display for ClientText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Some(class) => write!(f, "{} (`{class}`)", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl From<&WireError> for ClientText {
    fn from(error: &WireError) -> Self {
        match error {
            // Numbers and words of ours.
            WireError::TimedOut { .. }
            | WireError::TooLarge { .. }
            | WireError::Overloaded { .. }
            | WireError::OverBudget(_)
            | WireError::Unauthorized { .. } => Self::complete(error.to_string()),
            WireError::Status { status, .. } => Self { text: format!("HTTP {status}"), class: Some(error.code()) },
            _ => Self::of_code(error.code()),
        }
    }
}

impl From<&DialError> for ClientText {
    fn from(error: &DialError) -> Self {
        match error {
            DialError::Timeout(_) => Self::complete(error.to_string()),
            // The hint has only names.
            DialError::SignInRequired { how: Some(how), .. } => Self::complete(format!("sign-in required: {how}")),
            DialError::SignInRequired { how: None, .. } => Self::complete("sign-in required"),
            DialError::Wire(error) => error.into(),
            other => Self::of_code(other.code()),
        }
    }
}

impl From<&Refusal> for ClientText {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            // The difference may name files and servers that the client does not know.
            Refusal::Denied { rule: RuleId::Drift, .. } => {
                Self::complete("denied by policy: the definition has changed")
            }
            // The rule is named by file and line.
            Refusal::Denied { reason: Some(reason), .. } => Self::complete(format!("denied by policy: {reason}")),
            Refusal::Denied { reason: None, .. } => Self::complete("denied by policy"),
            Refusal::ApproverUnavailable { name, .. } => {
                Self::complete(format!("`{name}` requires approval, and no approver is available"))
            }
            Refusal::NotRecorded(_) => Self {
                text: "the call was not sent because it cannot be recorded".to_owned(),
                class: Some(refusal.code()),
            },
            Refusal::LimitUnknown(_) => Self {
                text: "the call was not sent because its limit of calls per day cannot be checked".to_owned(),
                class: Some(refusal.code()),
            },
            // The record has the error as the operator reads it.
            Refusal::Repeated(Repeated::Failed { call, .. }) => Self {
                text: format!("not sent again: call {call} under the same idempotency key was answered with an error"),
                class: Some(refusal.code()),
            },
            // What the operator excludes, and what policy hides, does not exist for others.
            Refusal::FilteredOut { subject, .. } => {
                Self::complete(format!("unknown {} `{}`", subject.kind, subject.raw_name))
            }
            Refusal::Hidden { subject, name, .. } => Self::complete(format!("unknown {} `{name}`", subject.kind)),
            other => Self::complete(other.to_string()),
        }
    }
}

/// The meaning of a stable error code of a server.
fn sentence(code: &str) -> &'static str {
    match code {
        "config" => "its configuration is invalid",
        "unreachable" => "the server cannot be reached",
        "timed_out" => "the server does not answer in time",
        "too_large" => "the server sent a message that is too large",
        "protocol" => "the server violated the protocol",
        "refused" => "the request was refused",
        "ended" => "the connection to the server ended",
        "unauthorized" => "the server refused the credentials",
        "no_token" => "no access token is available",
        "vault" => "the credential store is unavailable",
        "redirect" => "the server redirects to another address",
        "no_common_revision" => "client and server share no protocol revision",
        "handshake" => "the server refused the handshake",
        "unsupported" => "the server does not support this",
        _ => "the server is unavailable",
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::error::WireError;

    use super::ClientText;
    use crate::{
        connection::DialError,
        policy::{Refusal, RuleId},
        record::Repeated,
    };

    #[test]
    fn a_client_does_not_read_how_a_server_has_changed() {
        let reason = Some("server: command: was \"/home/ada/a\", is now \"b\"".to_owned());
        let text = ClientText::from(&Refusal::Denied { rule: RuleId::Drift, reason }).to_string();
        assert_eq!(text, "denied by policy: the definition has changed");
    }

    #[test]
    fn details_of_an_error_are_withheld_and_its_class_is_shown() {
        let secret = "password=hunter2";
        for (error, expected) in [
            (WireError::Ended(secret.to_owned()), "the connection to the server ended (`ended`, id 7)"),
            (
                WireError::Unreachable { target: secret.to_owned(), reason: secret.to_owned() },
                "the server cannot be reached (`unreachable`, id 7)",
            ),
            (WireError::Protocol(secret.to_owned()), "the server violated the protocol (`protocol`, id 7)"),
            (WireError::Vault(secret.to_owned()), "the credential store is unavailable (`vault`, id 7)"),
            (WireError::Overloaded { limit: 3 }, "too many requests: 3 are already waiting for this server"),
        ] {
            assert_eq!(ClientText::from(&error).with_id(7), expected);
        }
        let error = DialError::Configuration("/home/ada/toolway.json:3 needs the variable `TOKEN`".to_owned());
        assert_eq!(ClientText::from(&error).to_string(), "its configuration is invalid (`config`)");
    }

    #[test]
    fn a_repetition_is_not_given_the_recorded_error() {
        let message = "HTTP 404: no route from /home/ada".to_owned();
        let refusal = Refusal::Repeated(Repeated::Failed { call: uuid::Uuid::nil(), message });
        let text = ClientText::from(&refusal).to_string();
        assert!(text.contains("was answered with an error") && !text.contains("ada"), "{text}");
    }
}
