//! It works with what people run: each story against a server we did not write.

mod everything;
mod fastmcp;
mod filesystem;
mod memory;
mod python_sdk;
mod rmcp;
mod time;
