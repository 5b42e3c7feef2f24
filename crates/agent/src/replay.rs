//! A stored conversation, sent again without a model: its requests are rebuilt from what is stored, and compared with what
//! was sent.
//!
//! A request is kept as how it was made (`replay/kept_request.rs`), its digest, and its text in pieces that requests share
//! (`replay/pieces.rs`); `replay/recording.rs` writes that while a conversation goes on. The answers of the model and the
//! results of calls are the stored messages.

mod kept_request;
mod pieces;
mod recording;

use std::collections::HashMap;

use serde::Serialize;
use toolway_host::conversation::{ConversationNote, REPLAY_NOTES};
use toolway_model::{Encoding, Message};

use kept_request::{KeptFrame, KeptRequest, KeptText, Source, turn_messages};
use pieces::PieceId;

pub(crate) use kept_request::SummarySource;
pub(crate) use recording::{Asked, RequestLog, RequestToKeep};

/// Bytes before a difference that are shown.
const BEFORE: usize = 30;
/// Bytes that are shown of each side of a difference.
const SHOWN: usize = 120;
/// Stands for a part of a request that was too long to be kept.
const NOT_KEPT: &str = "[a part that is not kept, for its length]";

/// The requests of a stored conversation, each beside what was sent.
#[derive(Clone, Debug)]
pub struct Replay {
    /// In the order in which they were sent.
    pub requests: Vec<ReplayedRequest>,
    /// Why requests were not kept; `None` if all were, or if no process recorded any.
    pub not_kept: Option<String>,
}

/// One request, rebuilt.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedRequest {
    /// From 1.
    pub number: usize,
    /// When it was sent, in microseconds since 1970.
    pub at: i64,
    /// How it was encoded.
    pub encoding: Encoding,
    /// What it asked for.
    pub purpose: RequestPurpose,
    /// Bytes that were sent.
    pub bytes: usize,
    /// Whether secrets were left out of both sides.
    pub is_redacted: bool,
    /// Whether it is the same.
    pub outcome: ReplayOutcome,
}

/// What a request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestPurpose {
    /// An answer.
    Answer,
    /// A summary of older turns.
    Summary,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// Every byte is the same.
    Identical,
    /// This is the first difference.
    Different(ReplayDifference),
    /// It cannot be rebuilt, with the reason.
    Unusable(String),
}

/// The first difference between two requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayDifference {
    /// JSON pointer of the value.
    pub path: String,
    /// Byte from which on they differ, or at which the piece begins that differs.
    pub offset: usize,
    /// What was sent, from a little before the difference on.
    pub sent: String,
    /// What would be sent now.
    pub rebuilt: String,
}

impl Replay {
    /// Rebuilds the requests of a conversation from its messages and the notes that are kept for a replay.
    pub fn of(messages: &[Message], notes: &[ConversationNote]) -> Self {
        let notes = notes.iter().filter_map(|note| Some((note.name.strip_prefix(REPLAY_NOTES)?, note.body.as_str())));
        let mut stored = Stored { messages, pieces: HashMap::new(), texts: HashMap::new() };
        let mut kept = Vec::new();
        let mut not_kept = None;
        for (name, body) in notes {
            if let Some(id) = name.strip_prefix(recording::PIECE) {
                stored.pieces.insert(id, body);
            } else if let Some(id) = name.strip_prefix(recording::REQUEST) {
                kept.push((id, body));
            } else if name == recording::NOT_KEPT {
                not_kept = Some(body.to_owned());
            }
        }
        // Ids sort by time.
        kept.sort_unstable();
        let mut requests = Vec::with_capacity(kept.len());
        for (id, body) in kept {
            match serde_json::from_str::<KeptRequest>(body) {
                Ok(request) => requests.push(stored.replay(requests.len() + 1, id, &request)),
                Err(error) => not_kept = Some(format!("one cannot be read: {error}")),
            }
        }
        Self { requests, not_kept }
    }

    /// Whether all requests are known to be the same.
    pub fn is_identical(&self) -> bool {
        self.not_kept.is_none() && self.requests.iter().all(|request| request.outcome == ReplayOutcome::Identical)
    }
}

/// What is stored of a conversation.
struct Stored<'a> {
    messages: &'a [Message],
    pieces: HashMap<&'a str, &'a str>,
    /// The texts of the requests so far, by id.
    texts: HashMap<String, StoredTexts>,
}

/// The pieces of the texts of one request; `None` where its base is missing.
struct StoredTexts {
    body: Option<Vec<PieceId>>,
    frame: Option<Vec<PieceId>>,
}

