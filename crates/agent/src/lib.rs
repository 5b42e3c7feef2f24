//! The conversation loop of `chat` and `run`: model, tools, model … until the model is done or a budget is used up.
//!
//! | part | file |
//! |---|---|
//! | the loop | `agent.rs` |
//! | budgets, repeated calls | `budget.rs` |
//! | tools on offer, adapted to the model | `tools.rs`, `builtin.rs` |
//! | results as the model sees them | `result.rs` |
//! | messages, and where they are stored | `conversation.rs` |
//! | the system prompt | `system.rs` |
//!
//! Every tool call takes the host's path of a call: policy decides, an approver is asked, and the call is recorded.

mod agent;
mod budget;
mod builtin;
mod conversation;
mod result;
mod system;
mod tools;

pub use agent::{Agent, AgentError, AgentEvent, AgentOptions, Answer, CallState, MadeCall};
pub use budget::{Budget, Stop};
pub use conversation::Conversation;
