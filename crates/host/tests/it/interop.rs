//! Interoperability tests with third-party servers.

mod everything;
mod fastmcp;
mod filesystem;
mod memory;
mod python_sdk;
mod rmcp;
mod time;
