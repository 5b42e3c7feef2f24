//! Stories about models: our wires against mock vendors over HTTP.
#![expect(clippy::unwrap_used, reason = "test helpers are part of the test")]

mod answer_schemas;
mod answers;
mod chat_deltas;
mod chat_reasoning;
mod exact_arguments;
mod golden;
mod newest;
mod ollama;
mod refusals;
mod schema_rules;
mod schemas;
mod scripts;
mod sdk_types;
mod stage;
mod stream_faults;
