//! Stories about models: our wires against mock vendors over HTTP.

mod answers;
mod chat_deltas;
mod golden;
mod ollama;
mod refusals;
mod schema_rules;
mod schemas;
mod scripts;
mod stage;
mod stream_faults;
