//! The gateway from outside: real sockets in front, real servers behind.
#![expect(clippy::unwrap_used, reason = "what a story tells with is part of the test")]

mod bridge;
mod callers;
mod counting;
mod crossing;
mod differential;
mod fairness;
mod guards;
mod hidden;
mod hostile;
mod hostile_servers;
mod knocking;
mod leaving;
mod lists;
mod over_http;
mod own_lists;
mod own_views;
mod pages_of_tools;
mod person;
mod scripted;
mod stage;
mod tap;
mod tasks_listed;
mod two_callers;
mod usual_logs;
