//! The conversation loop of `chat` and `run`: model, tools, model … until the model is done or a budget is used up.
//!
//! | part | file |
//! |---|---|
//! | an agent and its options; the loop of one answer | `agent.rs`, `answering.rs` |
//! | the assistant of a conversation, and its resources | `assistant.rs`, `assistant_resources.rs` |
//! | the calls of one message | `calls.rs` |
//! | what happens, for surfaces | `event.rs` |
//! | budgets, repeated calls | `budget.rs` |
//! | tools on offer, adapted to the model | `tools.rs`, `hints.rs`, `builtin.rs` |
//! | a search for tools instead of their definitions; a list of resources | `search.rs`, `resource_list.rs` |
//! | results as the model sees them | `result.rs`, `content.rs`, `kept.rs` |
//! | the context window: its meter, older turns summarised | `context.rs`, `compacting.rs`, `compaction.rs` |
//! | files and resources before a message | `attachment.rs`, `attaching.rs`, `attached_file.rs`, `media.rs` |
//! | messages, and where they are stored | `conversation.rs`, `kept_message.rs` |
//! | a conversation as a file | `export.rs` |
//! | requests as they were sent, and rebuilt for a replay | `replay.rs`, `replay/` |
//! | URLs that the user and results named | `seen.rs` |
//! | background tasks and their ends | `task_board.rs`, `task_block.rs`, `resumed_tasks.rs` |
//! | the system prompt | `system.rs` |
//! | answers to servers that ask a model | `sampling.rs` |
//! | the JSON Schema of an answer | `answer_schema.rs` |
//!
//! Every tool call takes the host's path of a call: policy decides, an approver is asked, and the call is recorded.

mod agent;
mod answer_schema;
mod answering;
mod assistant;
mod assistant_resources;
mod attached_file;
mod attaching;
mod attachment;
mod budget;
mod builtin;
mod calls;
mod compacting;
mod compaction;
mod content;
mod context;
mod conversation;
mod event;
pub mod export;
mod hints;
mod kept;
mod kept_message;
mod media;
mod replay;
mod resource_list;
mod result;
mod resumed;
mod resumed_tasks;
mod sampling;
mod search;
mod seen;
mod system;
mod task_block;
mod task_board;
mod tools;

pub use agent::{Agent, AgentError, AgentOptions, Answer, Observer, OfferedTools};
pub use answer_schema::{AnswerSchema, Validate};
pub use assistant::{Assistant, StoredAssistant, UnreadableAssistant};
pub use attaching::{AttachedResource, ResourceOptions};
pub use attachment::{AttachError, AttachedBy, Attachment, AttachmentSource, is_attachment};
pub use budget::{Budget, Stop};
pub use compacting::Compacted;
pub use compaction::StoredCompaction;
pub use content::prompt_messages;
pub use context::{ContextMeter, ContextOptions, ContextPart, MeteredPart, cached_share, message_tokens};
pub use conversation::{Conversation, RecordIds};
/// Types of messages and models that are part of this crate's interface.
pub use toolway_model as model;

pub use event::{AgentEvent, CallProgress, CallState, EndedCall, MadeCall, StartedCall};
pub use kept::KeptResults;
pub use replay::{Replay, ReplayDifference, ReplayOutcome, ReplayedRequest, RequestPurpose};
pub use sampling::{
    ConversationModels, ModelCandidate, ModelPriority, ModelSampler, OF_CONVERSATION, OpenedModel, SamplingModels,
};
pub use system::ProjectInstructions;
pub use task_block::{TaskBlock, is_task_block};
pub use task_board::{EndedTask, SELF_STARTED_TURNS, TaskBoard, TaskEnd, describe};
