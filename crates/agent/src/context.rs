//! How much of a model's context window a request fills, by part, and the share of the window that each part may have.
//!
//! Tokens are estimated from bytes, and corrected by what the vendor reported for the last request of the conversation.

use serde::Serialize;
use toolway_model::{Message, Part, ResultPart, Role, Usage};

/// Context window of a model that does not tell its own.
pub(crate) const USUAL_WINDOW: u64 = 128_000;
/// Bytes of text or JSON per token, roughly, for every vendor.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens of an image, roughly, for every vendor.
const IMAGE: u64 = 1_000;
/// Tokens of a sound, roughly.
const AUDIO: u64 = 1_000;

/// How a context is kept within its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextOptions {
    /// Share of the window from which on older turns are summarised.
    pub compact_at: f64,
}

/// What a request to the model has, in the order in which it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextPart {
    /// The system prompt of the user or the assistant.
    System,
    /// Instructions of the project that the user accepted.
    ProjectInstructions,
    /// Instructions of servers.
    Instructions,
    /// Definitions of tools.
    Tools,
    /// Files and resources that stand before messages of the user.
    Attachments,
    /// Summary of older turns.
    Summary,
    /// Messages of the user and the model, with calls.
    Messages,
    /// Results of calls.
    Results,
}

/// Tokens of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MeteredPart {
    /// The part.
    pub part: ContextPart,
    /// Its tokens, estimated.
    pub tokens: u64,
}

/// What the next request to the model would fill.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextMeter {
    /// Tokens of the window; a usual one if the model's is not configured.
    pub window: u64,
    /// Tokens of all parts.
    pub used: u64,
    /// The parts that are not empty.
    pub parts: Vec<MeteredPart>,
}

/// An estimate beside what the vendor counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    pub(crate) estimated: u64,
    pub(crate) reported: u64,
}

/// What is measured besides the messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    /// Bytes of the system prompt without instructions.
    pub(crate) system: usize,
    /// Bytes of the project's instructions.
    pub(crate) project: usize,
    /// Bytes of servers' instructions.
    pub(crate) instructions: usize,
    /// Tokens of the definitions of tools, estimated.
    pub(crate) tools: u64,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self { compact_at: 0.8 }
    }
}

impl Measure {
    /// An estimate, corrected. A vendor counts at least half and at most four times of it.
    fn correct(self, tokens: u64) -> u64 {
        let ratio = self.reported as f64 / self.estimated.max(1) as f64;
        (tokens as f64 * ratio.clamp(0.5, 4.0)).round() as u64
    }
}

impl ContextPart {
    /// The word for users and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::ProjectInstructions => "project instructions",
            Self::Instructions => "instructions",
            Self::Tools => "tools",
            Self::Attachments => "attachments",
            Self::Summary => "summary",
            Self::Messages => "messages",
            Self::Results => "results",
        }
    }
}

impl ContextMeter {
    /// Measures a request; the first message is the summary if `has_summary`.
    pub(crate) fn of(
        window: Option<u64>,
        frame: Frame,
        messages: &[Message],
        has_summary: bool,
        measure: Option<Measure>,
    ) -> Self {
        let summary = usize::from(has_summary).min(messages.len());
        let of = |part: ContextPart| messages[summary..].iter().filter(move |message| part_of(message) == part);
        let tokens = |part: ContextPart| of(part).map(message_tokens).sum();
        let parts = [
            (ContextPart::System, tokens_of(frame.system)),
            (ContextPart::ProjectInstructions, tokens_of(frame.project)),
            (ContextPart::Instructions, tokens_of(frame.instructions)),
            (ContextPart::Tools, frame.tools),
            (ContextPart::Attachments, tokens(ContextPart::Attachments)),
            (ContextPart::Summary, messages[..summary].iter().map(message_tokens).sum()),
            (ContextPart::Messages, tokens(ContextPart::Messages)),
            (ContextPart::Results, tokens(ContextPart::Results)),
        ];
        let corrected = |tokens: u64| measure.map_or(tokens, |measure| measure.correct(tokens));
        let parts = parts.into_iter().map(|(part, tokens)| MeteredPart { part, tokens: corrected(tokens) });
        let parts: Vec<MeteredPart> = parts.filter(|part| part.tokens > 0).collect();
        let used = parts.iter().map(|part| part.tokens).sum();
        Self { window: window.unwrap_or(USUAL_WINDOW), used, parts }
    }

    /// Share of the window that is used; above 1 if it is exceeded.
    pub fn share(&self) -> f64 {
        self.used as f64 / self.window.max(1) as f64
    }
}

/// The part that a message after the summary belongs to.
fn part_of(message: &Message) -> ContextPart {
    match message.role {
        Role::Tool => ContextPart::Results,
        Role::User if message.attached.is_some() => ContextPart::Attachments,
        Role::User | Role::Assistant => ContextPart::Messages,
    }
}

/// Tokens of a text of so many bytes, estimated.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Bytes of a text of so many tokens, estimated.
pub(crate) fn bytes_of(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

/// Tokens of a message, estimated from what is sent: the vendor's items if they are kept.
pub fn message_tokens(message: &Message) -> u64 {
    let parts: u64 = message.parts.iter().map(part_tokens).sum();
    let items = message.raw.iter().flat_map(|raw| &raw.items).map(|item| item.to_string().len()).sum();
    parts.max(tokens_of(items))
}

fn part_tokens(part: &Part) -> u64 {
    match part {
        Part::Text { text } => tokens_of(text.len()),
        Part::Reasoning { .. } => 0,
        Part::Image(_) => IMAGE,
        Part::Audio(_) => AUDIO,
        Part::ToolCall(call) => tokens_of(call.name.len() + call.arguments.to_string().len()),
        Part::ToolResult(result) => content_tokens(&result.content),
    }
}

/// Tokens of what a server sent, or a file has, estimated.
pub(crate) fn content_tokens(content: &[ResultPart]) -> u64 {
    let tokens = content.iter().map(|part| match part {
        ResultPart::Text { text } => tokens_of(text.len()),
        ResultPart::Image(_) => IMAGE,
        ResultPart::Audio(_) => AUDIO,
    });
    tokens.sum()
}

/// Share of the input tokens that the vendor read from its cache.
pub fn cached_share(usage: &Usage) -> f64 {
    usage.cached_tokens as f64 / usage.input_tokens.max(1) as f64
}
