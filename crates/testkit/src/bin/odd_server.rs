//! A server over standard input and output that is odd in the way its first argument says.
//!
//! The second argument, if any, is the file in which it notes every start and every message it hears. Which oddities
//! there are is told in `toolway_testkit::odd::line`.

use std::{env, io, path::PathBuf};

fn main() -> io::Result<()> {
    let mut words = env::args_os().skip(1);
    let what = words.next().and_then(|word| word.into_string().ok());
    let what = what.ok_or_else(|| io::Error::other("usage: odd-server <oddity>[:<argument>] [<record>]"))?;
    let record = words.next().map(PathBuf::from);
    toolway_testkit::odd::line::run(&what, record.as_deref())
}
