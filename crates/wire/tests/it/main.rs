//! The stories of the wire, told against both downstreams at once.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a story that cannot go on says so by panicking")]

mod ahead;
mod batches;
mod by_hand;
mod callers;
mod dialects;
mod doors;
mod endings;
mod endings_of_servers;
mod every_way;
mod four_combinations;
mod giving_up;
mod golden_corpus;
mod hostile;
mod in_pieces;
mod kept_quiet;
mod keys;
mod leaving;
mod left_alone;
mod lines;
mod odd_answers;
mod oracle;
mod parking;
mod relay;
mod resuming;
mod rounds;
mod service;
mod sessions;
mod slow_readers;
mod sockets;
mod standing;
mod subscribing;
mod tasks;
mod ways;
