//! Keeps requests as they are sent, in notes of their conversation.
//!
//! `store.bodies` decides as it does for messages: with `none` nothing is kept; with `redacted`, a request with a secret is
//! kept as it would be without it.

use std::collections::HashSet;

use futures_util::future::{BoxFuture, join_all};
use toolway_config::Bodies;
use toolway_host::{
    conversation::{ConversationLog, ConversationNote, REPLAY_NOTES},
    record::{RecordsError, redact::Redactor},
    time,
};
use toolway_model::{Message, ModelRequest, SentRequest, value_of};
use toolway_wire::json::Raw;
use uuid::Uuid;

use super::{
    kept_request::{BaseText, KeptFrame, KeptRequest, KeptText, Source, SummarySource, turn_messages},
    pieces::{self, PieceId},
};
use crate::{compaction::Compaction, kept_message::Keeping};

/// Requests that one process keeps of a conversation.
pub(super) const MAX_REQUESTS: usize = 10_000;
/// Bytes of the texts that one process keeps of a conversation. Of later bodies only the digests are kept; a later request
/// whose other texts do not fit is not kept.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of the notes that say which texts a request has, in all. Later requests are not kept.
const MAX_NOTES: usize = 16 * 1024 * 1024;
/// Bytes of one piece; of a longer one, such as an image, only the digest is kept.
const MAX_PIECE: usize = 256 * 1024;
/// Bytes of what a request has besides messages. A request with more is not kept.
const MAX_FRAME: usize = 4 * 1024 * 1024;

/// Name of the note that says why requests were not kept.
pub(super) const NOT_KEPT: &str = "not-kept";
/// Begins the names of the notes with requests, after [`REPLAY_NOTES`].
pub(super) const REQUEST: &str = "request/";
/// Begins the names of the notes with pieces, after [`REPLAY_NOTES`].
pub(super) const PIECE: &str = "piece/";

/// What was kept of a conversation's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog {
    known: HashSet<PieceId>,
    last: Option<LastRequest>,
    requests: usize,
    /// Bytes of texts.
    bytes: usize,
    /// Bytes of the notes of requests.
    note_bytes: usize,
    is_reported: bool,
}

/// The request that was kept last.
#[derive(Clone, Debug)]
struct LastRequest {
    name: String,
    body: Vec<PieceId>,
    frame: Vec<PieceId>,
}

/// What a request was made for.
pub(crate) enum Asked<'a> {
    Answer(&'a Compaction),
    Summary(SummarySource),
}

/// A request, and the conversation that it belongs to.
pub(crate) struct RequestToKeep<'a> {
    pub(crate) request: &'a ModelRequest,
    pub(crate) sent: &'a SentRequest,
    pub(crate) asked: Asked<'a>,
    /// The messages of the conversation at that time.
    pub(crate) messages: &'a [Message],
    pub(crate) keeping: &'a Keeping,
}

/// Notes that are being written.
type Writing = Vec<BoxFuture<'static, Result<(), RecordsError>>>;

/// Where notes of one conversation go.
struct Notes<'a> {
    log: &'a dyn ConversationLog,
    conversation: &'a str,
    writing: Writing,
}

impl RequestLog {
    /// Keeps a request, and waits until it is stored.
    pub(crate) async fn keep(
        &mut self,
        log: &dyn ConversationLog,
        conversation: &str,
        kept: RequestToKeep<'_>,
    ) -> Result<(), RecordsError> {
        let mut notes = Notes { log, conversation, writing: Vec::new() };
        self.write(&mut notes, kept);
        join_all(notes.writing).await.into_iter().collect()
    }

    fn write(&mut self, notes: &mut Notes<'_>, kept: RequestToKeep<'_>) {
        let reason = match kept.keeping.bodies() {
            Bodies::None => Some("`store.bodies` was `none`".to_owned()),
            _ if MAX_REQUESTS <= self.requests => Some(format!("there were more than {MAX_REQUESTS}")),
            _ if MAX_NOTES <= self.note_bytes => Some(format!("they had more than {MAX_NOTES} bytes")),
            _ => None,
        };
        if let Some(reason) = reason {
            if !std::mem::replace(&mut self.is_reported, true) {
                notes.write(NOT_KEPT, reason);
            }
            return;
        }
        let Some(parts) = Parts::of(&kept) else {
            tracing::warn!("a request is not kept for a replay: it is too long, or a secret cannot be removed from it");
            notes.write(NOT_KEPT, "one was too long, or a secret could not be removed from it".to_owned());
            return;
        };
        let frame = pieces::split(&parts.frame);
        let needed = frame.iter().copied().chain(parts.compaction.as_deref());
        if !self.has_room(needed) {
            notes.write(NOT_KEPT, format!("they had more than {MAX_BYTES} bytes"));
            return;
        }
        self.requests += 1;
        let frame: Vec<PieceId> = frame.into_iter().map(|piece| self.keep_piece(notes, piece, Need::Needed)).collect();
        let source = match (kept.asked, parts.compaction) {
            (Asked::Answer(_), compaction) => {
                let compaction = compaction.map(|text| self.keep_piece(notes, &text, Need::Needed));
                Source::Turn { messages: kept.messages.len(), compaction }
            }
            (Asked::Summary(source), _) => {
                Source::Summary(SummarySource { before: kept.keeping.text(&source.before), ..source })
            }
        };
        let body: Vec<PieceId> =
            pieces::split(&parts.body).into_iter().map(|piece| self.keep_piece(notes, piece, Need::Shown)).collect();
        let request = KeptRequest {
            at: time::now(),
            encoding: kept.sent.encoding.clone(),
            source,
            frame: KeptText::of(&frame, self.last.as_ref().map(LastRequest::frame)),
            sha256: pieces::sha256(parts.body.as_bytes()),
            bytes: parts.body.len(),
            is_redacted: parts.is_redacted,
            text: KeptText::of(&body, self.last.as_ref().map(LastRequest::body)),
        };
        let name = Uuid::now_v7().to_string();
        let note = serde_json::to_string(&request).unwrap_or_default();
        self.note_bytes += note.len();
        notes.write(&format!("{REQUEST}{name}"), note);
        self.last = Some(LastRequest { name, body, frame });
    }

