//! A stdio server that misbehaves in the way that its first argument names.
//!
//! The second argument, if any, is a file to which it logs every start and every received message.
//! `toolway_testkit::odd::stdio` lists the oddities.

use std::{env, io, path::PathBuf};

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let what = arguments.next().and_then(|argument| argument.into_string().ok());
    let what = what.ok_or_else(|| io::Error::other("usage: odd-server <oddity>[:<argument>] [<record>]"))?;
    let record = arguments.next().map(PathBuf::from);
    toolway_testkit::odd::stdio::run(&what, record.as_deref())
}
