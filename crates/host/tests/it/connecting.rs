//! From what is wanted to what runs: plans, states, and servers that keep nobody waiting.

mod planning;
mod starting;
mod timing;
mod visiting;
