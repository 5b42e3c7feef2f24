//! Tests that measure real time, and so run alone.

mod chaos;
