//! What is kept of a request: how it was made, its digest, and its text in pieces that requests share.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolway_model::{Encoding, Message, ModelRequest, ToolDefinition};

use super::pieces::PieceId;
use crate::{compacting, compaction::Compaction};

/// A request, as it is kept in a note of its conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptRequest {
    /// When it was sent, in microseconds since 1970.
    pub(super) at: i64,
    pub(super) encoding: Encoding,
    pub(super) source: Source,
    /// The text of its [`KeptFrame`].
    #[serde(deserialize_with = "frame")]
    pub(super) frame: KeptText,
    pub(super) sha256: String,
    pub(super) bytes: usize,
    /// Whether secrets were left out: digest and text are those of the request without them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_redacted: bool,
    pub(super) text: KeptText,
}

/// The text of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptText {
    /// Name of the request that it has pieces of; `None`: of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<String>,
    /// Pieces at the beginning of the base that it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) first: usize,
    /// Pieces at the end of the base that it has.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) last: usize,
    /// Its pieces in between.
    pub(super) pieces: Vec<PieceId>,
}

/// A text of an earlier request.
#[derive(Clone, Copy)]
pub(super) struct BaseText<'a> {
    /// Name of that request.
    pub(super) name: &'a str,
    pub(super) pieces: &'a [PieceId],
}

/// What the messages of a request were made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum Source {
    /// The first messages of the conversation.
    Turn {
        messages: usize,
        /// The piece with the [`Compaction`] of that moment; `None`: nothing was left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compaction: Option<PieceId>,
    },
    /// Messages that are to be summarised.
    Summary(SummarySource),
}

/// What a request for a summary is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummarySource {
    /// The first of the messages.
    pub(crate) from: usize,
    /// The message after the last one.
    pub(crate) until: usize,
    /// Bytes of one request's transcript.
    pub(crate) room: usize,
    /// Number of the transcript, from 0.
    pub(crate) piece: usize,
    /// The summary so far.
    pub(crate) before: String,
}

/// What a request has besides messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptFrame {
    system: String,
    tools: Vec<KeptTool>,
    max_tokens: Option<u64>,
    answer_schema: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptTool {
    name: String,
    description: String,
    input_schema: Value,
}

/// Earlier versions kept a frame as one piece.
fn frame<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeptText, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StoredFrame {
        Pieces(KeptText),
        Whole(PieceId),
    }
    Ok(match StoredFrame::deserialize(deserializer)? {
        StoredFrame::Pieces(text) => text,
        StoredFrame::Whole(piece) => KeptText { base: None, first: 0, last: 0, pieces: vec![piece] },
    })
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl KeptText {
    /// A text as what it shares with the text of another request, and the rest.
    pub(super) fn of(pieces: &[PieceId], base: Option<BaseText<'_>>) -> Self {
        let whole = Self { base: None, first: 0, last: 0, pieces: pieces.to_vec() };
        let Some(base) = base else { return whole };
        let same = |(one, other): &(&PieceId, &PieceId)| one == other;
        let first = pieces.iter().zip(base.pieces).take_while(same).count();
        let after = base.pieces[first..].iter().rev();
        let last = pieces[first..].iter().rev().zip(after).take_while(same).count();
        if first + last == 0 {
            return whole;
        }
        let between = pieces[first..pieces.len() - last].to_vec();
        Self { base: Some(base.name.to_owned()), first, last, pieces: between }
    }

    /// All pieces, with those of its base; `None` if these do not fit.
    pub(super) fn all(&self, base: Option<&[PieceId]>) -> Option<Vec<PieceId>> {
        if self.base.is_none() {
            return Some(self.pieces.clone());
        }
        let base = base?;
        let first = base.get(..self.first)?;
        let last = base.get(base.len().checked_sub(self.last)?..)?;
        Some([first, &self.pieces, last].concat())
    }
}

impl KeptFrame {
    pub(super) fn of(request: &ModelRequest, answer_schema: Option<Value>) -> Self {
        let tools = request.tools.iter().map(|tool| KeptTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        });
        Self { system: request.system.clone(), tools: tools.collect(), max_tokens: request.max_tokens, answer_schema }
    }

    /// The request with these messages.
    pub(super) fn with(self, messages: Vec<Message>) -> ModelRequest {
        let tools = self.tools.into_iter().map(|tool| ToolDefinition {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
        });
        ModelRequest {
            system: self.system,
            messages,
            tools: tools.collect(),
            max_tokens: self.max_tokens,
            answer_schema: self.answer_schema,
            ..ModelRequest::default()
        }
    }
}

impl SummarySource {
    /// The messages of the request; `None` if the conversation does not have what is summarised.
    pub(super) fn messages(&self, conversation: &[Message]) -> Option<Vec<Message>> {
        let older = conversation.get(self.from..self.until)?;
        let transcript = compacting::transcript(older, self.room);
        Some(vec![compacting::question(&self.before, transcript.get(self.piece)?)])
    }
}

/// The messages of a request of a turn; `None` if the conversation has fewer.
pub(super) fn turn_messages(count: usize, compaction: &Compaction, conversation: &[Message]) -> Option<Vec<Message>> {
    Some(compaction.view(conversation.get(..count)?))
}
