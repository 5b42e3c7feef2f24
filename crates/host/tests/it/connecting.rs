//! From configuration to running servers: plans, states, timing and list selection.

mod planning;
mod starting;
mod timing;
mod list_selection;
