//! Tests of the gateway over real sockets, with real servers.
#![expect(clippy::unwrap_used, reason = "test setup may panic")]

mod bridge;
mod budget;
mod caller_lists;
mod caller_views;
mod callers;
mod cleanup;
mod client_approvals;
mod client_roots;
mod closed_methods;
mod configured_roots;
mod default_log_level;
mod differential;
mod eras;
mod fairness;
mod first_lists;
mod guards;
mod hostile;
mod hostile_servers;
mod kept;
mod lists;
mod metrics_and_log;
mod outcomes;
mod over_http;
mod raw_client;
mod scripted;
mod scripted_user;
mod session_callers;
mod skills;
mod tap;
mod task_list;
mod test_gateway;
mod two_callers;
mod ui_pages;
mod validation;
mod visibility;
