//! From configuration to running servers: plans, states, timing and list selection.

mod list_selection;
mod planning;
mod starting;
mod timing;
