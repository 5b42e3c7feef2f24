//! The program, run as a person runs it: the real binary, a home of its own, the expected text in the test.

mod arguments;
mod calling;
mod demo;
mod everything;
mod exit_codes;
mod home;
mod hostile;
mod listing;
mod reading;
mod showing;
