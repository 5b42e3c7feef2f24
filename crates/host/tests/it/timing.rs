//! Stories that measure real time, and so have the machine to themselves.

mod chaos;
