//! The `toolway` program.
fn main() {}
