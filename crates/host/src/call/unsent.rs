//! Records of calls that ended before they were opened: a command that could not connect or read its arguments, a model
//! that named no tool.

use super::{CallError, CallOutcome, CallRequest, Target};
use crate::{
    connection::NotConnected,
    host::Host,
    policy::{Refusal, Subject},
    record::Recording,
    whose_move::WhoseMove,
};

/// Why a call was not opened.
#[derive(Clone, Debug)]
pub enum Unsent {
    /// The request is invalid.
    Invalid(String),
    /// Its server is not available.
    Unavailable(String),
}

impl Host {
    /// Records a call that is not opened, with the outcome `not-sent`, and waits until that is written.
    pub async fn record_unsent(&self, request: &CallRequest, why: Unsent) {
        let mut recording = Recording::begin(self.draft(request), self.inner().record_ports());
        let subject = request.target.subject();
        if let Some(subject) = &subject {
            recording.set_subject(subject, None);
        }
        let outcome = match (why, subject) {
            (Unsent::Unavailable(because), Some(Subject { server, .. })) => {
                let why = NotConnected::known(because, WhoseMove::Supervisor);
                CallOutcome::Failed(CallError::NotConnected { server, why })
            }
            (Unsent::Invalid(because) | Unsent::Unavailable(because), _) => Refusal::Malformed(because).into(),
        };
        if let Some(written) = recording.end(&outcome) {
            written.await;
        }
    }
}

impl Target {
    /// The item, if its server is named.
    fn subject(&self) -> Option<Subject> {
        let (server, raw_name) = match self {
            Self::ToolOf(origin) | Self::PromptOf(origin) | Self::ResourceOf(origin) => {
                (&origin.server, origin.raw_name.as_str())
            }
            Self::Method { server, method } => (server, method.as_str()),
            Self::Tool(_) | Self::Prompt(_) | Self::Resource(_) => return None,
        };
        Some(Subject { server: server.clone(), kind: self.kind(), raw_name: raw_name.to_owned() })
    }
}
