//! Integration tests of the wire crate, over both sides.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue panics")]

mod batches;
mod cancellation;
mod dialects;
mod every_transport;
mod four_combinations;
mod golden_corpus;
mod hidden_secrets;
mod hostile_clients;
mod http_rejections;
mod idle_connections;
mod idle_sessions;
mod lost_sessions;
mod oracle;
mod outcomes;
mod outgoing_http;
mod parked_calls;
mod raw_clients;
mod relay;
mod resumed_streams;
mod routes;
mod scripted_server;
mod server_request_keys;
mod server_request_rounds;
mod shutdown;
mod slow_readers;
mod socket_clients;
mod split_bodies;
mod standing_stream;
mod stdio_clients;
mod subscriptions;
mod supplied_answers;
mod tasks;
mod test_service;
mod unusual_responses;
mod write_marks;
