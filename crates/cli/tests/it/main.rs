//! Tests of the real binary: each runs in its own home directory and compares the output.
#![expect(
    clippy::expect_used,
    clippy::needless_pass_by_value,
    clippy::unwrap_used,
    reason = "test helpers are part of the test"
)]

mod ad_hoc_servers;
mod arguments;
mod both_eras;
mod calling;
mod captures;
mod chaos;
mod chat;
mod chat_keys;
mod chat_screen;
mod client_settings;
mod completion;
mod configuring;
mod console;
mod console_sign_in;
mod control_socket;
mod conversation_bodies;
mod demo;
mod diagnosis;
mod exit_codes;
mod file_shapes;
mod filtering;
mod first_lists;
mod gateway;
mod guides;
mod history;
mod home;
mod hostile;
mod import_offer;
mod importing;
mod inbox;
mod interop_browser;
mod interop_clients;
mod interop_hosts;
mod interop_keychain;
mod invalid_entries;
mod listing;
mod logging;
mod many_servers;
mod models;
mod offered_tools;
mod own_commands;
mod plain_words;
mod policy_rules;
mod process_memory;
mod project_policy;
mod project_servers;
mod reading;
mod recording;
mod recording_audit;
mod recording_crash;
mod recording_required;
mod recording_ways;
mod records_at_terminal;
mod reference;
mod roots;
mod run;
mod same_user;
mod sampling;
mod secrets;
mod server_everything;
mod servers;
mod serving;
mod shells;
mod sign_in_fixture;
mod signing_in;
mod signing_in_clients;
mod snippets;
mod stdio_client;
mod stored_secrets;
mod team_address;
mod team_backup;
mod team_keys;
mod team_unit;
mod terminal;
mod terminal_approvals;
mod terminal_forms;
mod terminal_output;
mod terminal_tasks;
mod timing;
mod unusable_urls;