    /// Whether the texts among these that are not kept yet still fit.
    fn has_room<'a>(&self, texts: impl Iterator<Item = &'a str>) -> bool {
        let new = texts.filter(|text| !self.known.contains(&PieceId::of(text)));
        self.bytes + new.map(str::len).sum::<usize>() <= MAX_BYTES
    }

    fn keep_piece(&mut self, notes: &mut Notes<'_>, text: &str, need: Need) -> PieceId {
        let id = PieceId::of(text);
        let is_kept = need == Need::Needed || (text.len() <= MAX_PIECE && self.bytes + text.len() <= MAX_BYTES);
        if is_kept && self.known.insert(id.clone()) {
            self.bytes += text.len();
            notes.write(&format!("{PIECE}{}", id.as_str()), text.to_owned());
        }
        id
    }
}

impl LastRequest {
    fn body(&self) -> BaseText<'_> {
        BaseText { name: &self.name, pieces: &self.body }
    }

    fn frame(&self) -> BaseText<'_> {
        BaseText { name: &self.name, pieces: &self.frame }
    }
}

/// What a piece is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The request cannot be rebuilt without it. There is room for it.
    Needed,
    /// A difference is shown with it.
    Shown,
}

/// The texts that are kept of a request.
struct Parts {
    body: String,
    frame: String,
    compaction: Option<String>,
    is_redacted: bool,
}

impl Parts {
    /// `None` if they are too long, or a secret cannot be removed.
    fn of(kept: &RequestToKeep<'_>) -> Option<Self> {
        let body = std::str::from_utf8(&kept.sent.body).ok()?;
        let frame = KeptFrame::of(kept.request, kept.sent.answer_schema.clone());
        let frame = serde_json::to_string(&frame).ok().filter(|frame| frame.len() <= MAX_FRAME)?;
        let compaction = match &kept.asked {
            Asked::Answer(compaction) if **compaction != Compaction::default() => Some(compaction),
            Asked::Answer(_) | Asked::Summary(_) => None,
        };
        let compaction = compaction.and_then(|compaction| serde_json::to_string(compaction).ok());
        let whole = Self { body: body.to_owned(), frame, compaction, is_redacted: false };
        match kept.keeping.redactor() {
            Some(redactor) if whole.has_secret(redactor) => whole.redacted(kept, redactor),
            _ => Some(whole),
        }
    }

    fn has_secret(&self, redactor: &Redactor) -> bool {
        [Some(&self.body), Some(&self.frame), self.compaction.as_ref()]
            .into_iter()
            .flatten()
            .any(|text| redactor.finds(text))
    }

    /// The same request, made of what is stored of the conversation.
    fn redacted(&self, kept: &RequestToKeep<'_>, redactor: &Redactor) -> Option<Self> {
        let frame = redacted_json(&self.frame, redactor)?;
        let compaction = match &self.compaction {
            Some(text) => Some(redacted_json(text, redactor)?),
            None => None,
        };
        let messages: Vec<Message> = kept.messages.iter().map(|message| kept.keeping.message(message)).collect();
        let messages = match &kept.asked {
            Asked::Answer(_) => {
                let compaction =
                    compaction.as_ref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                turn_messages(messages.len(), &compaction, &messages)?
            }
            Asked::Summary(source) => {
                let before = kept.keeping.text(&source.before);
                SummarySource { before, ..source.clone() }.messages(&messages)?
            }
        };
        let request = serde_json::from_str::<KeptFrame>(&frame).ok()?.with(messages);
        let body = String::from_utf8(kept.sent.encoding.body(&request).to_vec()).ok()?;
        let redacted = Self { body, frame, compaction, is_redacted: true };
        (!redacted.has_secret(redactor)).then_some(redacted)
    }
}

fn redacted_json(text: &str, redactor: &Redactor) -> Option<String> {
    let mut value = value_of(&Raw::parse(text.to_owned()).ok()?);
    redactor.value(&mut value);
    Some(value.to_string())
}

impl Notes<'_> {
    fn write(&mut self, name: &str, body: String) {
        let note = ConversationNote { name: format!("{REPLAY_NOTES}{name}"), body };
        self.writing.push(self.log.keep(self.conversation, note));
    }
}
