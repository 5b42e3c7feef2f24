//! Stories of the console over a real listener.
