//! The program, run as a person runs it.

mod demo;