impl Stored<'_> {
    fn replay(&mut self, number: usize, id: &str, kept: &KeptRequest) -> ReplayedRequest {
        let pieces = self.texts_of(kept);
        let outcome = match self.rebuild(kept, pieces.frame.as_deref()) {
            Err(why) => ReplayOutcome::Unusable(why),
            Ok(rebuilt) if pieces::sha256(rebuilt.as_bytes()) == kept.sha256 => ReplayOutcome::Identical,
            Ok(rebuilt) => {
                ReplayOutcome::Different(self.difference(pieces.body.as_deref().unwrap_or_default(), &rebuilt))
            }
        };
        self.texts.insert(id.to_owned(), pieces);
        let purpose = match kept.source {
            Source::Turn { .. } => RequestPurpose::Answer,
            Source::Summary(_) => RequestPurpose::Summary,
        };
        let at = kept.at;
        let encoding = kept.encoding.clone();
        ReplayedRequest { number, at, encoding, purpose, bytes: kept.bytes, is_redacted: kept.is_redacted, outcome }
    }

    /// The pieces of a request, with those that it shares.
    fn texts_of(&self, kept: &KeptRequest) -> StoredTexts {
        let base = |text: &KeptText| text.base.as_ref().and_then(|base| self.texts.get(base));
        StoredTexts {
            body: kept.text.all(base(&kept.text).and_then(|base| base.body.as_deref())),
            frame: kept.frame.all(base(&kept.frame).and_then(|base| base.frame.as_deref())),
        }
    }

    fn rebuild(&self, kept: &KeptRequest, frame: Option<&[PieceId]>) -> Result<String, String> {
        let missing = || "what it had besides messages is missing in the store".to_owned();
        let piece = |id: &PieceId| self.pieces.get(id.as_str()).copied().ok_or_else(missing);
        let frame = frame.ok_or_else(missing)?.iter().map(piece).collect::<Result<String, String>>()?;
        let frame: KeptFrame = serde_json::from_str(&frame).map_err(|error| error.to_string())?;
        let messages = match &kept.source {
            Source::Turn { messages, compaction } => {
                let compaction = match compaction {
                    Some(id) => serde_json::from_str(piece(id)?).map_err(|error| error.to_string())?,
                    None => crate::compaction::Compaction::default(),
                };
                turn_messages(*messages, &compaction, self.messages)
            }
            Source::Summary(source) => source.messages(self.messages),
        };
        let count = self.messages.len();
        let messages = messages.ok_or_else(|| format!("the conversation has only {count} stored messages"))?;
        let body = kept.encoding.body(&frame.with(messages));
        String::from_utf8(body.to_vec()).map_err(|error| error.to_string())
    }

    /// The first difference, as far as the pieces of what was sent are kept.
    fn difference(&self, pieces: &[PieceId], rebuilt: &str) -> ReplayDifference {
        let mut sent = String::new();
        let mut rest = "";
        for id in pieces {
            let kept = self.pieces.get(id.as_str()).copied();
            match kept.or_else(|| same_piece(id, &sent, rebuilt)) {
                Some(piece) => sent.push_str(piece),
                None => {
                    rest = NOT_KEPT;
                    break;
                }
            }
        }
        let offset = first_difference(&sent, rebuilt);
        let path = pieces::pointer(&sent, offset);
        let is_at_end = offset == sent.len();
        let sent = format!("{}{}", excerpt(&sent, offset), if is_at_end { rest } else { "" });
        ReplayDifference { path, offset, sent, rebuilt: excerpt(rebuilt, offset) }
    }
}

/// The piece of the rebuilt request that stands where a piece that is not kept stood, if it is the same.
fn same_piece<'a>(id: &PieceId, sent: &str, rebuilt: &'a str) -> Option<&'a str> {
    let rest = rebuilt.strip_prefix(sent)?;
    let piece = pieces::split(rebuilt).into_iter().find(|piece| std::ptr::eq(piece.as_ptr(), rest.as_ptr()))?;
    (PieceId::of(piece) == *id).then_some(piece)
}

fn first_difference(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// What stands around a byte of a text.
fn excerpt(text: &str, offset: usize) -> String {
    let from = text.floor_char_boundary(offset.saturating_sub(BEFORE));
    let to = text.floor_char_boundary(from.saturating_add(SHOWN));
    let before = if from > 0 { "…" } else { "" };
    let after = if to < text.len() { "…" } else { "" };
    format!("{before}{}{after}", &text[from..to])
}
